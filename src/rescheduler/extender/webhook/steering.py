# mypy: disable-error-code="misc"
# (mypy does not see that structs inherit being frozen)
"""Steering: the replacement of an evicted pod gets a preference for its migration's target.

A preference and no requirement: if the target has filled up meanwhile, the pod still finds a node.
"""

from datetime import datetime
from typing import Any

from rescheduler.migration import migration_labels
from rescheduler.migration.migration_object import Migration
from rescheduler.migration.moving_pod import PodMeta

PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
NODE_NAME = "metadata.name"
TARGET_WEIGHT, NOT_SOURCE_WEIGHT = 100, 50

Body = dict[str, Any]
Affinity = dict[str, Body | None]


class AdmittedPodMeta(PodMeta):
    """A pod's metadata at admission: its name may not be generated yet."""

    name: str = ""


def steering_patch(
    pod: PodMeta, affinity: Affinity | None, migration: Migration, now: datetime
) -> list[Body]:
    """A JSON patch that marks a pod as the replacement and adds the preferences."""
    marked = migration_labels.steered_patch(migration, now)["metadata"]
    return [
        # Whole values, because a JSON patch cannot add a key to a mapping that is missing.
        add("/metadata/labels", {**pod.labels, **marked["labels"]}),
        add("/metadata/annotations", {**pod.annotations, **marked["annotations"]}),
        add("/spec/affinity", with_preferences(affinity, migration)),
    ]


def add(path: str, value: Body) -> Body:
    """An `add` operation of a JSON patch; it replaces a value that exists."""
    return {"op": "add", "path": path, "value": value}


def with_preferences(affinity: Affinity | None, migration: Migration) -> Body:
    """A pod's affinity with our preferences after its own."""
    own = affinity or {}
    node_affinity = own.get("nodeAffinity") or {}
    preferred = [*(node_affinity.get(PREFERRED) or []), *node_preferences(migration)]
    return {**own, "nodeAffinity": {**node_affinity, PREFERRED: preferred}}


def node_preferences(migration: Migration) -> list[Body]:
    """The target first, and any other node rather than the source."""
    terms = [preferred_term(TARGET_WEIGHT, "In", migration.spec.target_node)]
    if migration.status.source_node:
        terms.append(preferred_term(NOT_SOURCE_WEIGHT, "NotIn", migration.status.source_node))
    return terms


def preferred_term(weight: int, operator: str, node: str) -> Body:
    """A preferred node affinity term about one node."""
    by_name = {"key": NODE_NAME, "operator": operator, "values": [node]}
    return {"weight": weight, "preference": {"matchFields": [by_name]}}
