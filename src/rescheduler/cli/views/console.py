"""The console that views print on."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


def console() -> "Console":
    """Standard output. Names that look like rich markup are printed as they are."""
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False)
