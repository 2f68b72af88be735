# mypy: disable-error-code="misc"
# (mypy does not see that structs inherit being frozen)
"""The result of a simulation, with the names that `-o json` prints."""

from collections.abc import Sequence
from typing import Any

import msgspec

from rescheduler.migration.migration_object import Phase
from rescheduler.model.objects import Part


class ResultPart(Part, frozen=True, omit_defaults=False):
    """A part of the result. Unlike other parts, it prints fields that have their default."""


class Point(ResultPart):
    """A value at a time, in seconds since the start."""

    seconds: float
    value: float


Series = tuple[Point, ...]


class ShortageCounts(ResultPart):
    """How often, and for how long, workloads had fewer Ready pods than desired."""

    total: int
    """A shortage is one missing Ready pod; two missing pods are two shortages."""
    pod_seconds: float
    """The durations of all shortages, added up."""
    by_workload: dict[str, int]
    by_cause: dict[str, int]
    """For shortages attributed to moves, the mode of the move; else the cause."""


class MigrationCounts(ResultPart):
    """The moves that were requested, and their outcomes."""

    total: int
    by_phase: dict[str, int]
    by_mode: dict[str, int]
    by_strategy: dict[str, int]
    by_strategy_and_outcome: dict[str, dict[str, int]]
    mean_seconds: float
    """From the start of a completed one to its end."""


class BlockerSummary(ResultPart):
    """A reason for which pods stayed where they were."""

    blocker: str
    meaning: str
    """In plain words."""
    pods: int
    """Different pods that it kept, at some time."""
    rounds: int
    """Rounds in which it kept one."""
    example: str
    detail: str


class IdleReason(ResultPart):
    """Why rounds moved nothing."""

    why: str
    rounds: int


class RoundCounts(ResultPart):
    """The rounds of the planning loop."""

    total: int
    with_moves: int
    idle_reasons: tuple[IdleReason, ...] = msgspec.field(name="atRest")
    """Why the other rounds moved nothing, the most frequent reasons."""


class PendingTimes(ResultPart):
    """Pods that waited for a node."""

    pods: int
    pod_seconds: float
    longest_seconds: float
    """The longest wait of one pod, whether it ended or not."""


class Leftovers(ResultPart):
    """What moves have left behind: no move in progress looks after it."""

    marks: tuple[str, ...]
    temporary_budgets: tuple[str, ...]
    extra_pods: tuple[str, ...]
    cordons: tuple[str, ...]

    @property
    def count(self) -> int:
        """How many objects in all."""
        kinds = (self.marks, self.temporary_budgets, self.extra_pods, self.cordons)
        return sum(map(len, kinds))


class TimelineEntry(ResultPart):
    """A change by the workload file to a node, or to the version of a Deployment."""

    seconds: float
    what: str


class NodeLoadSeries(ResultPart):
    """How full each node was over time, for drawing."""

    seconds: tuple[float, ...]
    by_node: dict[str, tuple[float | None, ...]]
    """Load as a fraction; None while there was no such node, or it was not ready."""


class SeriesSummary(ResultPart):
    """A series in four numbers."""

    first: float
    mean: float
    """The mean of the points. The points of some series are peaks, see `results.text`."""
    last: float
    most: float

    @staticmethod
    def of(series: Series) -> "SeriesSummary":
        """All four are 0 for a series without points."""
        if not series:
            return SeriesSummary(0.0, 0.0, 0.0, 0.0)
        values = [point.value for point in series]
        mean = round(sum(values) / len(values), 6)
        return SeriesSummary(values[0], mean, values[-1], max(values))


class Result(ResultPart):
    """Everything that was measured in one run."""

    policy: str
    """The policy's file, `defaults`, or `none` for a cluster without the rescheduler."""
    seed: int
    start: str
    seconds: float
    """How long was simulated."""
    interrupted: bool
    nodes: int
    pods: int
    """Both at the start."""
    notes: tuple[str, ...]
    """What had to be assumed about the cluster."""
    warnings: tuple[str, ...]
    """What the controller logged as a warning."""
    summary: dict[str, SeriesSummary]
    imbalance: Series
    """By how much the load of the fullest and the emptiest open node differ, as a fraction."""
    load_deviation: Series
    """The standard deviation of the loads of open nodes, as a fraction."""
    nodes_in_use: Series
    cost: Series
    """The price of the nodes in use."""
    pods_pending: Series
    moves_in_flight: Series
    pods_below_desired: Series
    """Because of moves."""
    own_pods_below_desired: Series
    """For every other reason."""
    shortages_by_moves: ShortageCounts = msgspec.field(name="momentsBelowDesired")
    other_shortages: ShortageCounts = msgspec.field(name="ownMomentsBelowDesired")
    migrations: MigrationCounts
    rounds: RoundCounts
    blocked: tuple[BlockerSummary, ...]
    pending: PendingTimes
    leftovers: Leftovers
    timeline: tuple[TimelineEntry, ...] = msgspec.field(name="happenings")
    node_loads: NodeLoadSeries


class KeyFigures(ResultPart):
    """One run in the few numbers by which policies are compared."""

    policy: str
    mean_imbalance: float
    last_imbalance: float
    mean_nodes_in_use: float
    mean_cost: float
    moves: int
    """Completed ones."""
    pending_pod_seconds: float
    shortages_by_moves: int = msgspec.field(name="momentsBelowDesired")
    other_shortages: int = msgspec.field(name="ownMomentsBelowDesired")

    @staticmethod
    def of(result: Result) -> "KeyFigures":
        """Picks them out of a whole result."""
        summary = result.summary
        return KeyFigures(
            policy=result.policy,
            mean_imbalance=summary["imbalance"].mean,
            last_imbalance=summary["imbalance"].last,
            mean_nodes_in_use=summary["nodesInUse"].mean,
            mean_cost=summary["cost"].mean,
            moves=result.migrations.by_phase.get(Phase.COMPLETED, 0),
            pending_pod_seconds=result.pending.pod_seconds,
            shortages_by_moves=result.shortages_by_moves.total,
            other_shortages=result.other_shortages.total,
        )


def as_json(results: Sequence[Result], is_comparison: bool) -> str:
    """The result as JSON; a comparison has the key figures of all runs, and then the runs."""
    document: Any = results[0]
    if is_comparison:
        figures = [KeyFigures.of(result) for result in results]
        document = {"comparison": figures, "runs": results}
    return msgspec.json.format(msgspec.json.encode(document)).decode() + "\n"
