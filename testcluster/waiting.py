"""Wait for what should become true, never for some time in the hope that it will be enough."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(condition: Callable[[], T], timeout: float = 120.0, what: str = "") -> T:
    """The first answer of `condition` that counts as true; AssertionError after `timeout` seconds.

    The message has `what` was awaited and the last answer that was not good enough.
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
