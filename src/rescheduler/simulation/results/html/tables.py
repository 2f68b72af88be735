"""What is better read in a table than in a plot."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rescheduler.simulation.results.result import Result
from rescheduler.simulation.results.text import (
    clock_time,
    comparison_rows,
    counted,
    format_duration,
    outcome_rows,
    shortage_durations,
    shortage_rows,
)

MAX_TIMELINE_ENTRIES = 100


@dataclass(frozen=True)
class ReportTable:
    """A table as the template shows it. Without rows it is not shown."""

    caption: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    number_columns: Sequence[int] = ()
    """These are aligned to the right."""


def comparison(results: Sequence[Result]) -> ReportTable:
    """All runs side by side."""
    heads = ["", *(result.policy for result in results)]
    caption = "The same cluster and the same future, under each policy"
    return ReportTable(caption, heads, comparison_rows(results), range(1, len(heads)))


def moves(result: Result) -> ReportTable:
    """Moves by strategy and outcome."""
    words, counts = outcome_rows(result)
    rows = [[name, *_numbers(row), f"{sum(row):,}"] for name, row in counts]
    heads = ["for", *words, "in all"]
    caption = (
        f"{counted(result.migrations.total, 'move')}; a completed one took "
        f"{format_duration(result.migrations.mean_seconds)} on average"
    )
    return ReportTable(caption, heads, rows, range(1, len(heads)))


def shortages(result: Result) -> ReportTable:
    """Shortages by cause."""
    caption = f"Each missing Ready pod is one shortage. {shortage_durations(result)}"
    return ReportTable(caption, ["caused by", "why", "shortages"], list(shortage_rows(result)), [2])


def blocked(result: Result) -> ReportTable:
    """Why pods stayed where they were."""
    rows = [
        [found.meaning, f"{found.pods:,}", f"{found.rounds:,}", f"{found.example}: {found.detail}"]
        for found in result.blocked
    ]
    caption = "Pods that should have left their node, by what kept them"
    return ReportTable(caption, ["why", "pods", "rounds", "for example"], rows, [1, 2])


def rounds_without_moves(result: Result) -> ReportTable:
    """Why rounds moved nothing."""
    rounds = result.rounds
    rows = [[rest.why, f"{rest.rounds:,}"] for rest in rounds.idle_reasons]
    caption = (
        f"{counted(rounds.total, 'round')}, {rounds.with_moves:,} of them with moves; "
        "why the others had none"
    )
    return ReportTable(caption, ["why", "rounds"], rows, [1])


def timeline(result: Result) -> ReportTable:
    """What happened to nodes and versions."""
    rows = [
        [clock_time(result, entry.seconds), entry.what]
        for entry in result.timeline[:MAX_TIMELINE_ENTRIES]
    ]
    left_out = len(result.timeline) - len(rows)
    more = f", and {left_out:,} more that are not listed" if left_out else ""
    return ReportTable(f"Dashed lines in the plots{more}", ["time", "event"], rows)


def _numbers(counts: Iterable[int]) -> list[str]:
    return [f"{count:,}" for count in counts]
