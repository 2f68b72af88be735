"""Where the log goes, in which format, and from which level on."""

import logging
import sys

from rescheduler.cli.log_options import LogFormat, LogOptions
from rescheduler.cli.logs.json_format import JsonFormatter
from rescheduler.cli.logs.text_format import KeyValueFormatter
from rescheduler.log_context import MigrationFields
from rescheduler.settings import Policy

OWN_LOGGER = "rescheduler"


class LogOutput:
    """The log on standard error."""

    def __init__(self, options: LogOptions) -> None:
        self._options = options

    def start(self, policy: Policy) -> None:
        """Write the log from now on."""
        write_log(KeyValueFormatter() if self._is_text() else JsonFormatter())
        self.follow(policy)

    def follow(self, policy: Policy) -> None:
        """Log from the level on that the policy names; without one, from that of the options."""
        set_level(policy.log_level or self._options.level)

    def _is_text(self) -> bool:
        if self._options.format is None:
            return sys.stderr is not None and sys.stderr.isatty()
        return self._options.format == LogFormat.TEXT


def log_of_command(level: str) -> None:
    """Write the log of a command that ends by itself, and that somebody watches.

    The policy does not say from which level on: it may be that of the controller.
    """
    write_log(KeyValueFormatter())
    set_level(level)


def write_log(formatter: logging.Formatter) -> None:
    """Write the log to standard error from now on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    handler.addFilter(MigrationFields())
    logging.basicConfig(handlers=[handler], force=True)


def set_level(level: str) -> None:
    """Leave out records below this level. Libraries log nothing below `info`."""
    number = logging.getLevelNamesMapping()[level.upper()]
    logging.getLogger(OWN_LOGGER).setLevel(number)
    logging.getLogger().setLevel(max(number, logging.INFO))
