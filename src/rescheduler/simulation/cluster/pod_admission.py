"""What the server adds to an object that is created, and what it does not let anyone change."""

from typing import Any

from rescheduler.simulation.cluster.json_objects import Json
from rescheduler.simulation.cluster.object_store import ObjectStore

DEFAULT_GRACE_SECONDS = 30
# Written by the admission plugin DefaultTolerationSeconds on every pod that does not say otherwise.
DEFAULT_TOLERATIONS = [
    {
        "key": f"node.kubernetes.io/{word}",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 300,
    }
    for word in ("not-ready", "unreachable")
]
POD_DEFAULTS: Json = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": DEFAULT_GRACE_SECONDS,
    "schedulerName": "default-scheduler",
}
MUTABLE_SPEC_FIELDS = ("tolerations", "activeDeadlineSeconds", "terminationGracePeriodSeconds")
"""Of a pod's spec, besides images."""


def with_pod_defaults(spec: Json, store: ObjectStore) -> Json:
    """A pod's spec with what is left out; the very same if nothing is."""
    missing = {name: value for name, value in POD_DEFAULTS.items() if name not in spec}
    tolerations = spec.get("tolerations") or []
    patience = [each for each in DEFAULT_TOLERATIONS if not is_tolerated(each["key"], tolerations)]
    if patience:
        missing["tolerations"] = [*tolerations, *patience]
    if "priority" not in spec:
        missing |= priority_of(spec, store)
    return {**spec, **missing} if missing else spec


def is_tolerated(taint: Any, tolerations: list[Json]) -> bool:
    """Whether a NoExecute taint with this key is tolerated in some way."""
    return any(
        each.get("key") in (taint, "", None) and each.get("effect") in ("NoExecute", "", None)
        for each in tolerations
    )


def priority_of(spec: Json, store: ObjectStore) -> Json:
    """The priority that a pod's class stands for."""
    classes = store.all("PriorityClass")
    name = spec.get("priorityClassName")
    if name:
        return {"priority": classes[name]["value"]} if name in classes else {}
    default = next((each for each in classes.values() if each.get("globalDefault")), None)
    if default is None:
        return {"priority": 0}
    return {"priorityClassName": default["metadata"]["name"], "priority": default["value"]}


def forbidden_change(old: Json, new: Json) -> str:
    """Which field of a pod's spec was changed that never changes, or nothing."""
    before, after = old["spec"], new.get("spec") or {}
    if before is after:
        return ""
    for name in {**before, **after}:
        if name not in MUTABLE_SPEC_FIELDS and before.get(name) != after.get(name):
            if name == "containers" and without_images(before) == without_images(after):
                continue
            return str(name)
    return ""


def without_images(spec: Json) -> list[Json]:
    """A spec's containers but for their images."""
    return [{**each, "image": ""} for each in spec.get("containers") or ()]
