"""From a recorder's sums to a result: what the world looks like at the end, and the whole story."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from rescheduler.labels import (
    CORDONED_BY,
    MIGRATION_ID,
    MIGRATION_STATUS,
    ORIGINAL_POD,
    PREVIOUS_DELETION_COST,
)
from rescheduler.migration.migration_labels import IN_PROGRESS
from rescheduler.migration.migration_object import Phase
from rescheduler.settings import NodeLabel
from rescheduler.simulation.cluster.json_objects import (
    Json,
    annotations_of,
    controller_of,
    is_deleting,
    labels_of,
)
from rescheduler.simulation.results.result import Compared, Figures, Leftovers, Result, Series

Objects = Mapping[str, Json]


def leftovers_in(
    pods: Objects, budgets: Objects, nodes: Objects, migrations: Objects, label: NodeLabel
) -> Leftovers:
    """What carries the mark of a move that is no longer under way."""
    under_way = {
        each["metadata"]["uid"]
        for each in migrations.values()
        if (each.get("status") or {}).get("phase") in (Phase.IN_PROGRESS, Phase.PENDING)
    }
    left = {key: pod for key, pod in pods.items() if is_left(pod, under_way)}
    return Leftovers(
        marks=_sorted(key for key, pod in left.items() if not is_extra(pod)),
        temporary_budgets=_sorted(
            key
            for key, budget in budgets.items()
            if labels_of(budget).get(MIGRATION_ID, "") not in {"", *under_way}
        ),
        extra_pods=_sorted(key for key, pod in left.items() if is_extra(pod)),
        cordons=_sorted(
            name
            for name, node in nodes.items()
            if CORDONED_BY in annotations_of(node) and not label.is_in(dict(labels_of(node)))
        ),
    )


def is_left(pod: Json, under_way: set[str]) -> bool:
    """Whether a pod carries what a move should have taken off again."""
    labels = labels_of(pod)
    if is_deleting(pod) or labels.get(MIGRATION_ID) in under_way:
        return False
    is_marked = labels.get(MIGRATION_STATUS) == IN_PROGRESS
    return is_marked or PREVIOUS_DELETION_COST in annotations_of(pod)


def is_extra(pod: Json) -> bool:
    """Whether a move has made it, and no workload has taken it over."""
    return ORIGINAL_POD in annotations_of(pod) and controller_of(pod) is None


def figures_of(series: Series) -> Figures:
    """A series in a few numbers."""
    if not series:
        return Figures(0.0, 0.0, 0.0, 0.0)
    values = [point.value for point in series]
    mean = round(sum(values) / len(values), 6)
    return Figures(values[0], mean, values[-1], max(values))


def compared(result: Result) -> Compared:
    """What is compared between policies."""
    summary = result.summary
    return Compared(
        policy=result.policy,
        mean_imbalance=summary["imbalance"].mean,
        last_imbalance=summary["imbalance"].last,
        mean_nodes_in_use=summary["nodesInUse"].mean,
        mean_cost=summary["cost"].mean,
        moves=result.migrations.by_phase.get(Phase.COMPLETED, 0),
        pending_pod_seconds=result.pending.pod_seconds,
        moments_below_desired=result.moments_below_desired.total,
        own_moments_below_desired=result.own_moments_below_desired.total,
    )


def as_json(results: Sequence[Result], is_comparison: bool) -> str:
    """The result as other programs read it; of several runs all of them, and what to compare."""
    shown: Any = results[0]
    if is_comparison:
        shown = {"comparison": [compared(each) for each in results], "runs": results}
    return msgspec.json.format(msgspec.json.encode(shown)).decode() + "\n"


def _sorted(keys: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(keys))
