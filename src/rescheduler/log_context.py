"""Every line that is logged while a migration is handled says which one.

Whoever handles a migration says so once, with `about_migration`. A filter of the log then adds the
fields to each record, whichever module logs it: also the client that sends a request again.
"""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType

MIGRATION_FIELD, UID_FIELD = "migration", "migration_uid"
"""The fields of a log line: `namespace/name` of the Migration, and its uid."""

_fields: ContextVar[Mapping[str, str]] = ContextVar(
    "migration of the log", default=MappingProxyType({})
)


@contextmanager
def about_migration(key: str, uid: str = "") -> Iterator[None]:
    """What is logged in the block is about this Migration; the uid may be unknown.

    Tasks that are started in the block inherit this, so none may be started that lives longer.
    """
    fields = {MIGRATION_FIELD: key} | ({UID_FIELD: uid} if uid else {})
    token = _fields.set(fields)
    try:
        yield
    finally:
        _fields.reset(token)


class MigrationFields(logging.Filter):
    """Adds the fields of the migration that is handled. It lets every record pass."""

    def filter(self, record: logging.LogRecord) -> bool:
        for name, value in _fields.get().items():
            record.__dict__.setdefault(name, value)
        return True
