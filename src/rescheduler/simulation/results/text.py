"""A result in plain words, for the terminal and for the page."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import PurePath

import msgspec

from rescheduler.migration.migration_object import Phase
from rescheduler.model.moves import Mode, Outcome
from rescheduler.simulation.results.moves import WITHDRAWN
from rescheduler.simulation.results.result import Compared, Figures, Moments, Result, Series
from rescheduler.simulation.results.shortages import Cause
from rescheduler.simulation.results.summary import compared
from rescheduler.simulation.scenario.times import DAY

NONE = "none"
"""The name of a run without the rescheduler."""

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
"""The series, in the order in which they are told."""
FRACTIONS = ("imbalance", "load_deviation")
PASSING = ("pods_pending", "moves_in_flight", "pods_below_desired", "own_pods_below_desired")
"""What comes and goes within seconds: its points are peaks, of which no mean can be told."""

EXPLANATIONS = {
    "imbalance": "How far apart the loads of the fullest and the emptiest node are. Load is the "
    "mean of the CPU and memory that pods ask for.",
    "load_deviation": "The standard deviation of the loads of nodes that are open to pods.",
    "nodes_in_use": "Nodes with a pod on them that is not there for the node's sake.",
    "cost": "The price of the nodes in use, if the others were given back.",
    "pods_pending": "Pods that have no node yet.",
    "moves_in_flight": "Migrations in progress.",
    "pods_below_desired": "Ready pods that workloads lack because we moved one.",
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
    Phase.IN_PROGRESS: "under way",
    Phase.PENDING: "waiting",
}
"""What can become of a move, best first."""

WAYS = {Mode.HANDOFF: "by handoff", Mode.EVICT: "by eviction", Mode.RECREATE: "by recreation"}

CAUSES = {
    Cause.SCALING: "more replicas were asked for",
    Cause.ROLLOUT: "a rollout replaced pods",
    Cause.NODE_FAILURE: "a node failed",
    Cause.START: "missing from the start",
    Cause.OTHER: "other reasons",
}


def told(name: str, value: float) -> str:
    """A value of a series as people write it."""
    if name in FRACTIONS:
        return f"{value * 100:.1f} %"
    if name == "cost":
        return f"{value:,.2f}"
    if value == round(value) or value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2g}"


def lasting(seconds: float) -> str:
    """A length of time in one or two units."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{seconds / 60:.0f} min"
    hours, minutes = divmod(round(seconds / 60), 60)
    if seconds >= 2 * DAY:
        days, hours = divmod(round(seconds / 3600), 24)
        return f"{days} d {hours} h" if hours else f"{days} d"
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def clock_time(result: Result, seconds: float) -> str:
    """The simulated time of day; of several days, with the number of the day."""
    start = datetime.fromisoformat(result.start)
    moment = start + timedelta(seconds=seconds)
    day = f"d{(moment.date() - start.date()).days + 1} " if result.seconds > DAY else ""
    return day + moment.strftime("%H:%M")


def camel(name: str) -> str:
    """A series' name as JSON writes it."""
    first, *rest = name.split("_")
    return first + "".join(map(str.title, rest))


def series_of(result: Result, name: str) -> Series:
    """A series by its name."""
    found: Series = getattr(result, name)
    return found


def shortly_named(results: Sequence[Result]) -> list[Result]:
    """The same, with policies by the names of their files alone where that tells them apart."""
    long = {result.policy for result in results}
    short = {name: PurePath(name).name for name in long}
    if len(results) == 1 or len(set(short.values())) < len(long):
        return list(results)
    return [msgspec.structs.replace(each, policy=short[each.policy]) for each in results]


def headline(result: Result) -> str:
    """What the run comes down to, in a sentence."""
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
    moments = result.moments_below_desired
    if not done and not moments.total:
        return f"{spread}; no pod was moved."
    return f"{spread}; {counted(done, 'pod')} moved, {noticed(moments)}."


def noticed(moments: Moments) -> str:
    """Whether anyone could have noticed."""
    if not moments.total:
        return "and no workload ever had a Ready pod too few because of it"
    return (
        f"and workloads had a Ready pod too few {counted(moments.total, 'time')} because of it, "
        f"for {lasting(moments.pod_seconds)} in all"
    )


def counted(number: int, what: str) -> str:
    """So many of something."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def about(result: Result) -> str:
    """What was simulated."""
    cut = ", until it was interrupted" if result.interrupted else ""
    return (
        f"{lasting(result.seconds)} from {clock_time(result, 0)}{cut}: "
        f"{counted(result.nodes, 'node')} and {counted(result.pods, 'pod')} at the start, "
        f"seed {result.seed}"
    )


def development(name: str, figures: Figures) -> str:
    """A series from its start to its end."""
    ends = f"{told(name, figures.first)} → {told(name, figures.last)}"
    if name in PASSING:
        return f"{ends}, at most {told(name, figures.most)}"
    return f"{ends}, on average {told(name, figures.mean)}"


def how_long(result: Result) -> str:
    """How long pods were missing, in all."""
    moves, own = result.moments_below_desired, result.own_moments_below_desired
    return (
        f"In all, pods were missing for {lasting(moves.pod_seconds)} because of moves, and for "
        f"{lasting(own.pod_seconds)} for the workloads' own reasons."
    )


def moment_rows(result: Result) -> Iterator[tuple[str, str, str]]:
    """Who is charged with moments below the desired count: why, how often."""
    moves, own = result.moments_below_desired, result.own_moments_below_desired
    for mode, way in WAYS.items():
        count = moves.by_cause.get(mode, 0)
        if count or mode == Mode.HANDOFF:
            yield "moves", way, f"{count:,}"
    for cause, why in CAUSES.items():
        if own.by_cause.get(cause):
            yield "the workload's own", why, f"{own.by_cause[cause]:,}"


def outcome_rows(result: Result) -> tuple[list[str], list[tuple[str, list[int]]]]:
    """What became of moves: the words that occurred, and by strategy how often."""
    table = result.migrations.by_strategy_and_outcome
    columns = [each for each in OUTCOMES if any(each in counts for counts in table.values())]
    rows = [(name, [counts.get(each, 0) for each in columns]) for name, counts in table.items()]
    return [OUTCOMES[each] for each in columns], sorted(rows, key=lambda row: (-sum(row[1]), row))


def leftover_words(result: Result) -> str:
    """What is left behind, or that nothing is."""
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


COMPARED: dict[str, Callable[[Compared], str]] = {
    "Imbalance, mean": lambda run: told("imbalance", run.mean_imbalance),
    "Imbalance, last": lambda run: told("imbalance", run.last_imbalance),
    "Nodes in use, mean": lambda run: f"{run.mean_nodes_in_use:.1f}",
    "Cost, mean": lambda run: told("cost", run.mean_cost),
    "Moves completed": lambda run: f"{run.moves:,}",
    "Pods pending, in all": lambda run: lasting(run.pending_pod_seconds),
    "Moments below desired, by moves": lambda run: f"{run.moments_below_desired:,}",
    "Moments below desired, their own": lambda run: f"{run.own_moments_below_desired:,}",
}
"""What is compared between policies, and how it is written."""


def comparison_rows(results: Sequence[Result]) -> list[list[str]]:
    """A row for each thing that is compared, with a column for each run."""
    runs = [compared(result) for result in results]
    return [[title, *(write(run) for run in runs)] for title, write in COMPARED.items()]
