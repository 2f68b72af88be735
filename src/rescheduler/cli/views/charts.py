"""Pictures of how full nodes are, before a plan and after it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rescheduler.model.resources import CPU, MEMORY
from rescheduler.planning.plan import Assessment

# More than these are easier to take in by how many nodes are how full.
MOST_BARS = 30
NARROWEST_BAR, WIDEST_BAR = 6, 24
# Room for a percentage.
LABEL_WIDTH = 5
BUCKETS = 10
WARM, HOT = 0.7, 0.9
PARTS = " ▏▎▍▌▋▊▉"


@dataclass(frozen=True)
class Column:
    """One of the four pictures: a resource, before or after."""

    title: str
    resource: str
    state: Assessment

    def of(self, node: str) -> float:
        """How full a node is, as a fraction."""
        return self.state.per_node.get(node, {}).get(self.resource, 0.0)


def chart(before: Assessment, after: Assessment, console: Console) -> Table:
    """Node by node if there are few, else how many nodes are how full."""
    columns = [
        Column("CPU before", CPU, before),
        Column("CPU after", CPU, after),
        Column("Memory before", MEMORY, before),
        Column("Memory after", MEMORY, after),
    ]
    nodes = list(before.per_node)
    if len(nodes) <= MOST_BARS:
        return bars(nodes, columns, console)
    return histogram(nodes, columns, console)


def bars(nodes: list[str], columns: list[Column], console: Console) -> Table:
    """A line for each node, the fullest first."""
    nodes = sorted(nodes, key=lambda node: -max(column.of(node) for column in columns[::2]))
    shown = short_names(nodes)
    name_width = min(max(map(len, shown.values()), default=4), max(console.width // 4, 12))
    width = bar_width(console, name_width, len(columns), LABEL_WIDTH)
    table = grid("Node", name_width, columns, width + LABEL_WIDTH)
    for node in nodes:
        cells = [bar(column.of(node), width, console) for column in columns]
        table.add_row(shown[node], *cells)
    return table


def histogram(nodes: list[str], columns: list[Column], console: Console) -> Table:
    """A line for each tenth, with the number of nodes that are that full."""
    counts = [bucket_counts(column.of(node) for node in nodes) for column in columns]
    most = max(max(each) for each in counts)
    label_width = len(f" {most:,}")
    width = bar_width(console, 10, len(columns), label_width)
    table = grid("Node is at", 10, columns, width + label_width)
    for bucket in range(BUCKETS + 1):
        cells = [count_bar(each[bucket], most, bucket, width, console) for each in counts]
        if bucket < BUCKETS or any(each[bucket] for each in counts):
            table.add_row(bucket_name(bucket), *cells)
    return table


def bucket_counts(fractions: Iterable[float]) -> list[int]:
    """How many are in each tenth; the last count is of those above 100 %."""
    counts = [0] * (BUCKETS + 1)
    for fraction in fractions:
        # Exactly full is not over-full.
        counts[BUCKETS - 1 if fraction == 1.0 else min(int(fraction * BUCKETS), BUCKETS)] += 1
    return counts


def bucket_name(bucket: int) -> str:
    """What a line of the histogram stands for."""
    if bucket == BUCKETS:
        return "over 100 %"
    return f"{bucket * 10:>3}-{bucket * 10 + 10} %"


def grid(first: str, first_width: int, columns: list[Column], least_width: int) -> Table:
    """A table without lines, with a heading for each picture."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", pad_edge=False)
    table.add_column(first, width=first_width, no_wrap=True, overflow="ellipsis")
    for column in columns:
        is_narrow = least_width < len(column.title)
        title = column.title.replace(" ", "\n") if is_narrow else column.title
        table.add_column(title, no_wrap=True, min_width=least_width)
    return table


def bar_width(console: Console, name_width: int, columns: int, label_width: int) -> int:
    """How long bars can be on this terminal; 0 where only the numbers fit."""
    room = (console.width - name_width - 2) // columns - label_width - 2
    return min(room, WIDEST_BAR) if room >= NARROWEST_BAR else 0


def bar(fraction: float, width: int, console: Console) -> Text:
    """How full one node is, and the number beside it."""
    filled = blocks(min(fraction, 1.0) * width, width, console)
    return Text.assemble((filled, heat(fraction)), f"{round(fraction * 100):>4}%")


def count_bar(count: int, most: int, bucket: int, width: int, console: Console) -> Text:
    """How many nodes there are in a tenth; at least a sliver where there is one."""
    length = max(count / most * width, 1 / 8) if count else 0.0
    filled = blocks(length, width, console)
    number = f" {count:,}" if count else ""
    return Text.assemble((filled.rstrip(), heat((bucket + 0.5) / BUCKETS)), number)


def blocks(length: float, width: int, console: Console) -> str:
    """A bar of some length, padded to `width`; drawn in eighths where the terminal can."""
    if console.options.ascii_only:
        return ("#" * round(length)).ljust(width, ".")
    whole, part = divmod(round(length * 8), 8)
    return ("█" * whole + (PARTS[part] if part else "")).ljust(width, " ")


def heat(fraction: float) -> str:
    """The colour of something that full."""
    if fraction >= HOT:
        return "red"
    return "yellow" if fraction >= WARM else "green"


def short_names(nodes: Iterable[str]) -> Mapping[str, str]:
    """Names without the domain that all of them share, as nodes in a cloud do."""
    names = list(nodes)
    domains = {name.partition(".")[2] for name in names}
    if len(domains) != 1:
        return {name: name for name in names}
    return {name: name.partition(".")[0] for name in names}
