"""Threads that nobody waits for, neither the event loop when it closes nor Python when it ends.

Looking up a host may take as long as the resolver likes, and cannot be cancelled. asyncio does it
in the threads of a pool. `asyncio.run` waits for these, and then the interpreter does once more.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Thread
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class DaemonThreads(ThreadPoolExecutor):
    """A thread for every call. It is a pool in name only: event loops accept nothing else."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Call a function in a thread of its own."""
        future: Future[T] = Future()

        def call() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = fn(*args, **kwargs)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)

        Thread(target=call, daemon=True).start()
        return future
