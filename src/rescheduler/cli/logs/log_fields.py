"""The fields of a record: what varies in a message is not in its text, but here."""

import logging

# The attributes of every record; all others were passed as `extra`.
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def extra_fields(record: logging.LogRecord) -> dict[str, object]:
    """The fields that were passed as `extra`, or added because a migration is handled."""
    return {key: value for key, value in vars(record).items() if key not in _STANDARD}
