# mypy: disable-error-code="misc"
# (mypy does not see that structs inherit being frozen)
"""Steering: a replacement is told where its migration would like it to run.

A wish and not a need: if the target has filled up meanwhile, the pod still finds a place.
"""

from datetime import datetime
from typing import Any

from rescheduler.labels import MIGRATION_ID
from rescheduler.migration import migration_labels
from rescheduler.migration.migration_object import Migration
from rescheduler.migration.moving_pod import PodMeta
from rescheduler.migration.replacement import (
    existed_before,
    has_same_role,
    waits_for_replacement,
)

PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
NODE_NAME = "metadata.name"
TO_TARGET, FROM_SOURCE = 100, 50

Body = dict[str, Any]
Affinity = dict[str, Body | None]


class NewPodMeta(PodMeta):
    """A pod's metadata before it exists: it may not have its name yet, only how that begins."""

    name: str = ""


def may_be_steered(pod: PodMeta, migration: Migration) -> bool:
    """Whether a new pod is one that this migration waits for."""
    return (
        waits_for_replacement(migration)
        and MIGRATION_ID not in pod.labels
        and not existed_before(pod, migration)
        and has_same_role(pod, migration)
    )


def steering_patch(
    pod: PodMeta, affinity: Affinity | None, migration: Migration, now: datetime
) -> list[Body]:
    """A JSON patch that marks a pod as the replacement and gives it its wishes."""
    marked = migration_labels.steered_patch(migration, now)["metadata"]
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
