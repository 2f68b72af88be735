"""What moves have left behind in the cluster at the end of a run."""

from collections.abc import Iterable, Mapping

from rescheduler.labels import (
    CORDONED_BY,
    MIGRATION_ID,
    MIGRATION_STATUS,
    ORIGINAL_POD,
    PREVIOUS_DELETION_COST,
)
from rescheduler.migration.migration_labels import IN_PROGRESS
from rescheduler.migration.migration_object import Phase
from rescheduler.model.rules.node_availability import NodeLabel
from rescheduler.simulation.cluster.cluster import SimulatedCluster
from rescheduler.simulation.cluster.json_objects import (
    Json,
    annotations_of,
    controller_of,
    is_deleting,
    labels_of,
)
from rescheduler.simulation.results.result import Leftovers


def leftovers_in(cluster: SimulatedCluster, maintenance_label: NodeLabel) -> Leftovers:
    """Objects that carry the mark of a move that is no longer in progress."""
    in_progress = {
        migration["metadata"]["uid"]
        for migration in cluster.list("Migration").values()
        if (migration.get("status") or {}).get("phase") in (Phase.IN_PROGRESS, Phase.PENDING)
    }
    pods = [pod for pod in cluster.list("Pod").items() if _is_left_over(pod[1], in_progress)]
    return Leftovers(
        marks=_sorted(key for key, pod in pods if not _is_extra(pod)),
        temporary_budgets=_sorted(
            key
            for key, budget in cluster.list("PodDisruptionBudget").items()
            if labels_of(budget).get(MIGRATION_ID, "") not in {"", *in_progress}
        ),
        extra_pods=_sorted(key for key, pod in pods if _is_extra(pod)),
        cordons=_sorted(_forgotten_cordons(cluster.list("Node"), maintenance_label)),
    )


def _forgotten_cordons(nodes: Mapping[str, Json], maintenance_label: NodeLabel) -> Iterable[str]:
    for name, node in nodes.items():
        is_under_maintenance = maintenance_label.is_in(dict(labels_of(node)))
        if CORDONED_BY in annotations_of(node) and not is_under_maintenance:
            yield name


def _is_left_over(pod: Json, in_progress: set[str]) -> bool:
    """Whether a pod carries what a move should have removed again."""
    labels = labels_of(pod)
    if is_deleting(pod) or labels.get(MIGRATION_ID) in in_progress:
        return False
    is_marked = labels.get(MIGRATION_STATUS) == IN_PROGRESS
    return is_marked or PREVIOUS_DELETION_COST in annotations_of(pod)


def _is_extra(pod: Json) -> bool:
    """Whether a move created the pod, and no workload has adopted it."""
    return ORIGINAL_POD in annotations_of(pod) and controller_of(pod) is None


def _sorted(keys: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(keys))
