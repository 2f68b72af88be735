"""Rename everything in a cluster file that could show whose cluster it is.

Names, uids, label values, the keys of private labels, private resources and kinds, addresses and
volume handles are replaced; quantities, times, small numbers, the words that Kubernetes itself
defines and what `well_known` lists stay. The same text is always replaced by the same one, whatever
its role, so a pod and its node, a selector and the labels it selects, a claim and its volume still
agree: plans for the anonymized cluster are the same, up to ties.

Larger numbers are often accounts, tenants or tickets, so they are replaced in label values as well,
except for the sizes of machines. A node affinity that compares numbers of more than three digits
(`Gt`, `Lt`) under a private key no longer matches.

What is not known to be harmless is renamed: a field that is added later is safe by default.
"""

import re
from base64 import b32encode
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

from rescheduler.files.well_known import (
    GROUPS,
    KEYS,
    KINDS,
    NAMES,
    RESOURCES,
    SIZE_KEYS,
    VERSION,
    WORDS,
)
from rescheduler.labels import (
    DO_NOT_DISRUPT,
    HANDOFF,
    MAINTENANCE,
    MIGRATED_PLUGINS,
    MIGRATION_STATUS,
    MOVE_COST,
    NODE_COST,
    RESCHEDULING,
    SAFE_TO_EVICT,
)
from rescheduler.model.kinds import KIND_BY_NAME

JsonObject = dict[str, Any]

# Domains of Kubernetes in which people choose the names themselves. What is in them stays there.
DOMAINS_OF_CHOSEN_NAMES = frozenset(
    (
        "node-role.kubernetes.io",
        "node-restriction.kubernetes.io",
        "container.apparmor.security.beta.kubernetes.io",
    )
)

# A volume's zone label may hold several zones.
ZONE_SEPARATOR = "__"

_WORD = re.compile("true|false|disabled|enabled|never|in-progress|completed")
_NUMBER = re.compile(r"[+-]?\d{1,12}(\.\d{1,6})?", re.ASCII)
_DURATION = re.compile(r"(\d{1,6}(ms|[hms]))+|Never", re.ASCII)
_PLUGINS = re.compile("|".join(map(re.escape, sorted(KEYS))))

MEANINGFUL_VALUES = {
    SAFE_TO_EVICT: _WORD,
    DO_NOT_DISRUPT: re.compile(f"{_WORD.pattern}|{_DURATION.pattern}", re.ASCII),
    HANDOFF: _WORD,
    MOVE_COST: _NUMBER,
    NODE_COST: _NUMBER,
    MAINTENANCE: _WORD,
    MIGRATION_STATUS: _WORD,
    RESCHEDULING: _WORD,
    MIGRATED_PLUGINS: re.compile(f"({_PLUGINS.pattern})(,({_PLUGINS.pattern}))*"),
}
"""Values of labels and annotations that are words with a meaning or numbers, not names."""

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)", re.ASCII)
_SHARE = re.compile(r"\d{1,9}%?", re.ASCII)
_QUANTITY = re.compile(r"[+-]?[\d.]{1,24}([eE][+-]?\d{1,3}|[numkMGTPE]i?)?", re.ASCII)

# Fields with quantities by resource.
_AMOUNT_FIELDS = frozenset(
    ("allocatable", "allocatedResources", "capacity", "limits", "overhead", "requests")
)
_FORMATS = {
    **dict.fromkeys(("creationTimestamp", "deletionTimestamp", "lastTransitionTime"), _TIME),
    **dict.fromkeys(("maxSurge", "maxUnavailable", "minAvailable"), _SHARE),
    "resourceVersion": re.compile(r"\d{1,20}", re.ASCII),
    # What kubelets can do; each is named in the source of Kubernetes.
    "declaredFeatures": re.compile(r"[A-Z][A-Za-z0-9]{0,60}(/[A-Z][A-Za-z0-9]{0,60})?"),
}
"""By field: what its texts look like if they are no names."""
_WORD_FIELDS = frozenset(
    (
        *("accessModes", "effect", "nodeAffinityPolicy", "nodeTaintsPolicy", "operator", "phase"),
        *("protocol", "reason", "restartPolicy", "status", "type", "unhealthyPodEvictionPolicy"),
        *("volumeBindingMode", "volumeMode", "whenUnsatisfiable"),
    )
)
"""Fields with a word. Controllers of others write words of their own there."""
# Fields whose keys are names as well.
_LABEL_FIELDS = frozenset(("annotations", "disruptedPods", "labels", "matchLabels", "nodeSelector"))

_WHOLE_NUMBER = re.compile(r"[+-]?\d+", re.ASCII)
_SMALL_NUMBER = re.compile(r"[+-]?\d{1,3}", re.ASCII)


class Anonymizer:
    """Renames objects consistently. Without the salt, nobody can find out what a name was.

    Give it pods before claims: a pod's ephemeral volume decides what its claim must be called.
    """

    def __init__(self, salt: bytes) -> None:
        self.kept: set[str] = set()
        """The names that were left as they are, for whoever wants to look at them."""
        self._key = blake2b(salt, digest_size=32).digest()
        self._composed: dict[str, str] = {}

    def anonymized(self, obj: JsonObject) -> JsonObject:
        """The object with everything renamed that could identify it."""
        if obj.get("kind") == "Pod":
            self._compose_claim_names(obj)
        return {field: self._value(field, value) for field, value in obj.items()}

    def name(self, text: str) -> str:
        """The replacement of a text: a name that Kubernetes accepts everywhere."""
        if _SMALL_NUMBER.fullmatch(text):
            return text
        if text in NAMES or text in KEYS or text in SIZE_KEYS:
            return self._kept(text)
        domain, _, chosen = text.partition("/")
        if domain in DOMAINS_OF_CHOSEN_NAMES:
            return f"{domain}/{self.name(chosen)}"
        if ZONE_SEPARATOR in text:
            return ZONE_SEPARATOR.join(map(self.name, text.split(ZONE_SEPARATOR)))
        return self._composed.get(text) or self._random_name(text)

    def _random_name(self, text: str) -> str:
        digest = blake2b(text.encode(), key=self._key, digest_size=10).digest()
        return "x" + b32encode(digest).decode().lower()

    def _kept(self, text: str) -> str:
        if text:
            self.kept.add(text)
        return text

    def _compose_claim_names(self, pod: JsonObject) -> None:
        """Kubernetes finds the claim of an ephemeral volume by the names of pod and volume."""
        name = pod.get("metadata", {}).get("name", "")
        for volume in pod.get("spec", {}).get("volumes", ()):
            if "ephemeral" in volume:
                volume_name = volume.get("name", "")
                composed = f"{self.name(name)}-{self.name(volume_name)}"
                self._composed[f"{name}-{volume_name}"] = composed

    def _value(self, field: str, value: Any) -> Any:
        if isinstance(value, str):
            return self._text(field, value)
        if isinstance(value, list):
            # Words and features come in lists as well; the objects in a list have fields.
            return [self._value(field, item) for item in value]
        if isinstance(value, dict):
            return self._mapping(field, value)
        return value

    def _text(self, field: str, text: str) -> str:
        if field in _WORD_FIELDS and text in WORDS:
            return text
        if field in _FORMATS and _FORMATS[field].fullmatch(text):
            return self._kept(text) if field == "declaredFeatures" else text
        if field == "kind" and text in KINDS:
            return self._kept(text)
        if field == "apiVersion":
            return self._api_version(text)
        return self.name(text)

    def _mapping(self, field: str, value: JsonObject) -> JsonObject:
        if field in _LABEL_FIELDS or (field == "selector" and _is_plain(value)):
            return {self.name(key): self._label_value(key, text) for key, text in value.items()}
        if field in _AMOUNT_FIELDS:
            return {self._resource(key): self._amount(amount) for key, amount in value.items()}
        if "uid" in value and "kind" in value:
            return self._owner(value)
        key, values = value.get("key"), value.get("values")
        if isinstance(key, str) and isinstance(values, list):
            compared = [self._label_value(key, each) for each in values]
            return {
                name: compared if name == "values" else self._value(name, inner)
                for name, inner in value.items()
            }
        if isinstance(key, str) and isinstance(value.get("value"), str):
            # A taint or a toleration.
            renamed = {name: self._value(name, inner) for name, inner in value.items()}
            return {**renamed, "value": self._label_value(key, value["value"])}
        return {key: self._value(key, inner) for key, inner in value.items()}

    def _label_value(self, key: str, value: Any) -> Any:
        if not isinstance(value, str):
            return self._value("", value)
        if key in SIZE_KEYS and _WHOLE_NUMBER.fullmatch(value):
            return value
        if key in MEANINGFUL_VALUES and MEANINGFUL_VALUES[key].fullmatch(value):
            return value
        return self.name(value)

    def _resource(self, name: str) -> str:
        """A resource. One that is renamed is counted as it was, by whether it has a domain."""
        if RESOURCES.fullmatch(name):
            return self._kept(name)
        domain, slash, rest = name.partition("/")
        if not slash:
            return self.name(name)
        return f"{self._random_name(domain)}.example/{self._random_name(rest)}"

    def _amount(self, amount: Any) -> Any:
        if isinstance(amount, str) and not _QUANTITY.fullmatch(amount):
            return self.name(amount)
        return self._value("", amount) if isinstance(amount, dict | list) else amount

    def _api_version(self, text: str) -> str:
        group, slash, version = text.rpartition("/")
        if VERSION.fullmatch(version) and group in GROUPS:
            return self._kept(text)
        known = VERSION.fullmatch(version)
        return f"{self.name(group)}{slash}{version if known else self.name(version)}"

    def _owner(self, reference: JsonObject) -> JsonObject:
        """An owner reference; a custom kind shows whose it is, so it is renamed."""
        renamed = {key: self._value(key, inner) for key, inner in reference.items()}
        # Other groups have DaemonSets and Jobs too, and planning treats them as such.
        if reference["kind"] not in KIND_BY_NAME:
            renamed["kind"] = self.name(reference["kind"])
        return renamed


def _is_plain(selector: JsonObject) -> bool:
    """Whether it is a ReplicationController's: labels, and no expressions."""
    values: Iterable[Any] = selector.values()
    return all(isinstance(value, str) for value in values)
