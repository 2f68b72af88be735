"""A place to install strategies of other people into, for tests."""

from itertools import count
from pathlib import Path

_numbers = count()


class Site:
    """A directory on the path that plugins are installed into."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def install(self, distribution: str, code: str, entry: str = "packing = {}:Packing") -> None:
        """A distribution with one module, whose name nobody has imported yet."""
        module = f"plugin_{next(_numbers)}"
        (self._directory / f"{module}.py").write_text(code)
        info = self._directory / f"{distribution}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0")
        (info / "entry_points.txt").write_text(f"[rescheduler.strategies]\n{entry.format(module)}")
