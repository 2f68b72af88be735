"""A plan: the utilization of nodes before and after it, the moves, and the blockers."""

from collections.abc import Iterator

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from rescheduler.cli.control_characters import escaped
from rescheduler.cli.views.moves_view import about_moves, cut_moves, moves_of, short_number
from rescheduler.cli.views.utilization_chart import chart
from rescheduler.planning.plan import Assessment, BlockedPod, Plan, UtilizationSpread

MOST_UNREADABLE_SHOWN = 20
RESOURCE_NAMES = {"cpu": "CPU", "memory": "Memory"}


def show_plan(plan: Plan, console: Console) -> None:
    """Print a plan; the summary comes last, where it is seen first."""
    for part in parts_of(plan, console):
        console.print(part)
        console.print()
    console.print(Text(escaped(plan.summary), style="bold"))


def parts_of(plan: Plan, console: Console) -> Iterator[RenderableType]:
    """The parts that have something to show."""
    arrow = "->" if console.options.ascii_only else "→"
    if plan.before.per_node:
        yield chart(plan.before, plan.after, console)
        yield figures(plan.before, plan.after, arrow)
    if plan.moves:
        title = heading(f"Moves: {len(plan.moves):,}")
        shown = about_moves(plan.moves), moves_of(plan, console, arrow)
        yield Group(title, *shown, *cut_moves(plan, console))
    if plan.blocked:
        yield Group(heading(f"Not moved: {len(plan.blocked):,}"), blocked(plan.blocked))
    if plan.unreadable:
        yield Group(heading(f"Not decoded: {len(plan.unreadable):,}"), unreadable(plan.unreadable))


def heading(text: str) -> Text:
    """The title of a part."""
    return Text(text, style="bold")


def figures(before: Assessment, after: Assessment, arrow: str) -> Table:
    """The key figures, before and after."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", pad_edge=False)
    table.add_column("")
    for title in ("Before", "", "After"):
        table.add_column(title, justify="right", no_wrap=True)
    for name, old, new in figure_rows(before, after):
        table.add_row(name, old, arrow if old != new else "=", new)
    return table


def figure_rows(before: Assessment, after: Assessment) -> Iterator[tuple[str, str, str]]:
    """Name, value before, value after."""
    nothing = UtilizationSpread(0.0, 0.0, 0.0, 0.0)
    for resource, name in RESOURCE_NAMES.items():
        old = before.utilization.get(resource, nothing)
        new = after.utilization.get(resource, nothing)
        yield f"{name}, fullest node", percent(old.maximum), percent(new.maximum)
        spread = old.standard_deviation, new.standard_deviation
        yield f"{name}, standard deviation", percent(spread[0]), percent(spread[1])
    yield "Nodes in use", f"{before.nodes_in_use:,}", f"{after.nodes_in_use:,}"
    yield "Objective", short_number(before.objective), short_number(after.objective)


def unreadable(objects: tuple[str, ...]) -> Text:
    """The objects without which the plan was made, as far as a person reads them."""
    shown = [escaped(obj) for obj in objects[:MOST_UNREADABLE_SHOWN]]
    if len(objects) > len(shown):
        shown.append(f"and {len(objects) - len(shown):,} more")
    return Text("\n".join(shown))


def percent(fraction: float) -> str:
    """A fraction as a percentage."""
    return f"{fraction * 100:.1f} %"


def blocked(pods: tuple[BlockedPod, ...]) -> Table:
    """How many pods each blocker stops, with an example."""
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False, pad_edge=False)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(ratio=1, style="dim", overflow="fold")
    for blocker, group in by_blocker(pods):
        example = group[0]
        detail = f": {example.detail}" if example.detail else ""
        such_as = "" if len(group) == 1 else "such as "
        pod = Text(escaped(f"{such_as}{example.pod}{detail}"))
        table.add_row(f"{len(group):,}", blocker, pod)
    return table


def by_blocker(pods: tuple[BlockedPod, ...]) -> list[tuple[str, list[BlockedPod]]]:
    """Pods by blocker, the most frequent first."""
    groups: dict[str, list[BlockedPod]] = {}
    for pod in pods:
        groups.setdefault(pod.blocker, []).append(pod)
    return sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))
