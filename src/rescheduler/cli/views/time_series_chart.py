"""Charts of a time series, a few lines high."""

from collections.abc import Sequence
from itertools import pairwise

from rich.console import Console
from rich.text import Text

LEVELS = " ▁▂▃▄▅▆▇█"
ASCII_LEVELS = " ._-=+*%#"
HEIGHT = 3


def chart(values: Sequence[float], width: int, console: Console) -> Text:
    """A column per value; the highest value fills the chart."""
    columns = squeezed(values, width)
    most = max(columns, default=0.0) or 1.0
    levels = ASCII_LEVELS if console.options.ascii_only else LEVELS
    heights = [round(value / most * HEIGHT * 8) for value in columns]
    # A value above zero is always visible.
    heights = [max(h, 1) if value > 0 else 0 for h, value in zip(heights, columns, strict=True)]
    rows = [
        "".join(levels[min(max(height - row * 8, 0), 8)] for height in heights)
        for row in reversed(range(HEIGHT))
    ]
    return Text("\n".join(rows), style="cyan", no_wrap=True)


def squeezed(values: Sequence[float], width: int) -> list[float]:
    """One value per column: the highest of those that share a column.

    A short series is stretched, so that all charts have the same width.
    """
    count = len(values)
    if not count or width <= 0:
        return []
    edges = [column * count / width for column in range(width + 1)]
    return [max(values[int(low) : max(int(high), int(low) + 1)]) for low, high in pairwise(edges)]
