"""How the log is written: a line each, the message first, then what varies as `key=value`."""

import logging
import sys
from datetime import UTC, datetime

# What every record has; whatever else is there was given as `extra`.
_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class KeyValueFormatter(logging.Formatter):
    """A line that both people and programs can read."""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC)
        parts = [moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ"), record.levelname, record.getMessage()]
        parts += [f"{key}={quoted(value)}" for key, value in extras_of(record).items()]
        line = " ".join(parts)
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def extras_of(record: logging.LogRecord) -> dict[str, object]:
    """What was given beside the message."""
    return {key: value for key, value in vars(record).items() if key not in _OWN}


def quoted(value: object) -> str:
    """The value, in quotes if it would not be one word."""
    text = str(value)
    is_word = bool(text) and not any(character in text for character in ' "=\n')
    return text if is_word else '"{}"'.format(text.replace('"', "'").replace("\n", " "))


def log_to_stderr(level: int = logging.INFO) -> None:
    """Write the log to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(KeyValueFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
