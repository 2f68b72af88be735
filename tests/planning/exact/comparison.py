"""Plans beside the exact optimum: how much of the possible improvement do they bring?"""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from rescheduler.files.policy_file import read_policy
from rescheduler.planning.plan import Plan
from rescheduler.planning.planner import make_plan
from rescheduler.settings import Policy
from testcluster.snapshots import snapshot_of
from tests.planning.exact.move_orders import has_order
from tests.planning.exact.objectives import MOVE_COST, STRATEGIES, value_of
from tests.planning.exact.optima import found_before
from tests.planning.exact.optimum import LONGEST_SECONDS, Optimum, solve
from tests.planning.exact.small_clusters import (
    CPU_UNIT_MILLICORES,
    MEMORY_UNIT_MIB,
    Counts,
    SmallCluster,
    generate_small_cluster,
    moved,
)

# What a policy has that says nothing of it.
PLANNING_TIMEOUT = "5s"
_SAME = 1e-6


@dataclass(frozen=True)
class Compared:
    """One cluster: what there was to gain, and what the plan gained."""

    strategy: str
    seed: int
    size: str
    most_moves: int
    moves: int
    before: float
    after: float
    best: float
    """The best end state that the solver found."""
    bound: float
    """No end state is better than this."""
    optimum_in_order: bool
    """Whether the best end state can be reached by moves that fit one after another."""
    plan_seconds: float

    @property
    def can_be_improved(self) -> bool:
        """Whether there is anything to gain at all."""
        return self.before - self.best > _SAME

    @property
    def ratio(self) -> float:
        """The part of the possible improvement that the plan brings."""
        return (self.before - self.after) / (self.before - self.bound)

    @property
    def is_optimal(self) -> bool:
        """Whether the solver found nothing better."""
        return self.after <= self.best + _SAME

    def __str__(self) -> str:
        limited = "" if self.optimum_in_order else "  (no order for the optimum's moves)"
        ratio = f"{self.ratio:7.2%}" if self.can_be_improved else "nothing"
        return (
            f"{self.strategy:16} seed {self.seed:4}  {self.size:18} {ratio}  "
            f"{self.before:8.4f} -> {self.after:8.4f}, best {self.best:8.4f}  "
            f"{self.moves:2} of {self.most_moves:2} moves  {self.plan_seconds:5.2f}s{limited}"
        )


def compare(strategy: str, seed: int, longest_seconds: float = LONGEST_SECONDS) -> Compared:
    """Plan for the cluster of this seed, and compare with its optimum."""
    cluster = generate_small_cluster(strategy, seed)
    started = time.perf_counter()
    plan = plan_for(cluster)
    seconds = time.perf_counter() - started
    optimum = optimum_of(cluster, longest_seconds)
    return Compared(
        strategy=strategy,
        seed=seed,
        size=f"{len(cluster.machines)} nodes, {len(cluster.workload_of)} pods",
        most_moves=cluster.most_moves,
        moves=len(plan.moves),
        before=value_of(cluster, cluster.start),
        after=value_of(cluster, end_of(cluster, plan)),
        best=optimum.value,
        bound=optimum.bound,
        optimum_in_order=has_order(cluster, optimum.counts),
        plan_seconds=seconds,
    )


def optimum_of(cluster: SmallCluster, longest_seconds: float) -> Optimum:
    """The optimum as found before if it was for this very cluster, or found now."""
    found = found_before().get((cluster.strategy, cluster.seed))
    if found is not None and found.digest == cluster.digest:
        return found.optimum(cluster)
    return solve(cluster, longest_seconds)


def plan_for(cluster: SmallCluster) -> Plan:
    """The plan that is to be compared."""
    return make_plan(snapshot_of(cluster.objects), policy_for(cluster))


def policy_for(cluster: SmallCluster) -> Policy:
    """The policy that asks for what the cluster is about, and for nothing else."""
    arguments = {
        "enabledStrategies": [cluster.strategy],
        "maxReschedulePods": cluster.most_moves,
        "planningTimeout": PLANNING_TIMEOUT,
        **_options_for(cluster),
    }
    return read_policy("cluster", json.dumps(arguments).encode())


def _options_for(cluster: SmallCluster) -> dict[str, Any]:
    if cluster.strategy == "LoadBalancing":
        return {"imbalanceThreshold": 0}
    if cluster.strategy == "CostOptimization":
        return {"costOptimization": {"moveCost": MOVE_COST}}
    units = {"cpu": (CPU_UNIT_MILLICORES, "m"), "memory": (MEMORY_UNIT_MIB, "Mi")}
    shape = {
        name: f"{amount * units[name][0]}{units[name][1]}" for name, amount in cluster.shape.items()
    }
    return {"defragmentation": {"shape": shape}}


def end_of(cluster: SmallCluster, plan: Plan) -> Counts:
    """Where the pods are after the plan; every move must be possible when its turn comes."""
    counts = cluster.start
    place = {machine.name: number for number, machine in enumerate(cluster.machines)}
    where = f"{cluster.strategy} seed {cluster.seed}"
    assert len({move.pod for move in plan.moves}) == len(plan.moves) <= cluster.most_moves, where
    for move in plan.moves:
        row = cluster.workload_of[move.pod]
        source, target = place[move.source], place[move.target]
        assert cluster.workloads[row].is_movable, f"{where}: {move.pod} must stay"
        assert counts[row][source], f"{where}: {move.pod} was not on {move.source}"
        assert cluster.allows(counts, row, source, target), f"{where}: {move.pod} to {move.target}"
        counts = moved(counts, row, source, target)
    return counts


def table(results: Sequence[Compared]) -> list[str]:
    """A line per strategy: what its plans bring of the best possible improvement."""
    lines = [f"{'strategy':16} clusters     mean      min  at the optimum"]
    for strategy in STRATEGIES:
        found = [each for each in results if each.strategy == strategy and each.can_be_improved]
        fair = [each for each in found if each.optimum_in_order]
        lines += [_line(strategy, fair)] if fair else []
        others = [each for each in found if not each.optimum_in_order]
        lines += [_line("  no order for it", others)] if others else []
    return lines


def _line(name: str, found: Sequence[Compared]) -> str:
    ratios = [each.ratio for each in found]
    optimal = sum(each.is_optimal for each in found)
    return f"{name:16} {len(found):8}  {fmean(ratios):7.2%}  {min(ratios):7.2%}  {optimal:14}"
