"""Blocker: why a pod must stay."""

from typing import NamedTuple

BEING_DELETED = "BeingDeleted"
BEING_MIGRATED = "BeingMigrated"
MOVE_LIMIT = "MoveLimit"
MOVE_UNDER_WAY = "MoveUnderWay"
NAMESPACE_LIMIT = "NamespaceLimit"
NODE_LIMIT = "NodeLimit"
ONE_AT_A_TIME = "OneAtATime"
WORKLOAD_LIMIT = "WorkloadLimit"
WORKLOAD_WAITS = "WorkloadWaits"

PASSING = frozenset(
    {
        BEING_DELETED,
        BEING_MIGRATED,
        MOVE_LIMIT,
        MOVE_UNDER_WAY,
        NAMESPACE_LIMIT,
        NODE_LIMIT,
        ONE_AT_A_TIME,
        WORKLOAD_LIMIT,
        WORKLOAD_WAITS,
    }
)
"""The names of blockers that end by themselves: the pod is leaving, or waits for its turn."""

OF_NODES = frozenset({"DaemonSetPod", "StaticPod"})
"""The names of blockers of pods that belong to their nodes: nobody expects that they move."""

LEFT_ALONE = OF_NODES | {
    "ExcludedBySelector",
    "ExcludedNamespace",
    "ReschedulingDisabled",
    "SystemPod",
}
"""The names of blockers of pods that are to be left alone, whatever rules they break."""


class Blocker(NamedTuple):
    """Why a pod must stay: a name to count by, and a sentence for people."""

    name: str
    detail: str
