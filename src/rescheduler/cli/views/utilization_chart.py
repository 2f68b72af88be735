"""Charts of the utilization of nodes, before and after a plan."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rescheduler.cli.control_characters import escaped
from rescheduler.model.resources import CPU, MEMORY
from rescheduler.planning.plan import Assessment

# More nodes than these are shown as a histogram.
MOST_BARS = 30
NARROWEST_BAR, WIDEST_BAR = 6, 24
# Width of a percentage.
LABEL_WIDTH = 5
BUCKETS = 10
YELLOW_FROM, RED_FROM = 0.7, 0.9
PARTS = " ▏▎▍▌▋▊▉"


@dataclass(frozen=True)
class Column:
    """One of the four columns: a resource, before or after."""

    title: str
    resource: str
    state: Assessment

    def of(self, node: str) -> float:
        """The utilization of a node, as a fraction."""
        return self.state.per_node.get(node, {}).get(self.resource, 0.0)


def chart(before: Assessment, after: Assessment, console: Console) -> Table:
    """A bar per node if there are few nodes, else a histogram."""
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
    """A line per node, the fullest first."""
    nodes = sorted(nodes, key=lambda node: -max(column.of(node) for column in columns[::2]))
    names = short_names(nodes)
    name_width = min(max(map(len, names.values()), default=4), max(console.width // 4, 12))
    width = bar_width(console, name_width, len(columns), LABEL_WIDTH)
    table = grid("Node", name_width, columns, width + LABEL_WIDTH)
    for node in nodes:
        cells = [bar(column.of(node), width, console) for column in columns]
        table.add_row(names[node], *cells)
    return table


def histogram(nodes: list[str], columns: list[Column], console: Console) -> Table:
    """A line per tenth of utilization, with the number of nodes in it."""
    counts = [bucket_counts(column.of(node) for node in nodes) for column in columns]
    most = max(max(column_counts) for column_counts in counts)
    label_width = len(f" {most:,}")
    width = bar_width(console, 11, len(columns), label_width)
    table = grid("Utilization", 11, columns, width + label_width)
    for bucket in range(BUCKETS + 1):
        in_bucket = [column_counts[bucket] for column_counts in counts]
        if bucket < BUCKETS or any(in_bucket):
            cells = [count_bar(count, most, bucket, width, console) for count in in_bucket]
            table.add_row(bucket_name(bucket), *cells)
    return table


def bucket_counts(fractions: Iterable[float]) -> list[int]:
    """How many fractions are in each tenth; the last count is of those above 100 %."""
    counts = [0] * (BUCKETS + 1)
    for fraction in fractions:
        # Exactly 100 % is not above 100 %.
        counts[BUCKETS - 1 if fraction == 1.0 else min(int(fraction * BUCKETS), BUCKETS)] += 1
    return counts


def bucket_name(bucket: int) -> str:
    """The label of a line of the histogram."""
    if bucket == BUCKETS:
        return "over 100 %"
    return f"{bucket * 10:>3}-{bucket * 10 + 10} %"


def grid(first: str, first_width: int, columns: list[Column], least_width: int) -> Table:
    """A table without lines, with a heading per column."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", pad_edge=False)
    table.add_column(first, width=first_width, no_wrap=True, overflow="ellipsis")
    for column in columns:
        is_narrow = least_width < len(column.title)
        title = column.title.replace(" ", "\n") if is_narrow else column.title
        table.add_column(title, no_wrap=True, min_width=least_width)
    return table


def bar_width(console: Console, name_width: int, columns: int, label_width: int) -> int:
    """The longest bar that fits this terminal; 0 if only the numbers fit."""
    room = (console.width - name_width - 2) // columns - label_width - 2
    return min(room, WIDEST_BAR) if room >= NARROWEST_BAR else 0


def bar(fraction: float, width: int, console: Console) -> Text:
    """The utilization of one node, as a bar and a percentage."""
    filled = blocks(min(fraction, 1.0) * width, width, console)
    return Text.assemble((filled, color(fraction)), f"{round(fraction * 100):>4}%")


def count_bar(count: int, most: int, bucket: int, width: int, console: Console) -> Text:
    """The number of nodes in a tenth; a single node gets at least a thin bar."""
    length = max(count / most * width, 1 / 8) if count else 0.0
    filled = blocks(length, width, console)
    number = f" {count:,}" if count else ""
    return Text.assemble((filled.rstrip(), color((bucket + 0.5) / BUCKETS)), number)


def blocks(length: float, width: int, console: Console) -> str:
    """A bar padded to `width`, drawn in eighths of a character if the terminal can show them."""
    if console.options.ascii_only:
        return ("#" * round(length)).ljust(width, ".")
    whole, part = divmod(round(length * 8), 8)
    return ("█" * whole + (PARTS[part] if part else "")).ljust(width, " ")


def color(fraction: float) -> str:
    """The color for this utilization."""
    if fraction >= RED_FROM:
        return "red"
    return "yellow" if fraction >= YELLOW_FROM else "green"


def short_names(nodes: Iterable[str]) -> Mapping[str, str]:
    """Names of nodes as they are printed: without a domain that all share, as in most clouds."""
    names = list(nodes)
    domains = {name.partition(".")[2] for name in names}
    if len(domains) != 1:
        return {name: escaped(name) for name in names}
    return {name: escaped(name.partition(".")[0]) for name in names}
