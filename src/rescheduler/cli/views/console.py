"""The terminal that pictures are drawn on."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


def console() -> "Console":
    """Standard output. Names of objects are shown as they are, even if they look like markup."""
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False)
