"""What a check has found."""

from enum import StrEnum

import msgspec

from rescheduler.errors import ApiError, Forbidden


class Health(StrEnum):
    """How something is."""

    GOOD = "good"
    DOUBTFUL = "doubtful"
    """It works, and somebody should look at it."""
    BAD = "bad"
    UNKNOWN = "unknown"
    """It could not be looked at."""


class Finding(msgspec.Struct, frozen=True):
    """How one thing is, and what to do about it."""

    subject: str
    health: Health
    detail: str
    todo: str = ""


def good(subject: str, detail: str) -> Finding:
    """It is as it should be."""
    return Finding(subject, Health.GOOD, detail)


def doubtful(subject: str, detail: str, todo: str) -> Finding:
    """Somebody should look at it."""
    return Finding(subject, Health.DOUBTFUL, detail, todo)


def bad(subject: str, detail: str, todo: str) -> Finding:
    """Somebody must act."""
    return Finding(subject, Health.BAD, detail, todo)


def not_seen(subject: str, error: ApiError) -> Finding:
    """The server did not let us look, or gave no answer."""
    todo = ""
    if isinstance(error, Forbidden):
        todo = "run this command as somebody who may read it, for example as an administrator"
    return Finding(subject, Health.UNKNOWN, error.answer, todo)
