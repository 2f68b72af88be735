"""The moves of a plan for the eye: what goes where, how, when and why."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from rescheduler.cli.views.charts import short_names
from rescheduler.model.moves import Mode
from rescheduler.planning.plan import Move, Plan

# From here on, reasons have a column of their own instead of a line.
WIDE = 120
# Nobody reads more moves than these one by one.
MOST_MOVES = 50
MODE_WIDTH = max(map(len, Mode))


def about_moves(moves: Sequence[Move]) -> Text:
    """What the numbers beside moves mean and, where there are many, of what sorts they are."""
    told = f"{how_they_run(moves)} Gain is what a move takes off the objective."
    if len(moves) > MOST_MOVES:
        sorts = Counter(f"{move.strategy} ({move.mode})" for move in moves).most_common()
        told = f"For {', '.join(f'{sort}: {count:,}' for sort, count in sorts)}.\n{told}"
    return Text(told, style="dim")


def how_they_run(moves: Sequence[Move]) -> str:
    """Which moves may run at the same time."""
    turns = len({move.wave for move in moves})
    if turns == 1:
        return "They may all run at the same time."
    if turns == len(moves):
        return "They run one after another."
    return f"They run in {turns:,} turns; those of one turn may run at the same time."


def moves_of(plan: Plan, console: Console, arrow: str) -> RenderableType:
    """The first moves in their order."""
    moves = plan.moves[:MOST_MOVES]
    names = short_names({name for move in moves for name in (move.source, move.target)})
    if console.width >= WIDE:
        return moves_table(moves, names, arrow)
    return Group(*moves_line_by_line(moves, names, arrow, console.width))


def what_was_cut(plan: Plan, console: Console) -> Iterator[Text]:
    """How many moves are not shown, and where to find them."""
    rest = len(plan.moves) - MOST_MOVES
    if rest > 0:
        dots = "..." if console.options.ascii_only else "…"
        yield Text(f"{dots} and {rest:,} more; -o json has them all")


def moves_table(moves: Sequence[Move], names: Mapping[str, str], arrow: str) -> Table:
    """A line for each move."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    table.add_column("#", justify="right", style="dim")
    table.add_column("Turn", justify="right", style="dim")
    table.add_column("Pod", overflow="fold")
    table.add_column(f"From {arrow} to", overflow="fold")
    table.add_column("How")
    table.add_column("Gain", justify="right")
    table.add_column("Why", ratio=1)
    for number, move in enumerate(moves, start=1):
        way = f"{names[move.source]} {arrow} {names[move.target]}"
        place = str(number), str(move.wave + 1), move.pod, way
        table.add_row(*place, move.mode, short_number(move.gain), Text(move.reason))
    return table


def moves_line_by_line(
    moves: Sequence[Move], names: Mapping[str, str], arrow: str, width: int
) -> Iterator[RenderableType]:
    """What moves in one line, why in the next; long names get a line of their own."""
    digits = len(str(len(moves)))
    ways = [f"{names[move.source]} {arrow} {names[move.target]}" for move in moves]
    hows = [f"{move.mode:<{MODE_WIDTH}}  gain {short_number(move.gain)}" for move in moves]
    pod_width, way_width = max(len(move.pod) for move in moves), max(map(len, ways))
    fits = digits + 2 + pod_width + 2 + way_width + 2 + max(map(len, hows)) <= width
    titles = titles_of_turns(moves)
    for number, (move, way, how) in enumerate(zip(moves, ways, hows, strict=True), start=1):
        if number in titles:
            yield Text(titles[number], style="dim")
        indented = f"\n{'':{digits + 2}}"
        line = Text(f"{number:>{digits}}  ", style="dim", overflow="fold")
        line.append(f"{move.pod:<{pod_width}}" if fits else move.pod, style="not dim bold")
        line.append("  " if fits else indented)
        line.append(f"{way:<{way_width if fits else 0}}  {how}", style="not dim")
        yield line
        yield Padding(Text(move.reason, style="dim"), (0, 0, 0, digits + 2), expand=False)


def titles_of_turns(moves: Sequence[Move]) -> dict[int, str]:
    """What stands above a move with which a turn begins, where several moves share a turn."""
    before = [None, *(move.wave for move in moves)]
    titles = {
        number: f"Turn {move.wave + 1}"
        for number, (move, last) in enumerate(zip(moves, before, strict=False), start=1)
        if move.wave != last
    }
    return titles if 1 < len(titles) < len(moves) else {}


def short_number(value: float) -> str:
    """Three digits of a small number, all of a big one but what is behind the point."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
