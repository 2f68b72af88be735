"""How long plans without a limit on moves take for 5,000 nodes, as a share of planningTimeout."""

from collections.abc import Iterator

from benchmarks.clusters import grown_snapshot
from benchmarks.figures import Figure, report
from benchmarks.planning import LARGE, snapshot_with_rules
from rescheduler.cli.commands.plan import share_used
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.context import DEFAULT_CONTEXT
from rescheduler.planning.planner import make_plan
from rescheduler.settings import DefragmentationOptions, Policy, Seconds, StrategyName

TIMEOUTS = (1, 5, 10)
NO_LIMIT = 1_000_000
SHAPE = DefragmentationOptions(shape={"cpu": "16"})
LOAD, MONEY, ROOM = (
    StrategyName.LOAD_BALANCING,
    StrategyName.COST_OPTIMIZATION,
    StrategyName.DEFRAGMENTATION,
)
MIXES = (
    *((strategy,) for strategy in StrategyName),
    (LOAD, MONEY),
    (MONEY, ROOM),
    (LOAD, MONEY, ROOM),
    tuple(StrategyName),
)


def main() -> None:
    figures = [*shares("with rules", snapshot_with_rules(LARGE), MIXES)]
    # Hundreds of nodes can be emptied here, by thousands of moves.
    grown = grown_snapshot(LARGE, LARGE * 10, apps=LARGE // 2)
    figures += shares("grown", grown, ((MONEY,), (MONEY, ROOM)))
    report(figures)


def shares(
    name: str, snapshot: Snapshot, mixes: tuple[tuple[StrategyName, ...], ...]
) -> Iterator[Figure]:
    """By planningTimeout: the largest share of it that any of these mixes used, and the moves."""
    for seconds in TIMEOUTS:
        used: dict[str, float] = {}
        moves: dict[str, int] = {}
        for mix in mixes:
            label = " + ".join(mix) if len(mix) < len(StrategyName) else "all"
            moves[label], used[label] = share_of_time(snapshot, mix, seconds)
        worst = max(used, key=used.__getitem__)
        title = f"planningTimeout {seconds} s, {LARGE:,} nodes {name}, no limit on moves"
        yield Figure(f"{title}: largest share used, by {worst}", used[worst], "", 1.1)
        yield Figure(f"{title}: most moves in a plan", max(moves.values()), "")


def share_of_time(
    snapshot: Snapshot, strategies: tuple[StrategyName, ...], seconds: int
) -> tuple[int, float]:
    """How many moves there are, and which share of planningTimeout was over in the end."""
    policy = Policy(
        enabled_strategies=strategies,
        max_reschedule_pods=NO_LIMIT,
        planning_timeout_seconds=Seconds(seconds),
        defragmentation=SHAPE,
    )
    used = share_used(seconds)
    plan = make_plan(snapshot, policy, DEFAULT_CONTEXT, {}, used)
    return len(plan.moves), used()


if __name__ == "__main__":
    main()
