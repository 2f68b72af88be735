"""A simulation while it runs: a picture that lives, or a few plain lines.

It is drawn on standard error, so that standard output has the result and nothing else. However
fast simulated time goes, it is drawn a few times in a real second and no more.
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

from rescheduler.cli.views.charts import bar, bucket_counts, bucket_name, count_bar, short_names
from rescheduler.simulation.results.measurement.node_usage import UsageSample
from rescheduler.simulation.results.text import counted
from rescheduler.simulation.simulation import Progress

PICTURES_PER_SECOND = 5
BAR_WIDTH = 8
# More nodes than these are easier to take in by how many are how full.
MOST_BARS = 100
MOST_MOVES = 8
# So many plain lines tell of one run.
LINES = 8


@contextmanager
def view_of(title: str) -> Iterator[Callable[[Progress], None]]:
    """What is called with each step of the way; it shows what the terminal can."""
    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        yield Lines(title, console).show
        return
    # Nobody but us decides when to draw: a thread that draws would take the time of another.
    with Live(console=console, auto_refresh=False, transient=True) as live:
        yield Pictures(title, live, console).show


class Lines:
    """A line now and then."""

    def __init__(self, title: str, console: Console) -> None:
        self._title = title
        self._console = console
        self._next = 0.0

    def show(self, progress: Progress) -> None:
        if progress.seconds < self._next:
            return
        self._next = progress.seconds + progress.total_seconds / LINES
        self._console.print(line_of(self._title, progress), soft_wrap=True)


class Pictures:
    """The whole picture, drawn anew some times per second."""

    def __init__(self, title: str, live: Live, console: Console) -> None:
        self._title = title
        self._live = live
        self._console = console
        self._drawn = 0.0

    def show(self, progress: Progress) -> None:
        now = time.monotonic()
        if now - self._drawn < 1 / PICTURES_PER_SECOND:
            return
        self._drawn = now
        self._live.update(picture(self._title, progress, self._console), refresh=True)


def line_of(title: str, progress: Progress) -> str:
    """How it is, in a line."""
    moment = progress.recorder.usage.sample()
    return (
        f"{progress.now:%H:%M} {progress.seconds / progress.total_seconds:>4.0%}  {title}: "
        f"imbalance {moment.imbalance:.0%}, {moment.nodes_in_use} nodes in use, "
        f"{counts(progress)}"
    )


def counts(progress: Progress) -> str:
    """What is going on, in numbers."""
    recorder = progress.recorder
    below = recorder.shortages.by_moves
    return (
        f"{counted(len(recorder.pods), 'pod')}, {recorder.pods_pending} pending, "
        f"{counted(len(recorder.moves.by_uid), 'move')} so far, "
        f"{len(recorder.moves.in_flight)} in flight, "
        f"{counted(sum(below.begun.values()), 'shortage')} caused by moves"
    )


def picture(title: str, progress: Progress, console: Console) -> RenderableType:
    """Clock and bar, nodes, moves in flight."""
    moment = progress.recorder.usage.sample()
    head = Table.grid(padding=(0, 2))
    head.add_row(
        Text(f"{progress.now:%a %H:%M}", style="bold"),
        ProgressBar(progress.total_seconds, progress.seconds, width=40),
        Text(title, style="dim"),
    )
    summary = f"imbalance {moment.imbalance:.0%}, {moment.nodes_in_use} nodes in use, "
    return Group(
        head,
        Text(summary + counts(progress)),
        Text(""),
        nodes(moment, console),
        Text(""),
        *moves(progress),
        Text(progress.last_change, style="dim"),
    )


def nodes(moment: UsageSample, console: Console) -> RenderableType:
    """Nodes as bars, or how many of them are how full."""
    loads = dict(zip(moment.names, moment.loads.tolist(), strict=True))
    known = {name: load for name, load in loads.items() if load == load}
    if len(loads) <= MOST_BARS:
        names = short_names(loads)
        cells = [
            Text.assemble((f"{names[name]} ", "dim"), cell(known.get(name), console))
            for name in loads
        ]
        return Columns(cells, equal=True, padding=(0, 2))
    table = Table.grid(padding=(0, 1))
    held = bucket_counts(known.values())
    for bucket, count in enumerate(held):
        table.add_row(bucket_name(bucket), count_bar(count, max(held) or 1, bucket, 40, console))
    return table


def cell(load: float | None, console: Console) -> Text:
    """How full a node is, or that it is down."""
    if load is None:
        return Text("not ready".ljust(BAR_WIDTH + 5), style="red")
    return bar(load, BAR_WIDTH, console)


def moves(progress: Progress) -> Iterator[Text]:
    """The moves in flight with their steps; always as many lines, so that nothing jumps."""
    under_way = list(progress.recorder.moves.in_flight.values())
    for move in under_way[:MOST_MOVES]:
        where = f"{move.source or '?'} → {move.target}"
        yield Text(f"{move.pod}  {where}  {move.mode} {move.step}", no_wrap=True)
    rest = len(under_way) - MOST_MOVES
    for _ in range(MOST_MOVES - len(under_way)):
        yield Text("")
    yield Text(f"… and {rest} more" if rest > 0 else "", style="dim")
