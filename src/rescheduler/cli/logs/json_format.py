"""The JSON format: one object per line, for whatever collects logs."""

import json
import logging
import math
from datetime import UTC, datetime

from rescheduler.cli.control_characters import escaped_json
from rescheduler.cli.logs.log_fields import extra_fields

TRACEBACK = "traceback"


class JsonFormatter(logging.Formatter):
    """A line of JSON: time, level, message and logger first, then the fields of the record."""

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC)
        line: dict[str, object] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            "logger": record.name,
        }
        fields = extra_fields(record)
        line |= {key: plain(fields[key]) for key in fields if key not in line}
        if record.exc_info:
            line[TRACEBACK] = self.formatException(record.exc_info)
        return escaped_json(json.dumps(line, ensure_ascii=False))


def plain(value: object) -> object:
    """The value as JSON has it: numbers and truth values stay, everything else is text."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        # JSON has no infinity.
        return value if math.isfinite(value) else str(value)
    return str(value)
