"""Shows how many pods of a node are still stopping, and until when at the latest."""

from collections.abc import Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.status import Status

from rescheduler.cli.control_characters import escaped

MOST_NAMES = 3


class StoppingView:
    """One line that changes on a terminal, else a line whenever other pods are stopping."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._status: Status | None = None
        self._last_line = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None

    def show(self, pods: Sequence[str], until: datetime, now: datetime) -> None:
        """Show that these pods are still stopping."""
        line = line_of(pods, until, now)
        if line == self._last_line:
            return
        self._last_line = line
        if not self._console.is_terminal:
            self._console.print(line, soft_wrap=True)
        elif self._status is None:
            self._status = self._console.status(line)
            self._status.start()
        else:
            self._status.update(line)


def line_of(pods: Sequence[str], until: datetime, now: datetime) -> str:
    """How many pods are stopping, the first of them, and the end of the last grace period."""
    time = f"{time_in_utc(until, now)} at the latest"
    return escaped(f"{number_stopping(pods)}, until {time}: {first_names(pods)}")


def number_stopping(pods: Sequence[str]) -> str:
    """How many pods are stopping."""
    verb = "pod is" if len(pods) == 1 else "pods are"
    return f"{len(pods)} {verb} still stopping"


def first_names(pods: Sequence[str]) -> str:
    """The first pods, and how many others there are."""
    names = ", ".join(pods[:MOST_NAMES])
    return f"{names} and {len(pods) - MOST_NAMES} more" if len(pods) > MOST_NAMES else names


def time_in_utc(time: datetime, now: datetime) -> str:
    """A time of today, or a date and a time."""
    time, now = time.astimezone(UTC), now.astimezone(UTC)
    return f"{time:%H:%M:%S} UTC" if time.date() == now.date() else f"{time:%Y-%m-%d %H:%M:%S} UTC"
