"""The progress of a simulation: a live view on a terminal, else a few lines.

It goes to standard error: standard output has only the results. It is redrawn a few times per
real second, however fast the simulated time passes.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from rescheduler.cli.control_characters import escaped
from rescheduler.cli.views.utilization_chart import (
    bar,
    bucket_counts,
    bucket_name,
    count_bar,
    short_names,
)
from rescheduler.simulation.results.measurement.node_usage import UsageSample
from rescheduler.simulation.results.text import counted
from rescheduler.simulation.simulation import Progress

REDRAWS_PER_SECOND = 5
BAR_WIDTH = 8
# More nodes than these are shown as a histogram.
MOST_BARS = 100
MOST_MOVES = 8
LINES_PER_RUN = 8


@contextmanager
def progress_view(title: str) -> Iterator[Callable[[Progress], None]]:
    """A function to call with the progress after each step."""
    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        yield LineProgress(title, console).show
        return
    # No automatic refresh: its thread would slow the simulation down.
    with Live(console=console, auto_refresh=False, transient=True) as live:
        yield LiveProgress(title, live, console).show


class LineProgress:
    """A few lines per run, evenly spread over the simulated time."""

    def __init__(self, title: str, console: Console) -> None:
        self._title = title
        self._console = console
        self._next = 0.0

    def show(self, progress: Progress) -> None:
        if progress.seconds < self._next:
            return
        self._next = progress.seconds + progress.total_seconds / LINES_PER_RUN
        self._console.print(line_of(self._title, progress), soft_wrap=True)


class LiveProgress:
    """The whole view, redrawn some times per second."""

    def __init__(self, title: str, live: Live, console: Console) -> None:
        self._title = title
        self._live = live
        self._console = console
        self._drawn = 0.0

    def show(self, progress: Progress) -> None:
        now = time.monotonic()
        if now - self._drawn < 1 / REDRAWS_PER_SECOND:
            return
        self._drawn = now
        self._live.update(live_view(self._title, progress, self._console), refresh=True)


def line_of(title: str, progress: Progress) -> str:
    """The state of the simulation, in a line."""
    usage = progress.recorder.usage.sample()
    return (
        f"{progress.now:%H:%M} {progress.seconds / progress.total_seconds:>4.0%}  {title}: "
        f"imbalance {usage.imbalance:.0%}, {usage.nodes_in_use} nodes in use, "
        f"{counts(progress)}"
    )


def counts(progress: Progress) -> str:
    """Pods, moves and missing pods, as numbers."""
    recorder = progress.recorder
    caused = recorder.shortages.by_moves
    return (
        f"{counted(len(recorder.pods), 'pod')}, {recorder.pods_pending} pending, "
        f"{counted(len(recorder.moves.by_uid), 'move')} so far, "
        f"{len(recorder.moves.in_flight)} in flight, "
        f"{counted(sum(caused.begun.values()), 'shortage')} caused by moves"
    )


def live_view(title: str, progress: Progress, console: Console) -> RenderableType:
    """Simulated time and progress bar, nodes, moves in flight."""
    usage = progress.recorder.usage.sample()
    head = Table.grid(padding=(0, 2))
    head.add_row(
        Text(f"{progress.now:%a %H:%M}", style="bold"),
        ProgressBar(progress.total_seconds, progress.seconds, width=40),
        Text(title, style="dim"),
    )
    summary = f"imbalance {usage.imbalance:.0%}, {usage.nodes_in_use} nodes in use, "
    return Group(
        head,
        Text(summary + counts(progress)),
        Text(""),
        nodes(usage, console),
        Text(""),
        *moves_in_flight(progress),
        Text(escaped(progress.last_change), style="dim"),
    )


def nodes(usage: UsageSample, console: Console) -> RenderableType:
    """A bar per node, or a histogram of many nodes."""
    loads = dict(zip(usage.names, usage.loads.tolist(), strict=True))
    known = {name: load for name, load in loads.items() if load == load}
    if len(loads) <= MOST_BARS:
        names = short_names(loads)
        cells = [
            Text.assemble((f"{names[name]} ", "dim"), cell(known.get(name), console))
            for name in loads
        ]
        return Columns(cells, equal=True, padding=(0, 2))
    table = Table.grid(padding=(0, 1))
    node_counts = bucket_counts(known.values())
    most = max(node_counts) or 1
    for bucket, count in enumerate(node_counts):
        table.add_row(bucket_name(bucket), count_bar(count, most, bucket, 40, console))
    return table


def cell(load: float | None, console: Console) -> Text:
    """The utilization of a node, or that it is not ready."""
    if load is None:
        return Text("not ready".ljust(BAR_WIDTH + 5), style="red")
    return bar(load, BAR_WIDTH, console)


def moves_in_flight(progress: Progress) -> Iterator[Text]:
    """The moves in flight with their steps; always the same number of lines, so nothing jumps."""
    in_flight = list(progress.recorder.moves.in_flight.values())
    for move in in_flight[:MOST_MOVES]:
        nodes = f"{move.source or '?'} → {move.target}"
        yield Text(escaped(f"{move.pod}  {nodes}  {move.mode} {move.step}"), no_wrap=True)
    rest = len(in_flight) - MOST_MOVES
    for _ in range(MOST_MOVES - len(in_flight)):
        yield Text("")
    yield Text(f"… and {rest} more" if rest > 0 else "", style="dim")
