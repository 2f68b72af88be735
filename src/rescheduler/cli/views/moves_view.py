"""The moves of a plan: which pod, from and to which node, the mode, the wave and the reason."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from rescheduler.cli.control_characters import escaped
from rescheduler.cli.views.utilization_chart import short_names
from rescheduler.model.moves import Mode
from rescheduler.planning.plan import Move, Plan

# From this width on, reasons have a column of their own instead of a line.
WIDE = 120
# Longer plans are cut.
MOST_MOVES = 50
MODE_WIDTH = max(map(len, Mode))


def about_moves(moves: Sequence[Move]) -> Text:
    """How the moves run and what gain means; of a long plan, also how many moves of which kind."""
    text = f"{order_of(moves)} Gain: by how much a move lowers the objective."
    if len(moves) > MOST_MOVES:
        counts = Counter(f"{move.strategy} ({move.mode})" for move in moves).most_common()
        text = f"{', '.join(f'{kind}: {count:,}' for kind, count in counts)}.\n{text}"
    return Text(text, style="dim")


def order_of(moves: Sequence[Move]) -> str:
    """Which moves may run at the same time."""
    waves = len({move.wave for move in moves})
    if waves == 1:
        return "All moves may run at the same time."
    if waves == len(moves):
        return "The moves run one after another."
    return f"The moves run in {waves:,} waves. Moves of one wave may run at the same time."


def moves_of(plan: Plan, console: Console, arrow: str) -> RenderableType:
    """The first moves of the plan, in order."""
    moves = plan.moves[:MOST_MOVES]
    names = short_names({name for move in moves for name in (move.source, move.target)})
    if console.width >= WIDE:
        return moves_table(moves, names, arrow)
    return Group(*moves_line_by_line(moves, names, arrow, console.width))


def cut_moves(plan: Plan, console: Console) -> Iterator[Text]:
    """How many moves are not shown, and how to see them."""
    rest = len(plan.moves) - MOST_MOVES
    if rest > 0:
        dots = "..." if console.options.ascii_only else "…"
        yield Text(f"{dots} and {rest:,} more; use -o json to see all")


def moves_table(moves: Sequence[Move], names: Mapping[str, str], arrow: str) -> Table:
    """A line per move."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    table.add_column("#", justify="right", style="dim")
    table.add_column("Wave", justify="right", style="dim")
    table.add_column("Pod", overflow="fold")
    table.add_column(f"From {arrow} to", overflow="fold")
    table.add_column("Mode")
    table.add_column("Gain", justify="right")
    table.add_column("Reason", ratio=1)
    for number, move in enumerate(moves, start=1):
        nodes = f"{names[move.source]} {arrow} {names[move.target]}"
        first_cells = str(number), str(move.wave + 1), escaped(move.pod), nodes
        reason = Text(escaped(move.reason))
        table.add_row(*first_cells, move.mode, short_number(move.gain), reason)
    return table


def moves_line_by_line(
    moves: Sequence[Move], names: Mapping[str, str], arrow: str, width: int
) -> Iterator[RenderableType]:
    """The move in one line, the reason in the next; long names get a line of their own."""
    digits = len(str(len(moves)))
    nodes = [f"{names[move.source]} {arrow} {names[move.target]}" for move in moves]
    modes = [f"{move.mode:<{MODE_WIDTH}}  gain {short_number(move.gain)}" for move in moves]
    pods = [escaped(move.pod) for move in moves]
    pod_width, nodes_width = max(map(len, pods)), max(map(len, nodes))
    fits = digits + 2 + pod_width + 2 + nodes_width + 2 + max(map(len, modes)) <= width
    titles = wave_titles(moves)
    lines = zip(moves, pods, nodes, modes, strict=True)
    for number, (move, pod, route, mode) in enumerate(lines, start=1):
        if number in titles:
            yield Text(titles[number], style="dim")
        indented = f"\n{'':{digits + 2}}"
        line = Text(f"{number:>{digits}}  ", style="dim", overflow="fold")
        line.append(f"{pod:<{pod_width}}" if fits else pod, style="not dim bold")
        line.append("  " if fits else indented)
        line.append(f"{route:<{nodes_width if fits else 0}}  {mode}", style="not dim")
        yield line
        reason = Text(escaped(move.reason), style="dim")
        yield Padding(reason, (0, 0, 0, digits + 2), expand=False)


def wave_titles(moves: Sequence[Move]) -> dict[int, str]:
    """The title above the first move of each wave, by the number of the move.

    There are no titles if all moves are in one wave, or each in a wave of its own.
    """
    before = [None, *(move.wave for move in moves)]
    titles = {
        number: f"Wave {move.wave + 1}"
        for number, (move, last) in enumerate(zip(moves, before, strict=False), start=1)
        if move.wave != last
    }
    return titles if 1 < len(titles) < len(moves) else {}


def short_number(value: float) -> str:
    """Three digits of a small number; a large number without decimals."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
