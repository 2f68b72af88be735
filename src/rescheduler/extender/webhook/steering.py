# mypy: disable-error-code="misc"
# (mypy does not see that structs inherit being frozen)
"""Steering: a replacement is told where its migration would like it to run.

A wish and not a need: if the target has filled up meanwhile, the pod still finds a place.
"""

from datetime import datetime
from typing import Any

from rescheduler.labels import MIGRATION_ID
from rescheduler.migration import pod_marks
from rescheduler.migration.migration_object import Migration, Step
from rescheduler.migration.moving_pod import PodMeta
from rescheduler.migration.state_machine import status_transitions
from rescheduler.migration.state_machine.eviction import has_its_part
from rescheduler.model.moves import Mode

PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
NODE_NAME = "metadata.name"
TO_TARGET, FROM_SOURCE = 100, 50

Body = dict[str, Any]
Affinity = dict[str, Body | None]


class NewPodMeta(PodMeta):
    """A pod's metadata before it exists: it may not have its name yet, only how that begins."""

    name: str = ""


def waits_for_replacement(migration: Migration) -> bool:
    """Whether a pod that appears now may be the one that takes the evicted one's place.

    `Evicting` counts: the replacement can be there before the status says that the old pod went.
    """
    status = migration.status
    return (
        migration.is_in_progress
        and status.mode == Mode.EVICT
        and status.step in (Step.EVICTING, Step.LANDING)
    )


def may_be_steered(pod: PodMeta, migration: Migration) -> bool:
    """Whether a new pod is one that this migration waits for."""
    return (
        waits_for_replacement(migration)
        and MIGRATION_ID not in pod.labels
        and not was_there_before(pod, migration)
        and has_its_part(pod, migration)
    )


def was_there_before(pod: PodMeta, migration: Migration) -> bool:
    """Whether a pod is older than the migration: one that has waited for a place all along."""
    started = status_transitions.time_of(migration, status_transitions.STARTED)
    made = pod.creation_timestamp
    # The server keeps whole seconds.
    return made is not None and started is not None and made < started.replace(microsecond=0)


def steering_patch(
    pod: PodMeta, affinity: Affinity | None, migration: Migration, now: datetime
) -> list[Body]:
    """A JSON patch that marks a pod as the replacement and gives it its wishes."""
    marked = pod_marks.steering(migration, now)["metadata"]
    return [
        # Each replaces the whole value, which may be missing: a patch cannot add to nothing.
        added("/metadata/labels", {**pod.labels, **marked["labels"]}),
        added("/metadata/annotations", {**pod.annotations, **marked["annotations"]}),
        added("/spec/affinity", with_wishes(affinity, migration)),
    ]


def added(path: str, value: Body) -> Body:
    """One operation of a JSON patch."""
    return {"op": "add", "path": path, "value": value}


def with_wishes(affinity: Affinity | None, migration: Migration) -> Body:
    """A pod's affinity with ours beside what it prefers itself."""
    own = affinity or {}
    for_nodes = own.get("nodeAffinity") or {}
    preferred = [*(for_nodes.get(PREFERRED) or []), *wishes(migration)]
    return {**own, "nodeAffinity": {**for_nodes, PREFERRED: preferred}}


def wishes(migration: Migration) -> list[Body]:
    """The target most of all, and anything rather than the node it comes from."""
    made = [wish(TO_TARGET, "In", migration.spec.target_node)]
    if migration.status.source_node:
        made.append(wish(FROM_SOURCE, "NotIn", migration.status.source_node))
    return made


def wish(weight: int, operator: str, node: str) -> Body:
    """A preferred term about one node."""
    by_name = {"key": NODE_NAME, "operator": operator, "values": [node]}
    return {"weight": weight, "preference": {"matchFields": [by_name]}}
