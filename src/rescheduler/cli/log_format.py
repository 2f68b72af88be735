"""The format of the log: one line per record, the message first, then the fields as `key=value`."""

import logging
import sys
from datetime import UTC, datetime

from rescheduler.cli.control_characters import escaped

# The attributes of every record; all others were passed as `extra`.
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class KeyValueFormatter(logging.Formatter):
    """A line that both people and programs can read."""

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC)
        message = escaped(record.getMessage())
        parts = [time.strftime("%Y-%m-%dT%H:%M:%S.%fZ"), record.levelname, message]
        parts += [f"{key}={quoted(value)}" for key, value in extra_fields(record).items()]
        line = " ".join(parts)
        return f"{line}\n{self.traceback(record)}" if record.exc_info else line

    def traceback(self, record: logging.LogRecord) -> str:
        """Indented, so that a line break in an error's text begins no record."""
        assert record.exc_info
        lines = self.formatException(record.exc_info).splitlines()
        return "\n".join(f"  {escaped(line)}" for line in lines)


def extra_fields(record: logging.LogRecord) -> dict[str, object]:
    """The fields that were passed as `extra`."""
    return {key: value for key, value in vars(record).items() if key not in _STANDARD}


def quoted(value: object) -> str:
    """The value as text, in quotes unless it is a single word."""
    text = escaped(str(value).replace("\n", " "))
    is_word = bool(text) and not any(character in text for character in ' "=')
    return text if is_word else '"{}"'.format(text.replace('"', "'"))


def log_to_stderr() -> None:
    """Write the log to standard error in this format."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(KeyValueFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
