"""What the server adds to new pods: defaults, a priority, a status."""

from typing import Any

from rescheduler.labels import NOT_READY_TAINT, UNREACHABLE_TAINT
from rescheduler.simulation.cluster.json_objects import Json, condition
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
PENDING: Json = {"phase": "Pending"}
GATED_MESSAGE = "Scheduling is blocked due to non-empty scheduling gates"


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
    return without_empty_gates({**spec, **missing} if missing else spec)


def without_empty_gates(spec: Json) -> Json:
    """A spec in which an empty list of gates is absent; the same object if there is none."""
    if spec.get("schedulingGates", True):
        return spec
    return {name: value for name, value in spec.items() if name != "schedulingGates"}


def status_of_new_pod(spec: Json, now: str) -> Json:
    """The status of a new pod: the server itself says that it is gated."""
    if not spec.get("schedulingGates"):
        return PENDING
    gated = condition("PodScheduled", "False", now, "SchedulingGated", GATED_MESSAGE)
    return {**PENDING, "conditions": [gated]}


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
        return of_class(classes[name]) if name in classes else {}
    default = next((value for value in classes.values() if value.get("globalDefault")), None)
    if default is None:
        return {"priority": 0}
    return {"priorityClassName": default["metadata"]["name"], **of_class(default)}


def of_class(priority_class: Json) -> Json:
    """What pods of a priority class get from it."""
    added = {"priority": priority_class["value"]}
    if "preemptionPolicy" in priority_class:
        added["preemptionPolicy"] = priority_class["preemptionPolicy"]
    return added
