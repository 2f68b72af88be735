"""Defaults and admission of pods: what the server adds, and which fields are immutable."""

from typing import Any

from rescheduler.labels import NOT_READY_TAINT, UNREACHABLE_TAINT
from rescheduler.simulation.cluster.json_objects import Json
from rescheduler.simulation.cluster.object_store import ObjectStore

DEFAULT_GRACE_SECONDS = 30
# Added by the admission plugin DefaultTolerationSeconds.
DEFAULT_TOLERATIONS = [
    {
        "key": taint,
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 300,
    }
    for taint in (NOT_READY_TAINT, UNREACHABLE_TAINT)
]
POD_DEFAULTS: Json = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": DEFAULT_GRACE_SECONDS,
    "schedulerName": "default-scheduler",
}
MUTABLE_SPEC_FIELDS = ("tolerations", "activeDeadlineSeconds", "terminationGracePeriodSeconds")
"""Fields of a pod's spec that may change, besides images."""


def with_pod_defaults(spec: Json, store: ObjectStore) -> Json:
    """A pod's spec with defaults; the same object if nothing is missing."""
    missing = {name: value for name, value in POD_DEFAULTS.items() if name not in spec}
    tolerations = spec.get("tolerations") or []
    added = [
        default for default in DEFAULT_TOLERATIONS if not is_tolerated(default["key"], tolerations)
    ]
    if added:
        missing["tolerations"] = [*tolerations, *added]
    if "priority" not in spec:
        missing |= priority_of(spec, store)
    return {**spec, **missing} if missing else spec


def is_tolerated(taint: Any, tolerations: list[Json]) -> bool:
    """Whether a toleration applies to a NoExecute taint with this key."""
    return any(
        toleration.get("key") in (taint, "", None)
        and toleration.get("effect") in ("NoExecute", "", None)
        for toleration in tolerations
    )


def priority_of(spec: Json, store: ObjectStore) -> Json:
    """The priority of the pod's class, or of the default class."""
    classes = store.all("PriorityClass")
    name = spec.get("priorityClassName")
    if name:
        return {"priority": classes[name]["value"]} if name in classes else {}
    default = next((value for value in classes.values() if value.get("globalDefault")), None)
    if default is None:
        return {"priority": 0}
    return {"priorityClassName": default["metadata"]["name"], "priority": default["value"]}


def forbidden_change(old: Json, new: Json) -> str:
    """The immutable field of a pod's spec that was changed, or empty."""
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
    """The containers of a spec without their images."""
    return [{**container, "image": ""} for container in spec.get("containers") or ()]
