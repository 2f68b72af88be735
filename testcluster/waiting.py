"""Wait for a condition with a deadline, instead of sleeping for a fixed time."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(condition: Callable[[], T], timeout: float = 120.0, what: str = "") -> T:
    """The first truthy result of `condition`; AssertionError after `timeout` seconds.

    The message has `what` was awaited and the last result.
    """
    deadline = time.monotonic() + timeout
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() > deadline:
            awaited = what or condition.__name__
            raise AssertionError(f"after {timeout:g} s still not true: {awaited}; saw {answer!r}")
        time.sleep(0.05)
