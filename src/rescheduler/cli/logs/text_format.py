"""The text format: one line per record, the message first, then the fields as `key=value`."""

import logging
from datetime import UTC, datetime

from rescheduler.cli.control_characters import escaped
from rescheduler.cli.logs.log_fields import extra_fields


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


def quoted(value: object) -> str:
    """The value as text, in quotes unless it is a single word."""
    text = escaped(str(value).replace("\n", " "))
    is_word = bool(text) and not any(character in text for character in ' "=')
    return text if is_word else '"{}"'.format(text.replace('"', "'"))
