"""The newest known version of an object: from a watch, or from the answer to our own write.

A watch may show our own write a moment later than the answer to it. A decision in between must not
be based on the older version.
"""

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from rescheduler.model.objects import Identity
from rescheduler.model.tables.object_table import ObjectTable
from rescheduler.model.tables.table import TableChange

T = TypeVar("T")

# A watch that has not shown a write by then is broken. The written object is no longer trusted.
TRUSTED_SECONDS = 10.0
MAX_REMEMBERED_DELETIONS = 10_000


class ReadYourWrites(Generic[T]):
    """Objects of one kind. A missing object proves nothing: ask the server."""

    def __init__(
        self,
        table: ObjectTable[T],
        belongs: Callable[[T], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`belongs` says whether the table's watch will show an object that was written."""
        self._table = table
        self._belongs = belongs
        self._clock = clock
        self._written: dict[str, tuple[float, T]] = {}
        self._deleted: OrderedDict[str, None] = OrderedDict()

    def get(self, key: str) -> T | None:
        """The newest known version of an object."""
        watched = self._table.get(key)
        since, written = self._written.get(key, (0.0, None))
        if written is None:
            return watched
        has_caught_up = watched is not None and version_of(watched) >= version_of(written)
        if has_caught_up or self._clock() - since > TRUSTED_SECONDS:
            del self._written[key]
            return watched
        # What the watch still shows is older than our write that ends its interest in the object.
        return written if self._belongs(written) else None

    def record(self, written: T) -> None:
        """Remember an object that the server returned, unless a newer version or its deletion is
        known."""
        metadata = metadata_of(written)
        _, known = self._written.get(metadata.key, (0.0, None))
        if known is not None and version_of(known) > version_of(written):
            return
        if metadata.uid in self._deleted:
            self._written.pop(metadata.key, None)
            return
        self._written[metadata.key] = self._clock(), written

    def forget(self, key: str) -> None:
        """Trust only the watch again: the server no longer has what was written."""
        self._written.pop(key, None)

    def observe(self, change: TableChange) -> None:
        """Take note of a change that the watch has shown."""
        if change.type == "Deleted":
            self._written.pop(change.key, None)
            self._deleted[change.uid] = None
            if len(self._deleted) > MAX_REMEMBERED_DELETIONS:
                self._deleted.popitem(last=False)


def metadata_of(obj: Any) -> Identity:
    """An object's metadata."""
    metadata: Identity = obj.metadata
    return metadata


def version_of(obj: Any) -> int:
    """An object's resource version as a number, which grows with every write."""
    return int(metadata_of(obj).resource_version or 0)
