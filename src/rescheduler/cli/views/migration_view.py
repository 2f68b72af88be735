"""How Migrations get along, in the terminal: a table that lives, or a line for each change."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from rescheduler.migration.migration_object import Migration, Phase

MOST_ROWS = 30
STYLES = {
    Phase.PENDING: "dim",
    Phase.IN_PROGRESS: "cyan",
    Phase.COMPLETED: "green",
    Phase.FAILED: "red",
    Phase.CANCELLED: "yellow",
}


class LiveView:
    """A table with a bar above it, drawn anew with each change."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._warning = ""
        self._shown: Mapping[str, Migration | None] = {}

    def show(self, migrations: Mapping[str, Migration | None]) -> None:
        self._shown = migrations
        self._live.update(picture(migrations, self._warning))

    def warn(self, text: str) -> None:
        self._warning = text
        self.show(self._shown)


class LineView:
    """A line for each change of phase or step, for logs and pipes."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._told: dict[str, str] = {}

    def show(self, migrations: Mapping[str, Migration | None]) -> None:
        for key, migration in migrations.items():
            line = line_of(key, migration)
            if self._told.get(key) != line:
                self._told[key] = line
                self._console.print(line, soft_wrap=True)

    def warn(self, text: str) -> None:
        self._console.print(text, soft_wrap=True)


@contextmanager
def view_on(console: Console) -> Iterator[LiveView | LineView]:
    """The view that fits the terminal."""
    if not console.is_terminal:
        yield LineView(console)
        return
    with Live(console=console, auto_refresh=True, refresh_per_second=4) as live:
        yield LiveView(live)


def line_of(key: str, migration: Migration | None) -> str:
    """How one Migration is doing, in a line."""
    if migration is None:
        return f"{key}: gone"
    status = migration.status
    step = f"/{status.step}" if status.step else ""
    where = f"{status.source_node or '?'} → {migration.spec.target_node}"
    return f"{migration.pod_key}  {where}  {status.phase}{step}  {status.message}"


def picture(migrations: Mapping[str, Migration | None], warning: str) -> Group:
    """The bar, and the Migrations that are busy or failed first."""
    there = [each for each in migrations.values() if each is not None]
    done = sum(each.is_finished for each in there) + len(migrations) - len(there)
    table = Table.grid(padding=(0, 2))
    order = [Phase.IN_PROGRESS, Phase.FAILED, Phase.CANCELLED, Phase.PENDING, Phase.COMPLETED]
    there.sort(key=lambda each: (order.index(each.status.phase), each.key))
    for each in there[:MOST_ROWS]:
        status = each.status
        table.add_row(
            each.pod_key,
            f"{status.source_node or '?'} → {each.spec.target_node}",
            Text(f"{status.phase} {status.step}".strip(), STYLES[status.phase]),
            Text(status.message, overflow="ellipsis", no_wrap=True),
        )
    rest = len(there) - MOST_ROWS
    lines = [Text(f"… and {rest} more")] if rest > 0 else []
    head = Table.grid(padding=(0, 2))
    head.add_row(ProgressBar(len(migrations), done, width=40), f"{done} of {len(migrations)}")
    notes = [Text(warning, "yellow")] if warning else []
    return Group(head, table, *lines, *notes)
