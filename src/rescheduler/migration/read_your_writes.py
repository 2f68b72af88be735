"""The newest that is known of an object: what a watch shows, or what a write was answered.

A watch may show our own write a moment later than the answer to it. Deciding in between from what
the watch shows would be deciding from the past.
"""

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from rescheduler.model.objects import Identity
from rescheduler.model.tables.object_table import ObjectTable
from rescheduler.model.tables.table import TableChange

T = TypeVar("T")

# A watch that has not shown a write by then is broken, and whoever wants to know must ask.
TRUSTED_SECONDS = 10.0
REMEMBERED_DELETIONS = 10_000


class ReadYourWrites(Generic[T]):
    """Objects of one kind. That it knows none of a name proves nothing: ask the server."""

    def __init__(
        self,
        table: ObjectTable[T],
        belongs: Callable[[T], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._table = table
        self._belongs = belongs
        self._clock = clock
        self._written: dict[str, tuple[float, T]] = {}
        self._deleted: OrderedDict[str, None] = OrderedDict()

    def get(self, key: str) -> T | None:
        """The object as it was last seen or written."""
        shown = self._table.get(key)
        since, written = self._written.get(key, (0.0, None))
        if written is None:
            return shown
        is_over = shown is not None and version_of(shown) >= version_of(written)
        if is_over or self._clock() - since > TRUSTED_SECONDS:
            del self._written[key]
            return shown
        return written

    def see(self, written: T) -> None:
        """Take in an answer, unless the object has been changed or deleted since."""
        metadata = metadata_of(written)
        _, known = self._written.get(metadata.key, (0.0, None))
        if known is not None and version_of(known) > version_of(written):
            return
        if metadata.uid in self._deleted or not self._belongs(written):
            self._written.pop(metadata.key, None)
            return
        self._written[metadata.key] = self._clock(), written

    def forget(self, key: str) -> None:
        """The server says that there is none, or that it is no longer what was written."""
        self._written.pop(key, None)

    def take(self, change: TableChange) -> None:
        """What the watch has just shown."""
        if change.type == "Deleted":
            self._written.pop(change.key, None)
            self._deleted[change.uid] = None
            if len(self._deleted) > REMEMBERED_DELETIONS:
                self._deleted.popitem(last=False)


def metadata_of(obj: Any) -> Identity:
    """An object's metadata."""
    metadata: Identity = obj.metadata
    return metadata


def version_of(obj: Any) -> int:
    """An object's version, as a number that grows."""
    return int(metadata_of(obj).resource_version or 0)
