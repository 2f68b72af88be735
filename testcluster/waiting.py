"""Wait for a condition with a deadline, instead of sleeping for a fixed time."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

LEAST_PAUSE_SECONDS, MOST_PAUSE_SECONDS = 0.05, 0.5


def wait_until(condition: Callable[[], T], timeout: float = 120.0, what: str = "") -> T:
    """The first truthy result of `condition`; AssertionError after `timeout` seconds.

    The message has `what` was awaited and the last result.
    """
    deadline = time.monotonic() + timeout
    while True:
        asked = time.monotonic()
        answer = condition()
        if answer:
            return answer
        if time.monotonic() > deadline:
            awaited = what or condition.__name__
            raise AssertionError(f"after {timeout:g} s still not true: {awaited}; saw {answer!r}")
        time.sleep(pause_after(time.monotonic() - asked))


def pause_after(seconds: float) -> float:
    """How long to wait after a condition that took so long: what takes long is asked less often.

    Otherwise a list of many pods, read again and again, would keep the server from its work.
    """
    return min(max(LEAST_PAUSE_SECONDS, 2 * seconds), MOST_PAUSE_SECONDS)
