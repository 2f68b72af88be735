"""A plan for the eye: how full nodes are now and then, the moves, and what stood in the way."""

from collections.abc import Iterator, Mapping

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from rescheduler.cli.charts import chart, short_names
from rescheduler.planning.plan import Assessment, Blocked, Move, Plan, Spread

# From here on, reasons have a column of their own instead of a line.
WIDE = 120
RESOURCE_NAMES = {"cpu": "CPU", "memory": "Memory"}


def show_plan(plan: Plan, console: Console) -> None:
    """Print everything a person wants to know about a plan, the most important last."""
    for part in parts_of(plan, console):
        console.print(part)
        console.print()
    console.print(Text(plan.summary, style="bold"))


def parts_of(plan: Plan, console: Console) -> Iterator[RenderableType]:
    """The parts of the picture that there is something to show for."""
    arrow = "->" if console.options.ascii_only else "→"
    if plan.before.per_node:
        yield chart(plan.before, plan.after, console)
        yield figures(plan.before, plan.after, arrow)
    if plan.moves:
        yield Group(heading(f"Moves: {len(plan.moves)}"), moves(plan, console, arrow))
    if plan.blocked:
        yield Group(heading(f"Not moved: {len(plan.blocked)}"), blocked(plan.blocked))


def heading(text: str) -> Text:
    """The title of a part."""
    return Text(text, style="bold")


def figures(before: Assessment, after: Assessment, arrow: str) -> Table:
    """The key figures, before and after."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", pad_edge=False)
    table.add_column("")
    for title in ("Before", "", "After"):
        table.add_column(title, justify="right", no_wrap=True)
    for name, was, becomes in figure_rows(before, after):
        table.add_row(name, was, arrow if was != becomes else "=", becomes)
    return table


def figure_rows(before: Assessment, after: Assessment) -> Iterator[tuple[str, str, str]]:
    """Name, value before, value after."""
    nothing = Spread(0.0, 0.0, 0.0, 0.0)
    for resource, name in RESOURCE_NAMES.items():
        was = before.utilization.get(resource, nothing)
        becomes = after.utilization.get(resource, nothing)
        yield f"{name}, fullest node", percent(was.maximum), percent(becomes.maximum)
        spread = was.standard_deviation, becomes.standard_deviation
        yield f"{name}, standard deviation", percent(spread[0]), percent(spread[1])
    yield "Nodes in use", f"{before.nodes_in_use:,}", f"{after.nodes_in_use:,}"


def percent(fraction: float) -> str:
    """A fraction as people write it."""
    return f"{fraction * 100:.1f} %"


def moves(plan: Plan, console: Console, arrow: str) -> RenderableType:
    """All moves in their order."""
    names = short_names({name for move in plan.moves for name in (move.source, move.target)})
    if console.width >= WIDE:
        return moves_table(plan.moves, names, arrow)
    return Group(*moves_line_by_line(plan.moves, names, arrow, console.width))


def moves_table(moves: tuple[Move, ...], names: Mapping[str, str], arrow: str) -> Table:
    """A line for each move."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    table.add_column("#", justify="right", style="dim")
    table.add_column("Pod", overflow="fold")
    table.add_column(f"From {arrow} to", overflow="fold")
    table.add_column("How")
    table.add_column("Why", ratio=1)
    for number, move in enumerate(moves, start=1):
        way = f"{names[move.source]} {arrow} {names[move.target]}"
        table.add_row(str(number), move.pod, way, move.mode, Text(move.reason))
    return table


def moves_line_by_line(
    moves: tuple[Move, ...], names: Mapping[str, str], arrow: str, width: int
) -> Iterator[RenderableType]:
    """What moves in one line, why in the next; long names get a line of their own."""
    digits = len(str(len(moves)))
    ways = [f"{names[move.source]} {arrow} {names[move.target]}" for move in moves]
    pod_width, way_width = max(len(move.pod) for move in moves), max(map(len, ways))
    fits = digits + 2 + pod_width + 2 + way_width + 2 + len("Handoff") <= width
    for number, (move, way) in enumerate(zip(moves, ways, strict=True), start=1):
        indented = f"\n{'':{digits + 2}}"
        line = Text(f"{number:>{digits}}  ", style="dim", overflow="fold")
        line.append(f"{move.pod:<{pod_width}}" if fits else move.pod, style="not dim bold")
        line.append("  " if fits else indented)
        line.append(f"{way:<{way_width}}  {move.mode}", style="not dim")
        yield line
        yield Padding(Text(move.reason, style="dim"), (0, 0, 0, digits + 2), expand=False)


def blocked(pods: tuple[Blocked, ...]) -> Table:
    """How many pods each blocker kept where they are, with an example."""
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False, pad_edge=False)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(ratio=1, style="dim", overflow="fold")
    for blocker, group in by_blocker(pods):
        example = group[0]
        detail = f": {example.detail}" if example.detail else ""
        such_as = "" if len(group) == 1 else "such as "
        table.add_row(f"{len(group):,}", blocker, Text(f"{such_as}{example.pod}{detail}"))
    return table


def by_blocker(pods: tuple[Blocked, ...]) -> list[tuple[str, list[Blocked]]]:
    """Pods by what kept them, the most frequent first."""
    groups: dict[str, list[Blocked]] = {}
    for pod in pods:
        groups.setdefault(pod.blocker, []).append(pod)
    return sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))
