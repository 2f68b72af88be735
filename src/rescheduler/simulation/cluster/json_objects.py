"""Small questions about objects that are JSON values."""

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
    """Which very object it is."""
    uid: str = value["metadata"]["uid"]
    return uid


def labels_of(value: Json) -> Mapping[str, str]:
    """What it is labelled with."""
    return value["metadata"].get("labels") or NO_LABELS


def annotations_of(value: Json) -> Mapping[str, str]:
    """What is noted on it."""
    return value["metadata"].get("annotations") or NO_LABELS


def controller_of(value: Json) -> Json | None:
    """The reference to its one controller, if it has one."""
    owner: Json
    for owner in value["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            return owner
    return None


def reference_to(owner: Json) -> Json:
    """The reference by which an object says that `owner` controls it."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def is_deleting(value: Json) -> bool:
    """Whether it is on its way out."""
    return "deletionTimestamp" in value["metadata"]


def phase_of(pod: Json) -> str:
    """How far a pod is."""
    phase: str = pod["status"].get("phase", "Pending")
    return phase


def is_finished(pod: Json) -> bool:
    """Whether a pod's containers have ended for good."""
    return pod["status"].get("phase") in ("Succeeded", "Failed")


def is_active(pod: Json) -> bool:
    """Whether a pod counts for its controller."""
    return "deletionTimestamp" not in pod["metadata"] and not is_finished(pod)


def condition_of(value: Json, type: str) -> Json | None:
    """One of its conditions, if it has been judged."""
    condition: Json
    for condition in (value.get("status") or {}).get("conditions") or ():
        if condition["type"] == type:
            return condition
    return None


def is_ready(value: Json) -> bool:
    """Whether its Ready condition says so. A pod that is being deleted may still be Ready."""
    ready = condition_of(value, "Ready")
    return ready is not None and ready["status"] == "True"


def ready_since(pod: Json) -> str:
    """Since when a pod is Ready; nothing if it is not."""
    ready = condition_of(pod, "Ready")
    return ready.get("lastTransitionTime", "") if ready and ready["status"] == "True" else ""


def with_conditions(status: Json, changed: Iterable[Json]) -> Json:
    """A status with some conditions new; the time stays where only the reason has changed."""
    made = {each["type"]: each for each in status.get("conditions") or ()}
    for each in changed:
        before = made.get(each["type"])
        if before is not None and before["status"] == each["status"]:
            each = {**each, "lastTransitionTime": before.get("lastTransitionTime")}
        made[each["type"]] = each
    return {**status, "conditions": list(made.values())}


def condition(type: str, status: str, moment: str, reason: str = "", message: str = "") -> Json:
    """A condition."""
    made = {"type": type, "status": status, "lastTransitionTime": moment}
    if reason:
        made["reason"] = reason
    if message:
        made["message"] = message
    return made


def matches_labels(selector: LabelSelector, value: Json) -> bool:
    """Whether an object's labels are selected."""
    return matches(selector, labels_of(value))


class SelectorCache:
    """Selectors as structs, made once for each that is in the store."""

    def __init__(self) -> None:
        self._made: dict[int, tuple[Json, LabelSelector]] = {}

    def of(self, selector: Json) -> LabelSelector:
        """The selector; plain labels, such as a ReplicationController has, mean themselves."""
        found = self._made.get(id(selector))
        if found is None or found[0] is not selector:
            if len(self._made) > 20_000:
                self._made.clear()
            found = self._made[id(selector)] = selector, selector_from(selector)
        return found[1]


def selector_from(selector: Json) -> LabelSelector:
    """A selector as a struct."""
    is_plain = not set(selector) <= {"matchLabels", "matchExpressions"}
    return msgspec.convert({"matchLabels": selector} if is_plain else selector, LabelSelector)


@lru_cache(maxsize=4096)
def parse_time(text: str) -> datetime:
    """A time as Kubernetes writes it, read back."""
    return datetime.fromisoformat(text)


@lru_cache(maxsize=16)
def format_time(moment: datetime) -> str:
    """A time as Kubernetes writes it: in whole seconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def scaled_value(value: int | str, total: int, *, round_up: bool) -> int:
    """A number, or a percentage of the total."""
    if isinstance(value, int):
        return value
    part = int(value.removesuffix("%")) * total
    return -(-part // 100) if round_up else part // 100
