"""Helpers for objects that are JSON values."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import msgspec

from rescheduler.model.objects import LabelSelector
from rescheduler.model.selectors import matches

Json = dict[str, Any]

NO_LABELS: Mapping[str, str] = {}


def key_of(value: Json) -> str:
    """`namespace/name`, or the name alone."""
    metadata = value["metadata"]
    namespace = metadata.get("namespace")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])


def uid_of(value: Json) -> str:
    """The uid, which every stored object has."""
    uid: str = value["metadata"]["uid"]
    return uid


def labels_of(value: Json) -> Mapping[str, str]:
    """Its labels; empty if it has none."""
    return value["metadata"].get("labels") or NO_LABELS


def annotations_of(value: Json) -> Mapping[str, str]:
    """Its annotations; empty if it has none."""
    return value["metadata"].get("annotations") or NO_LABELS


def controller_of(value: Json) -> Json | None:
    """The owner reference of its controller, if it has one."""
    owner: Json
    for owner in value["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            return owner
    return None


def reference_to(owner: Json) -> Json:
    """The owner reference of an object that `owner` controls."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def is_deleting(value: Json) -> bool:
    """Whether it has a deletion timestamp."""
    return "deletionTimestamp" in value["metadata"]


def phase_of(pod: Json) -> str:
    """The phase of a pod; Pending if it has none."""
    phase: str = pod["status"].get("phase", "Pending")
    return phase


def is_finished(pod: Json) -> bool:
    """Whether a pod has succeeded or failed."""
    return pod["status"].get("phase") in ("Succeeded", "Failed")


def is_active(pod: Json) -> bool:
    """Whether a pod counts for its controller: neither finished nor being deleted."""
    return "deletionTimestamp" not in pod["metadata"] and not is_finished(pod)


def gates_of(pod: Json) -> list[str]:
    """The names of a pod's scheduling gates."""
    return [gate["name"] for gate in pod["spec"].get("schedulingGates") or ()]


def nominated_node_of(pod: Json) -> str:
    """The node that is nominated for a pod; empty if there is none."""
    node: str = pod["status"].get("nominatedNodeName", "")
    return node


def without_nomination(status: Json) -> Json:
    """A pod's status without a nominated node; the same object if it has none."""
    if "nominatedNodeName" not in status:
        return status
    return {name: value for name, value in status.items() if name != "nominatedNodeName"}


def condition_of(value: Json, type: str) -> Json | None:
    """The condition of this type, or None."""
    condition: Json
    for condition in (value.get("status") or {}).get("conditions") or ():
        if condition["type"] == type:
            return condition
    return None


def is_ready(value: Json) -> bool:
    """Whether its Ready condition is True. A pod that is being deleted may still be Ready."""
    ready = condition_of(value, "Ready")
    return ready is not None and ready["status"] == "True"


def ready_since(pod: Json) -> str:
    """Since when a pod is Ready; empty if it is not."""
    ready = condition_of(pod, "Ready")
    return ready.get("lastTransitionTime", "") if ready and ready["status"] == "True" else ""


def with_conditions(status: Json, changed: Iterable[Json]) -> Json:
    """A status with these conditions; one whose status stays keeps its transition time."""
    conditions = {old["type"]: old for old in status.get("conditions") or ()}
    for new in changed:
        old = conditions.get(new["type"])
        if old is not None and old["status"] == new["status"]:
            new = {**new, "lastTransitionTime": old.get("lastTransitionTime")}
        conditions[new["type"]] = new
    return {**status, "conditions": list(conditions.values())}


def condition(type: str, status: str, since: str, reason: str = "", message: str = "") -> Json:
    """A condition; without an empty reason or message."""
    built = {"type": type, "status": status, "lastTransitionTime": since}
    if reason:
        built["reason"] = reason
    if message:
        built["message"] = message
    return built


def matches_labels(selector: LabelSelector, value: Json) -> bool:
    """Whether a selector matches the labels of an object."""
    return matches(selector, labels_of(value))


class SelectorCache:
    """Selectors as structs, converted once for each JSON value in the store."""

    def __init__(self) -> None:
        self._selectors: dict[int, tuple[Json, LabelSelector]] = {}

    def of(self, selector: Json) -> LabelSelector:
        """The struct; plain labels, as in a ReplicationController, are matchLabels."""
        found = self._selectors.get(id(selector))
        if found is None or found[0] is not selector:
            if len(self._selectors) > 20_000:
                self._selectors.clear()
            found = self._selectors[id(selector)] = selector, selector_from(selector)
        return found[1]


def selector_from(selector: Json) -> LabelSelector:
    """See `SelectorCache.of`."""
    is_plain = not set(selector) <= {"matchLabels", "matchExpressions"}
    return msgspec.convert({"matchLabels": selector} if is_plain else selector, LabelSelector)


@lru_cache(maxsize=4096)
def parse_time(text: str) -> datetime:
    """A Kubernetes timestamp as a datetime."""
    return datetime.fromisoformat(text)


@lru_cache(maxsize=16)
def format_time(time: datetime) -> str:
    """A Kubernetes timestamp, in whole seconds."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def scaled_value(value: int | str, total: int, *, round_up: bool) -> int:
    """A number as it is, or a percentage of the total."""
    if isinstance(value, int):
        return value
    part = int(value.removesuffix("%")) * total
    return -(-part // 100) if round_up else part // 100
