"""A screen that is drawn again in place; without a terminal, one drawing after the other."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

Draw = Callable[[RenderableType], None]


@contextmanager
def live_screen(console: Console) -> Iterator[Draw]:
    """Draw on it until the block ends. The last drawing stays."""
    if not console.is_terminal:

        def print_below(drawing: RenderableType) -> None:
            console.print(drawing)
            console.print()
            console.file.flush()

        yield print_below
        return
    # What does not fit is cut; "visible" would scroll, and draw each part again and again.
    with Live(console=console, auto_refresh=False, vertical_overflow="ellipsis") as live:

        def redraw(drawing: RenderableType) -> None:
            moment = datetime.now().astimezone().strftime("%H:%M:%S")
            footer = Text(f"{moment}, every 2 s; Ctrl-C ends it", style="dim")
            live.update(Group(footer, drawing), refresh=True)

        yield redraw
