"""Options about the log, which several commands share."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import typer


class Level(StrEnum):
    """The levels that `settings.LogLevel` has, without importing the settings for `--help`."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    """How a record is written."""

    TEXT = "text"
    JSON = "json"


LogLevelOption = Annotated[
    Level,
    typer.Option(
        "--log-level",
        help="Log from this level on. A logLevel in the policy comes first, also at run time.",
    ),
]
CommandLogLevel = Annotated[
    Level,
    typer.Option(
        "--log-level",
        help="Log on standard error from this level on, as text: with --here, every step of the "
        "migrations at `info`.",
    ),
]
LogFormatOption = Annotated[
    LogFormat | None,
    typer.Option(
        "--log-format",
        help="How the log on standard error is written. Default: text on a terminal, JSON "
        "elsewhere.",
    ),
]


@dataclass(frozen=True)
class LogOptions:
    """What the command line says about the log: --log-level and --log-format."""

    level: Level = Level.INFO
    format: LogFormat | None = None
    """None: text on a terminal, JSON elsewhere."""
