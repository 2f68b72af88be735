"""The progress of Migrations: a live table on a terminal, else a line per change."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from rescheduler.cli.control_characters import escaped
from rescheduler.migration.migration_object import Migration, Phase

MOST_ROWS = 30
STYLES = {
    Phase.PENDING: "dim",
    Phase.IN_PROGRESS: "cyan",
    Phase.COMPLETED: "green",
    Phase.FAILED: "red",
    Phase.CANCELLED: "yellow",
}


class MigrationView(Protocol):
    """Shows the progress of Migrations."""

    def show(self, migrations: Mapping[str, Migration | None]) -> None:
        """Show the Migrations as they are now; None: deleted before it finished."""

    def warn(self, text: str) -> None:
        """Show a warning."""


class LiveView:
    """A table with a progress bar above it, redrawn at each change."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._warning = ""
        self._shown: Mapping[str, Migration | None] = {}

    def show(self, migrations: Mapping[str, Migration | None]) -> None:
        self._shown = migrations
        self._live.update(progress_table(migrations, self._warning))

    def warn(self, text: str) -> None:
        self._warning = text
        self.show(self._shown)


class LineView:
    """A line per change of phase or step, for logs and pipes."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._last_lines: dict[str, str] = {}

    def show(self, migrations: Mapping[str, Migration | None]) -> None:
        for key, migration in migrations.items():
            line = line_of(key, migration)
            if self._last_lines.get(key) != line:
                self._last_lines[key] = line
                self._console.print(line, soft_wrap=True)

    def warn(self, text: str) -> None:
        self._console.print(text, soft_wrap=True)


@contextmanager
def view_on(console: Console) -> Iterator[MigrationView]:
    """The view that suits the console."""
    if not console.is_terminal:
        yield LineView(console)
        return
    with Live(console=console, auto_refresh=True, refresh_per_second=4) as live:
        yield LiveView(live)


def line_of(key: str, migration: Migration | None) -> str:
    """The state of one Migration, in a line."""
    if migration is None:
        return f"{key}: deleted before it finished"
    status = migration.status
    step = f"/{status.step}" if status.step else ""
    state = f"{status.phase}{step}  {status.message}"
    return escaped(f"{migration.pod_key}  {route_of(migration)}  {state}")


def route_of(migration: Migration) -> str:
    """The nodes that the pod leaves and goes to."""
    return f"{migration.status.source_node or '?'} → {migration.spec.target_node}"


def progress_table(migrations: Mapping[str, Migration | None], warning: str) -> Group:
    """The progress bar, then the Migrations: those in progress and failed first."""
    existing = [migration for migration in migrations.values() if migration is not None]
    deleted = len(migrations) - len(existing)
    done = sum(migration.is_finished for migration in existing) + deleted
    table = Table.grid(padding=(0, 2))
    order = [Phase.IN_PROGRESS, Phase.FAILED, Phase.CANCELLED, Phase.PENDING, Phase.COMPLETED]
    existing.sort(key=lambda migration: (order.index(migration.status.phase), migration.key))
    for migration in existing[:MOST_ROWS]:
        status = migration.status
        table.add_row(
            escaped(migration.pod_key),
            escaped(route_of(migration)),
            Text(f"{status.phase} {status.step}".strip(), STYLES[status.phase]),
            Text(escaped(status.message), overflow="ellipsis", no_wrap=True),
        )
    rest = len(existing) - MOST_ROWS
    lines = [Text(f"… and {rest} more")] if rest > 0 else []
    lines += [Text(f"{deleted} deleted before they finished", "red")] if deleted else []
    head = Table.grid(padding=(0, 2))
    head.add_row(ProgressBar(len(migrations), done, width=40), f"{done} of {len(migrations)}")
    notes = [Text(warning, "yellow")] if warning else []
    return Group(head, table, *lines, *notes)
