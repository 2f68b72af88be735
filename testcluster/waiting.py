"""Wait for a condition with a deadline, instead of sleeping for a fixed time."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

LEAST_PAUSE_SECONDS, MOST_PAUSE_SECONDS = 0.05, 0.5
LONGEST_DELAY_SECONDS = 0.25


def wait_until(condition: Callable[[], T], timeout: float = 120.0, what: str = "") -> T:
    """The first truthy result of `condition`; AssertionError after `timeout` seconds.

    The message has `what` was awaited and the last result.
    """
    started = time.monotonic()
    while True:
        asked = time.monotonic()
        answer = condition()
        if answer:
            return answer
        answered = time.monotonic()
        if answered > started + timeout:
            awaited = what or condition.__name__
            raise AssertionError(f"after {timeout:g} s still not true: {awaited}; saw {answer!r}")
        time.sleep(pause_before_asking_again(answered - asked, answered - started))


def pause_before_asking_again(answer_seconds: float, waited_seconds: float) -> float:
    """How long to wait until a condition is looked at again: what takes long, less often.

    A list of many pods, read again and again, would keep the server from its work. And what has
    not happened for seconds is not likely to happen in the next moment.
    """
    delay = min(waited_seconds / 10, LONGEST_DELAY_SECONDS)
    return min(max(LEAST_PAUSE_SECONDS, 2 * answer_seconds, delay), MOST_PAUSE_SECONDS)
