"""Series over time, drawn with a few lines of blocks."""

from collections.abc import Sequence
from itertools import pairwise

from rich.console import Console
from rich.text import Text

LEVELS = " ▁▂▃▄▅▆▇█"
ASCII_LEVELS = " ._-=+*%#"
HEIGHT = 3


def chart(values: Sequence[float], width: int, console: Console, style: str = "cyan") -> Text:
    """Columns as high as the values, the highest of them as high as the picture."""
    columns = squeezed(values, width)
    most = max(columns, default=0.0) or 1.0
    levels = ASCII_LEVELS if console.options.ascii_only else LEVELS
    heights = [round(value / most * HEIGHT * 8) for value in columns]
    # What is not nothing is seen.
    heights = [max(h, 1) if value > 0 else 0 for h, value in zip(heights, columns, strict=True)]
    rows = [
        "".join(levels[min(max(height - row * 8, 0), 8)] for height in heights)
        for row in reversed(range(HEIGHT))
    ]
    return Text("\n".join(rows), style=style, no_wrap=True)


def squeezed(values: Sequence[float], width: int) -> list[float]:
    """As many values as there are columns: of those that share one, the highest.

    A short series is stretched, so that all charts of one story end at the same place.
    """
    count = len(values)
    if not count or width <= 0:
        return []
    edges = [column * count / width for column in range(width + 1)]
    return [max(values[int(low) : max(int(high), int(low) + 1)]) for low, high in pairwise(edges)]
