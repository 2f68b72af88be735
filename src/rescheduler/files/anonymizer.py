"""Rename everything in a cluster file that could show whose cluster it is.

Names, uids, label values, the keys of private labels, addresses and volume handles are replaced;
quantities, times, small numbers and the words that Kubernetes itself defines stay. The same text is
always replaced by the same one, whatever its role, so a pod and its node, a selector and the
labels it selects, a claim and its volume still agree: plans for the anonymized cluster are the
same, up to ties. Resource names stay, because they decide how a resource is counted.

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

from rescheduler.labels import (
    CONTROL_PLANE_ROLES,
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

WELL_KNOWN_DOMAINS = (
    "kubernetes.io",
    "k8s.io",
    "x-k8s.io",
    "karpenter.sh",
    "karpenter.k8s.aws",
    "amazonaws.com",
    "csi.aws.com",
    "cloud.google.com",
    "gke.io",
    "azure.com",
    "rescheduler.dev",
)

WELL_KNOWN_NAMES = frozenset(
    (
        *("", "true", "false", "default", "kube-system", "kube-public", "kube-node-lease"),
        *("system-cluster-critical", "system-node-critical"),
        *("default-scheduler", "rescheduler-scheduler"),
        # How a required node affinity names a node.
        "metadata.name",
        # Not addresses of anyone.
        *("0.0.0.0", "::", "127.0.0.1", "::1"),
        # Drivers that volumes of built-in types are counted against.
        *("ebs.csi.aws.com", "pd.csi.storage.gke.io", "disk.csi.azure.com", "file.csi.azure.com"),
        *("cinder.csi.openstack.org", "csi.vsphere.vmware.com", "pxd.portworx.com"),
    )
)

# Domains of Kubernetes in which people choose the names themselves.
DOMAINS_OF_CHOSEN_NAMES = frozenset(
    (
        "node-role.kubernetes.io",
        "node-restriction.kubernetes.io",
        "container.apparmor.security.beta.kubernetes.io",
    )
)
WELL_KNOWN_ROLES = frozenset(
    (*CONTROL_PLANE_ROLES, "node-role.kubernetes.io/node", "node-role.kubernetes.io/worker")
)
# Domains of labels that say how big a machine is, in numbers that selectors compare.
DOMAINS_OF_SIZES = frozenset(
    ("karpenter.k8s.aws", "karpenter.azure.com", "feature.node.kubernetes.io")
)

# A volume's zone label may hold several zones.
ZONE_SEPARATOR = "__"

# Labels and annotations whose values are words with a meaning or numbers, not names.
MEANINGFUL_KEYS = frozenset(
    (
        SAFE_TO_EVICT,
        DO_NOT_DISRUPT,
        HANDOFF,
        MOVE_COST,
        NODE_COST,
        MAINTENANCE,
        MIGRATION_STATUS,
        RESCHEDULING,
        MIGRATED_PLUGINS,
    )
)

# Fields with words that Kubernetes defines, quantities, or times.
_KEPT_FIELDS = frozenset(
    (
        *("accessModes", "allocatable", "allocatedResources", "apiVersion", "capacity"),
        *("creationTimestamp", "declaredFeatures", "deletionTimestamp", "effect", "kind"),
        *("lastTransitionTime", "limits", "maxSurge", "maxUnavailable", "minAvailable"),
        *("nodeAffinityPolicy", "nodeTaintsPolicy", "operator", "overhead", "phase", "protocol"),
        *(
            "requests",
            "resourceVersion",
            "restartPolicy",
            "unhealthyPodEvictionPolicy",
            "volumeBindingMode",
        ),
        *("volumeMode", "whenUnsatisfiable"),
    )
)
# Fields with a word. Controllers of others write words of their own there.
_WORD_FIELDS = frozenset(("reason", "status", "type"))
_WORDS = frozenset(
    (
        *("True", "False", "Unknown"),
        # Conditions of nodes, pods, workloads and budgets.
        *("Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"),
        *("PodScheduled", "Initialized", "ContainersReady", "PodReadyToStartContainers"),
        *("DisruptionTarget", "PodResizePending", "PodResizeInProgress", "DisruptionAllowed"),
        *("Available", "Progressing", "ReplicaFailure", "Complete", "Failed", "Suspended"),
        # Reasons.
        *("KubeletReady", "KubeletNotReady", "NodeStatusUnknown", "Unschedulable"),
        *("SchedulingGated", "PodCompleted", "ContainersNotReady", "Infeasible", "Deferred"),
        # How workloads replace pods, and what Services are.
        *("RollingUpdate", "Recreate", "OnDelete"),
        *("ClusterIP", "NodePort", "LoadBalancer", "ExternalName"),
    )
)
# Fields whose keys are names as well.
_LABEL_FIELDS = frozenset(("annotations", "disruptedPods", "labels", "matchLabels", "nodeSelector"))

_WHOLE_NUMBER = re.compile(r"[+-]?\d+", re.ASCII)
_SMALL_NUMBER = re.compile(r"[+-]?\d{1,3}", re.ASCII)


class Anonymizer:
    """Renames objects consistently. Without the salt, nobody can find out what a name was.

    Give it pods before claims: a pod's ephemeral volume decides what its claim must be called.
    """

    def __init__(self, salt: bytes) -> None:
        self._key = blake2b(salt, digest_size=32).digest()
        self._composed: dict[str, str] = {}

    def anonymized(self, obj: JsonObject) -> JsonObject:
        """The object with everything renamed that could identify it."""
        if obj.get("kind") == "Pod":
            self._compose_claim_names(obj)
        return {field: self._value(field, value) for field, value in obj.items()}

    def name(self, text: str) -> str:
        """The replacement of a text: a name that Kubernetes accepts everywhere."""
        if self._is_harmless(text):
            return text
        domain, _, chosen = text.partition("/")
        if domain in DOMAINS_OF_CHOSEN_NAMES:
            return f"{domain}/{self.name(chosen)}"
        if ZONE_SEPARATOR in text:
            return ZONE_SEPARATOR.join(map(self.name, text.split(ZONE_SEPARATOR)))
        return self._composed.get(text) or self._random_name(text)

    def _random_name(self, text: str) -> str:
        digest = blake2b(text.encode(), key=self._key, digest_size=10).digest()
        return "x" + b32encode(digest).decode().lower()

    def _is_harmless(self, text: str) -> bool:
        if text in WELL_KNOWN_NAMES or text in WELL_KNOWN_ROLES or _SMALL_NUMBER.fullmatch(text):
            return True
        domain, slash, _ = text.partition("/")
        return bool(slash) and domain not in DOMAINS_OF_CHOSEN_NAMES and is_well_known(domain)

    def _compose_claim_names(self, pod: JsonObject) -> None:
        """Kubernetes finds the claim of an ephemeral volume by the names of pod and volume."""
        name = pod.get("metadata", {}).get("name", "")
        for volume in pod.get("spec", {}).get("volumes", ()):
            if "ephemeral" in volume:
                volume_name = volume.get("name", "")
                composed = f"{self.name(name)}-{self.name(volume_name)}"
                self._composed[f"{name}-{volume_name}"] = composed

    def _value(self, field: str, value: Any) -> Any:
        if field in _KEPT_FIELDS:
            return value
        if isinstance(value, str):
            return value if field in _WORD_FIELDS and value in _WORDS else self.name(value)
        if isinstance(value, list):
            return [self._value("", item) for item in value]
        if isinstance(value, dict):
            return self._mapping(field, value)
        return value

    def _mapping(self, field: str, value: JsonObject) -> JsonObject:
        if field in _LABEL_FIELDS or (field == "selector" and _is_plain(value)):
            return {self.name(key): self._label_value(key, text) for key, text in value.items()}
        if "uid" in value and "kind" in value:
            return self._owner(value)
        if value.get("key") in MEANINGFUL_KEYS or _compares_sizes(value):
            return value
        return {key: self._value(key, inner) for key, inner in value.items()}

    def _label_value(self, key: str, value: str) -> str:
        return value if key in MEANINGFUL_KEYS or _is_size(key, value) else self.name(value)

    def _owner(self, reference: JsonObject) -> JsonObject:
        """An owner reference; a custom kind shows whose it is, so it is renamed."""
        renamed = {key: self._value(key, inner) for key, inner in reference.items()}
        group, _, version = reference.get("apiVersion", "").rpartition("/")
        if "." in group and not is_well_known(group):
            renamed["apiVersion"] = f"{self.name(group)}/{version}"
            # Other groups have DaemonSets and Jobs too, and planning treats them as such.
            if reference["kind"] not in KIND_BY_NAME:
                renamed["kind"] = self.name(reference["kind"])
        return renamed


def is_well_known(domain: str) -> bool:
    """Whether keys in this domain say nothing about whose cluster it is."""
    return domain.endswith(WELL_KNOWN_DOMAINS) and any(
        domain == known or domain.endswith(f".{known}") for known in WELL_KNOWN_DOMAINS
    )


def _is_size(key: str, value: str) -> bool:
    """Whether a label says how big a machine is."""
    return key.partition("/")[0] in DOMAINS_OF_SIZES and bool(_WHOLE_NUMBER.fullmatch(value))


def _compares_sizes(requirement: JsonObject) -> bool:
    """Whether it is a requirement for the size of machines, and has nothing else."""
    key, values = requirement.get("key"), requirement.get("values")
    if not isinstance(key, str) or not isinstance(values, list) or not values:
        return False
    return all(_is_size(key, value) for value in values)


def _is_plain(selector: JsonObject) -> bool:
    """Whether it is a ReplicationController's: labels, and no expressions."""
    values: Iterable[Any] = selector.values()
    return all(isinstance(value, str) for value in values)
