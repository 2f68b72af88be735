"""A result as titles, sentences and table rows, for the terminal and for the HTML page."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import PurePath

import msgspec

from rescheduler.migration.migration_object import Phase
from rescheduler.model.moves import Mode, Outcome
from rescheduler.simulation.results.measurement.attribution import ShortageCause
from rescheduler.simulation.results.measurement.moves import WITHDRAWN
from rescheduler.simulation.results.result import (
    KeyFigures,
    Result,
    Series,
    SeriesSummary,
    ShortageCounts,
)

NONE = "none"
"""The name of a run without the rescheduler."""

DAY_SECONDS = 86_400

TITLES = {
    "imbalance": "Imbalance",
    "load_deviation": "Deviation of loads",
    "nodes_in_use": "Nodes in use",
    "cost": "Cost of nodes in use",
    "pods_pending": "Pods pending",
    "moves_in_flight": "Moves in flight",
    "pods_below_desired": "Pods missing because of moves",
    "own_pods_below_desired": "Pods missing for other reasons",
}
"""The series, in the order in which they are shown."""
FRACTIONS = ("imbalance", "load_deviation")
PEAK_SERIES = ("pods_pending", "moves_in_flight", "pods_below_desired", "own_pods_below_desired")
"""Series of what lasts only seconds: their points are peaks, so they have no useful mean."""

EXPLANATIONS = {
    "imbalance": "How far apart the loads of the fullest and the emptiest node are. Load is the "
    "mean of the CPU and memory that pods request.",
    "load_deviation": "The standard deviation of the loads of nodes that are open to pods.",
    "nodes_in_use": "Nodes with a pod that is not a DaemonSet's or a static pod.",
    "cost": "The price of the nodes in use, as if the others were removed.",
    "pods_pending": "Pods that have no node yet.",
    "moves_in_flight": "Migrations in progress.",
    "pods_below_desired": "Ready pods that workloads lack because a pod was moved.",
    "own_pods_below_desired": "Ready pods that workloads lack because they were scaled up or "
    "rolled out, or a node failed.",
}

OUTCOMES = {
    Outcome.LANDED: "landed",
    Outcome.ELSEWHERE: "landed elsewhere",
    Outcome.CAME_BACK: "came back",
    Phase.FAILED: "failed, undone",
    Phase.CANCELLED: "cancelled, undone",
    WITHDRAWN: "withdrawn",
    Phase.IN_PROGRESS: "in progress",
    Phase.PENDING: "waiting",
}
"""The outcomes and phases of a move, best first."""

MODES = {Mode.HANDOFF: "by handoff", Mode.EVICT: "by eviction", Mode.RECREATE: "by recreation"}

CAUSES = {
    ShortageCause.SCALING: "the desired count was raised",
    ShortageCause.ROLLOUT: "a rollout replaced pods",
    ShortageCause.NODE_FAILURE: "a node failed",
    ShortageCause.START: "missing from the start",
    ShortageCause.OTHER: "other reasons",
}


def format_value(name: str, value: float) -> str:
    """A value of a series with its unit, rounded for reading."""
    if name in FRACTIONS:
        return f"{value * 100:.1f} %"
    if name == "cost":
        return f"{value:,.2f}"
    if value == round(value) or value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2g}"


def format_duration(seconds: float) -> str:
    """A duration in one or two units."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{seconds / 60:.0f} min"
    hours, minutes = divmod(round(seconds / 60), 60)
    if seconds >= 2 * DAY_SECONDS:
        days, hours = divmod(round(seconds / 3600), 24)
        return f"{days} d {hours} h" if hours else f"{days} d"
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def clock_time(result: Result, seconds: float) -> str:
    """The simulated time of day; of several days, with the number of the day."""
    start = datetime.fromisoformat(result.start)
    time = start + timedelta(seconds=seconds)
    day = f"d{(time.date() - start.date()).days + 1} " if result.seconds > DAY_SECONDS else ""
    return day + time.strftime("%H:%M")


def json_name(name: str) -> str:
    """The name of a series in JSON, in camelCase."""
    first, *rest = name.split("_")
    return first + "".join(map(str.title, rest))


def series_of(result: Result, name: str) -> Series:
    """A series by its name."""
    found: Series = getattr(result, name)
    return found


def with_short_policy_names(results: Sequence[Result]) -> list[Result]:
    """The results, with only the file names of policies if these are different."""
    long = {result.policy for result in results}
    short = {name: PurePath(name).name for name in long}
    if len(results) == 1 or len(set(short.values())) < len(long):
        return list(results)
    return [msgspec.structs.replace(result, policy=short[result.policy]) for result in results]


def headline(result: Result) -> str:
    """The most important figures of a run, in a sentence."""
    balance = result.summary["imbalance"]
    went = "fell" if balance.last < balance.first else "rose"
    spread = (
        f"The gap between the fullest and the emptiest node {went} from "
        f"{balance.first * 100:.0f} to {balance.last * 100:.0f} points"
        if round(balance.first, 2) != round(balance.last, 2)
        else f"The gap between the fullest and the emptiest node stayed at "
        f"{balance.first * 100:.0f} points"
    )
    if result.policy == NONE:
        return f"{spread} without the rescheduler."
    done = result.migrations.by_phase.get(Phase.COMPLETED, 0)
    shortages = result.shortages_by_moves
    if not done and not shortages.total:
        return f"{spread}; no pod was moved."
    return f"{spread}; {counted(done, 'pod')} moved, {shortage_clause(shortages)}."


def shortage_clause(shortages: ShortageCounts) -> str:
    """Whether moves caused shortages, as the end of a sentence."""
    if not shortages.total:
        return "and no workload ever had a Ready pod too few because of it"
    return (
        f"and workloads had a Ready pod too few {counted(shortages.total, 'time')} because of it, "
        f"for {format_duration(shortages.pod_seconds)} in all"
    )


def counted(number: int, what: str) -> str:
    """`1 pod`, `2 pods`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def run_description(result: Result) -> str:
    """How long was simulated, from when, and with how many nodes and pods."""
    cut = ", until it was interrupted" if result.interrupted else ""
    return (
        f"{format_duration(result.seconds)} from {clock_time(result, 0)}{cut}: "
        f"{counted(result.nodes, 'node')} and {counted(result.pods, 'pod')} at the start, "
        f"seed {result.seed}"
    )


def series_change(name: str, figures: SeriesSummary) -> str:
    """The first and last value of a series, and its mean or peak."""
    ends = f"{format_value(name, figures.first)} → {format_value(name, figures.last)}"
    if name in PEAK_SERIES:
        return f"{ends}, at most {format_value(name, figures.most)}"
    return f"{ends}, on average {format_value(name, figures.mean)}"


def shortage_durations(result: Result) -> str:
    """How long Ready pods were missing, in all."""
    moves, others = result.shortages_by_moves, result.other_shortages
    return (
        f"In all, pods were missing for {format_duration(moves.pod_seconds)} because of moves "
        f"and for {format_duration(others.pod_seconds)} for other reasons."
    )


def shortage_rows(result: Result) -> Iterator[tuple[str, str, str]]:
    """The shortages by cause: what they are attributed to, why, how often."""
    moves, others = result.shortages_by_moves, result.other_shortages
    for mode, name in MODES.items():
        count = moves.by_cause.get(mode, 0)
        if count or mode == Mode.HANDOFF:
            yield "moves", name, f"{count:,}"
    for cause, why in CAUSES.items():
        if others.by_cause.get(cause):
            yield "other", why, f"{others.by_cause[cause]:,}"


def outcome_rows(result: Result) -> tuple[list[str], list[tuple[str, list[int]]]]:
    """The outcomes that occurred, and for each strategy how often."""
    table = result.migrations.by_strategy_and_outcome
    columns = [name for name in OUTCOMES if any(name in counts for counts in table.values())]
    rows = [
        (strategy, [counts.get(name, 0) for name in columns]) for strategy, counts in table.items()
    ]
    return [OUTCOMES[name] for name in columns], sorted(rows, key=lambda row: (-sum(row[1]), row))


def leftover_sentence(result: Result) -> str:
    """What moves left behind, or that they left nothing."""
    left = result.leftovers
    if not left.count:
        return "Nothing is left behind: no marks, temporary budgets, extra pods or cordons."
    kinds = {
        "marks": left.marks,
        "temporary budgets": left.temporary_budgets,
        "extra pods": left.extra_pods,
        "cordons": left.cordons,
    }
    listed = "; ".join(f"{name}: {', '.join(found)}" for name, found in kinds.items() if found)
    return f"Left behind: {listed}."


KEY_FIGURES: dict[str, Callable[[KeyFigures], str]] = {
    "Imbalance, mean": lambda run: format_value("imbalance", run.mean_imbalance),
    "Imbalance, last": lambda run: format_value("imbalance", run.last_imbalance),
    "Nodes in use, mean": lambda run: f"{run.mean_nodes_in_use:.1f}",
    "Cost, mean": lambda run: format_value("cost", run.mean_cost),
    "Moves completed": lambda run: f"{run.moves:,}",
    "Pods pending, in all": lambda run: format_duration(run.pending_pod_seconds),
    "Shortages caused by moves": lambda run: f"{run.shortages_by_moves:,}",
    "Shortages for other reasons": lambda run: f"{run.other_shortages:,}",
}
"""What is compared between policies, and how it is formatted."""


def comparison_rows(results: Sequence[Result]) -> list[list[str]]:
    """A row for each key figure, with a column for each run."""
    runs = [KeyFigures.of(result) for result in results]
    return [[title, *(format(run) for run in runs)] for title, format in KEY_FIGURES.items()]
