"""How good plans are where many moves are allowed: money saved, and room made."""

import time
from collections.abc import Iterator
from functools import partial

import numpy as np

from benchmarks.clusters import fragmented_snapshot, grown_snapshot, priced_snapshot
from benchmarks.figures import Figure, median_times, report
from rescheduler.cli.commands.plan import share_used
from rescheduler.model.resources import CPU, MEMORY
from rescheduler.model.snapshot import Floats, Int64s, Ints, Snapshot
from rescheduler.planning.context import DEFAULT_CONTEXT
from rescheduler.planning.plan import Plan
from rescheduler.planning.planner import make_plan
from rescheduler.settings import DefragmentationOptions, Policy, StrategyName

SHAPE_CPUS = 16
REPEAT = 5


def main() -> None:
    priced = priced_snapshot(850, 5_000, apps=1_200)
    grown = grown_snapshot(950, 9_200, apps=400)
    fragmented = fragmented_snapshot(280, 2_000)
    sparse = fragmented_snapshot(2_000, 5_000)
    report([*packing(priced), *packing(grown), *tidying(fragmented), *tidying(sparse), *small()])


def packing(snapshot: Snapshot) -> Iterator[Figure]:
    """What the nodes in use cost, compared with what nobody could go below."""
    strategies = (StrategyName.COST_OPTIMIZATION,)
    policy = Policy(enabled_strategies=strategies, max_reschedule_pods=100_000)
    plan, seconds = planned(snapshot, policy)
    costs = [each.metadata.annotations.node_cost for each in snapshot.nodes.objects]
    prices = np.array(costs, np.float64)
    before, after = nodes_before_and_after(snapshot, plan)
    name = f"CostOptimization, {len(snapshot.nodes)} nodes, {len(snapshot.pods):,} pods"
    yield Figure(f"{name}: price before", price_of(before, prices), "")
    yield Figure(f"{name}: price after", price_of(after, prices), "")
    yield Figure(f"{name}: price, lower bound", least_price(snapshot, prices), "")
    yield Figure(f"{name}: moves", len(plan.moves), "")
    yield Figure(f"{name}: time", seconds, "s", float(policy.planning_timeout_seconds))


def tidying(snapshot: Snapshot) -> Iterator[Figure]:
    """How many pods of the shape would find room."""
    policy = Policy(
        enabled_strategies=(StrategyName.DEFRAGMENTATION,),
        max_reschedule_pods=50,
        defragmentation=DefragmentationOptions(shape={"cpu": str(SHAPE_CPUS)}),
    )
    plan, seconds = planned(snapshot, policy)
    before, after = nodes_before_and_after(snapshot, plan)
    free = int((snapshot.nodes.allocatable - snapshot.requested)[:, snapshot.column(CPU)].sum())
    name = f"Defragmentation, {len(snapshot.nodes)} nodes, {len(snapshot.pods):,} pods"
    yield Figure(f"{name}: places before", room_for_shape(snapshot, before), "")
    places = room_for_shape(snapshot, after)
    yield Figure(f"{name}: places after {len(plan.moves)} moves", places, "")
    yield Figure(f"{name}: places if all room were one", free // (SHAPE_CPUS * 1000), "")
    yield Figure(f"{name}: time", seconds, "s", float(policy.planning_timeout_seconds))


def small() -> Iterator[Figure]:
    """How long a plan of ten moves takes for a cluster of eight nodes, by strategy."""
    snapshot = priced_snapshot(8, 60, apps=12)
    shape = DefragmentationOptions(shape={"cpu": str(SHAPE_CPUS)})
    for strategy in (
        StrategyName.LOAD_BALANCING,
        StrategyName.COST_OPTIMIZATION,
        StrategyName.DEFRAGMENTATION,
    ):
        policy = Policy(
            enabled_strategies=(strategy,), max_reschedule_pods=10, defragmentation=shape
        )
        make_plan(snapshot, policy)
        wall = median_times(partial(make_plan, snapshot, policy), REPEAT).wall_seconds
        yield Figure(f"{strategy}, {len(snapshot.nodes)} nodes, 10 moves: time", wall, "s", 0.1)


def planned(snapshot: Snapshot, policy: Policy) -> tuple[Plan, float]:
    """A plan, made as the command line makes it, and how long it took."""
    start = time.perf_counter()
    used = share_used(policy.planning_timeout_seconds)
    plan = make_plan(snapshot, policy, DEFAULT_CONTEXT, {}, used)
    return plan, time.perf_counter() - start


def nodes_before_and_after(snapshot: Snapshot, plan: Plan) -> tuple[Ints, Ints]:
    """The node of each pod."""
    before, after = snapshot.pods.node, snapshot.pods.node.copy()
    row_of = {key: row for row, key in enumerate(snapshot.pods.keys)}
    for move in plan.moves:
        after[row_of[move.pod]] = snapshot.nodes.index[move.target]
    return before, after


def price_of(nodes: Ints, prices: Floats) -> float:
    """What the nodes that have pods cost."""
    return float(prices[np.unique(nodes)].sum())


def least_price(snapshot: Snapshot, prices: Floats) -> float:
    """What it would cost if pods were a liquid, poured into the cheapest nodes."""
    room, amounts = snapshot.nodes.allocatable, snapshot.requested.sum(axis=0)
    columns = [snapshot.column(resource) for resource in (CPU, MEMORY)]
    return max(price_of_liquid(prices, room[:, each], int(amounts[each])) for each in columns)


def price_of_liquid(prices: Floats, room: Int64s, amount: int) -> float:
    """What it costs to hold so much of one resource, if parts of nodes could be paid for."""
    per_unit = prices / room
    cheapest = np.argsort(per_unit)
    filled = np.minimum(np.cumsum(room[cheapest]), amount)
    return float((np.diff(filled, prepend=0) * per_unit[cheapest]).sum())


def room_for_shape(snapshot: Snapshot, nodes: Ints) -> int:
    """How many pods of the shape fit, with pods on these nodes."""
    column = snapshot.column(CPU)
    held = snapshot.held[snapshot.pods.template, column]
    used = np.bincount(nodes, weights=held, minlength=len(snapshot.nodes))
    free = snapshot.nodes.allocatable[:, column] - used
    return int((free // (SHAPE_CPUS * 1000)).sum())


if __name__ == "__main__":
    main()
