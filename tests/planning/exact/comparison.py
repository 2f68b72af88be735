"""Plans beside the exact optimum: how much of the possible improvement do they bring?"""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from statistics import fmean
from typing import Any

from rescheduler.files.policy_file import read_policy
from rescheduler.planning.plan import Plan
from rescheduler.planning.planner import make_plan
from rescheduler.settings import Policy
from testcluster.snapshots import snapshot_of
from tests.planning.exact.move_orders import has_order
from tests.planning.exact.objectives import MIXES, MOVE_COST, move_price, placement_cost
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

    mix: str
    seed: int
    size: str
    most_moves: int
    moves: int
    before: float
    after: float
    best: float
    """The best end state that the solver found, or what it proved of plans if that is worse."""
    optimum_in_order: bool
    """Whether the best end state can be reached by moves that fit one after another."""
    plan_seconds: float
    fall: float
    """By how much the plan lowers the objective, apart from what moves cost."""
    stated_fall: float | None
    """What the plan says of that; None if a strategy at rest makes the numbers differ."""

    @property
    def can_be_improved(self) -> bool:
        """Whether there is anything to gain at all."""
        return self.before - self.best > _SAME

    @property
    def ratio(self) -> float:
        """The part of the possible improvement that the plan brings."""
        return (self.before - self.after) / (self.before - self.best)

    @property
    def is_optimal(self) -> bool:
        """Whether the solver found nothing better."""
        return self.after <= self.best + _SAME

    def __str__(self) -> str:
        limited = "" if self.optimum_in_order else "  (no order for the optimum's moves)"
        ratio = f"{self.ratio:7.2%}" if self.can_be_improved else "nothing"
        return (
            f"{self.mix:16} seed {self.seed:4}  {self.size:18} {ratio}  "
            f"{self.before:8.4f} -> {self.after:8.4f}, best {self.best:8.4f}  "
            f"{self.moves:2} of {self.most_moves:2} moves  {self.plan_seconds:5.2f}s{limited}"
        )


def compare(mix: str, seed: int, longest_seconds: float = LONGEST_SECONDS) -> Compared:
    """Plan for the cluster of this seed, and compare with its optimum."""
    cluster = generate_small_cluster(mix, seed)
    started = time.perf_counter()
    plan = plan_for(cluster)
    seconds = time.perf_counter() - started
    optimum = optimum_of(cluster, longest_seconds)
    before = placement_cost(cluster, cluster.start)
    after = placement_cost(cluster, end_of(cluster, plan))
    stated = plan.before.objective - plan.after.objective
    return Compared(
        mix=mix,
        seed=seed,
        size=f"{len(cluster.machines)} nodes, {len(cluster.workload_of)} pods",
        most_moves=cluster.most_moves,
        moves=len(plan.moves),
        before=before,
        after=after + price_of(cluster, plan),
        best=max(optimum.value, _plan_bound(cluster)),
        optimum_in_order=has_order(cluster, optimum.counts),
        plan_seconds=seconds,
        fall=before - after,
        stated_fall=None if cluster.goals.is_even_enough else stated,
    )


def optimum_of(cluster: SmallCluster, longest_seconds: float) -> Optimum:
    """The optimum as found before if it was for this very cluster, or found now."""
    found = found_before().get((cluster.mix, cluster.seed))
    if found is not None and found.digest == cluster.digest:
        return found.optimum(cluster)
    return solve(cluster, longest_seconds)


def _plan_bound(cluster: SmallCluster) -> float:
    """No plan leads to less, as far as that is known."""
    found = found_before().get((cluster.mix, cluster.seed))
    if found is None or found.plan_bound is None or found.digest != cluster.digest:
        return -inf
    return found.plan_bound


def plan_for(cluster: SmallCluster, planning_timeout: str = PLANNING_TIMEOUT) -> Plan:
    """The plan that is to be compared."""
    return make_plan(snapshot_of(cluster.objects), policy_for(cluster, planning_timeout))


def policy_for(cluster: SmallCluster, planning_timeout: str) -> Policy:
    """The policy that asks for what the cluster is about, and for nothing else."""
    goals = cluster.goals
    arguments: dict[str, Any] = {
        "enabledStrategies": cluster.strategies,
        "strategyWeights": goals.weights,
        "maxReschedulePods": cluster.most_moves,
        "planningTimeout": planning_timeout,
        "imbalanceThreshold": 100 if goals.is_even_enough else 0,
    }
    if "CostOptimization" in cluster.strategies:
        arguments["costOptimization"] = {"moveCost": MOVE_COST}
    if "Defragmentation" in cluster.strategies:
        arguments["defragmentation"] = {"shape": _shape(cluster)}
    if goals.threshold is not None:
        arguments |= {"cpuThreshold": goals.threshold, "memoryThreshold": goals.threshold}
    return read_policy("cluster", json.dumps(arguments).encode())


def _shape(cluster: SmallCluster) -> dict[str, str]:
    units = {"cpu": (CPU_UNIT_MILLICORES, "m"), "memory": (MEMORY_UNIT_MIB, "Mi")}
    return {
        name: f"{amount * units[name][0]}{units[name][1]}"
        for name, amount in cluster.goals.shape.items()
    }


def value_with(cluster: SmallCluster, most_moves: int, planning_timeout: str) -> float:
    """What the cluster costs after a plan with another limit or time, its moves included."""
    limited = replace(cluster, most_moves=most_moves)
    plan = plan_for(limited, planning_timeout)
    return placement_cost(cluster, end_of(limited, plan)) + price_of(cluster, plan)


def price_of(cluster: SmallCluster, plan: Plan) -> float:
    """What the moves cost. A pod that is parked on the way moves twice, and is paid for twice."""
    return sum(move_price(cluster, cluster.workload_of[move.pod]) for move in plan.moves)


def end_of(cluster: SmallCluster, plan: Plan) -> Counts:
    """Where the pods are after the plan; every move must be possible when its turn comes."""
    counts, where = cluster.start, dict(cluster.node_of)
    place = {machine.name: number for number, machine in enumerate(cluster.machines)}
    which = f"{cluster.mix} seed {cluster.seed}"
    assert len(plan.moves) <= cluster.most_moves, which
    for move in plan.moves:
        row = cluster.workload_of[move.pod]
        source, target = place[move.source], place[move.target]
        assert cluster.workloads[row].is_movable, f"{which}: {move.pod} must stay"
        assert where[move.pod] == move.source, f"{which}: {move.pod} was not on {move.source}"
        assert cluster.allows(counts, row, source, target), f"{which}: {move.pod} to {move.target}"
        counts = moved(counts, row, source, target)
        where[move.pod] = move.target
    return counts


def table(results: Sequence[Compared]) -> list[str]:
    """A line per mix: what its plans bring of the best possible improvement."""
    lines = [f"{'strategies':50} clusters     mean      min  at the optimum"]
    for mix in MIXES:
        found = [each for each in results if each.mix == mix and each.can_be_improved]
        fair = [each for each in found if each.optimum_in_order]
        lines += [_line(mix, fair)] if fair else []
        others = [each for each in found if not each.optimum_in_order]
        lines += [_line("  no order for it", others)] if others else []
    return lines


def _line(name: str, found: Sequence[Compared]) -> str:
    ratios = [each.ratio for each in found]
    optimal = sum(each.is_optimal for each in found)
    return f"{name:50} {len(found):8}  {fmean(ratios):7.2%}  {min(ratios):7.2%}  {optimal:14}"
