"""The results of a simulation: charts over time, tables, and a summary at the end."""

from collections.abc import Iterator, Sequence

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from rescheduler.cli.control_characters import escaped
from rescheduler.cli.views.plan_view import heading
from rescheduler.cli.views.time_series_chart import chart
from rescheduler.simulation.results.result import Result
from rescheduler.simulation.results.text import (
    NONE,
    TITLES,
    clock_time,
    comparison_rows,
    counted,
    format_duration,
    headline,
    json_name,
    leftover_sentence,
    outcome_rows,
    run_description,
    series_change,
    series_of,
    shortage_durations,
    shortage_rows,
    with_short_policy_names,
)

WIDEST_CHART = 72
MOST_BLOCKERS = 8
MOST_EVENTS = 12


def show_results(results: Sequence[Result], console: Console, report: str | None) -> None:
    """Print the results of one run, or a comparison of several runs."""
    results = with_short_policy_names(results)
    parts = of_one(results[0], console) if len(results) == 1 else of_several(results)
    for part in parts:
        console.print(part)
        console.print()
    console.print(Text(conclusion(results), style="bold"))
    if report:
        console.print(Text(f"HTML report: {report}", style="dim"))


def conclusion(results: Sequence[Result]) -> str:
    """A sentence per run."""
    if len(results) == 1:
        return headline(results[0])
    return "\n".join(f"{result.policy}: {headline(result)}" for result in results)


def of_one(result: Result, console: Console) -> Iterator[RenderableType]:
    """The parts of one run's results that have something to show."""
    yield over_time(result, console)
    lasted = Text(shortage_durations(result), style="dim")
    yield Group(heading("Shortages: Ready pods fewer than desired"), shortages(result), lasted)
    if result.policy != NONE:
        yield Group(heading(moves_title(result)), moves(result))
    if result.timeline:
        yield Group(heading("What happened"), *happened(result))
    if result.blocked:
        yield Group(heading("Pods that were not moved, and why"), blocked(result))
    if result.rounds.total:
        yield Group(heading(rounds_title(result)), *idle_rounds(result))
    yield Text(leftover_sentence(result), style="dim" if not result.leftovers.count else "red")
    for note in (*result.notes, *result.warnings):
        yield Text(note, style="yellow")
    yield Text(f"{run_description(result)}, policy {result.policy}.", style="dim")


def over_time(result: Result, console: Console) -> RenderableType:
    """A small chart per series that is not always zero."""
    parts: list[RenderableType] = []
    for name, title in TITLES.items():
        values = [point.value for point in series_of(result, name)]
        if not any(values):
            continue
        line = Text(f"{title}: ", style="bold")
        line.append(series_change(name, result.summary[json_name(name)]), style="not bold")
        drawing = chart(values, min(console.width - 2, WIDEST_CHART), console)
        parts += [line, Padding(drawing, (0, 0, 1, 2))]
    return Group(*parts)


def plain_table() -> Table:
    """A table without lines."""
    return Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)


def shortages(result: Result) -> Table:
    """How often Ready pods were missing, by cause."""
    table = plain_table()
    table.add_column("caused by")
    table.add_column("why")
    table.add_column("shortages", justify="right")
    for row in shortage_rows(result):
        table.add_row(*row)
    return table


def moves_title(result: Result) -> str:
    """The number of moves, and how long they took on average."""
    migrations = result.migrations
    took = f", {format_duration(migrations.mean_seconds)} each" if migrations.mean_seconds else ""
    return f"Moves: {migrations.total:,}{took}"


def moves(result: Result) -> RenderableType:
    """The moves by strategy and outcome."""
    outcomes, rows = outcome_rows(result)
    if not rows:
        return Text("No pod was moved.")
    table = plain_table()
    table.add_column("strategy")
    for outcome in outcomes:
        table.add_column(outcome, justify="right")
    for strategy, counts in rows:
        table.add_row(strategy, *(f"{count:,}" for count in counts))
    return table


def happened(result: Result) -> Iterator[Text]:
    """The changes to nodes and versions that the workload file describes."""
    for entry in result.timeline[:MOST_EVENTS]:
        yield Text(escaped(f"{clock_time(result, entry.seconds)}  {entry.what}"))
    more = len(result.timeline) - MOST_EVENTS
    if more > 0:
        yield Text(f"… and {more:,} more", style="dim")


def blocked(result: Result) -> Table:
    """The blockers, those of most pods first."""
    table = plain_table()
    table.add_column("pods", justify="right")
    table.add_column("rounds", justify="right")
    table.add_column("why", overflow="fold")
    table.add_column("for example", style="dim", overflow="fold")
    for blocker in result.blocked[:MOST_BLOCKERS]:
        counts = f"{blocker.pods:,}", f"{blocker.rounds:,}"
        table.add_row(*counts, blocker.meaning, Text(escaped(blocker.example)))
    return table


def rounds_title(result: Result) -> str:
    """The number of rounds, and of those with moves."""
    rounds = result.rounds
    return f"{counted(rounds.total, 'round')}, {rounds.with_moves:,} with moves"


def idle_rounds(result: Result) -> Iterator[RenderableType]:
    """Why rounds moved nothing."""
    for idle in result.rounds.idle_reasons:
        yield Text(escaped(f"{counted(idle.rounds, 'time')}: {idle.why}"), style="dim")


def of_several(results: Sequence[Result]) -> Iterator[RenderableType]:
    """A column per run."""
    table = plain_table()
    table.add_column("", no_wrap=True)
    for result in results:
        table.add_column(Text(result.policy), justify="right", overflow="fold")
    for row in comparison_rows(results):
        table.add_row(*row)
    yield Group(heading("The same cluster and the same workload under each policy"), table)
    for note in results[0].notes:
        yield Text(note, style="yellow")
    yield Text(f"{run_description(results[0])}.", style="dim")
