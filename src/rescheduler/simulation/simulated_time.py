"""Time that is turned by hand: a day passes as fast as the work of that day can be done.

When nothing is left to do at this moment, the loop jumps to the next timer. Nothing that runs in
it can tell: sleeping, timeouts and timers follow the loop's time. What would be done in a thread
is done on the spot, for with a second thread no two runs were alike.
"""

import asyncio
import selectors
from asyncio import events
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Executor
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

# Two timers that are closer than this ring together: floats cannot tell them apart after a year.
RESOLUTION_SECONDS = 1e-6


class Deadlock(RuntimeError):
    """Everybody waits and nothing will ever happen: a mistake in whatever runs in the loop."""


class _TimeJumpingSelector(selectors.BaseSelector):
    """Where a loop would wait for sockets, it moves the time on instead."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.failure: BaseException | None = None
        self._files: dict[Any, selectors.SelectorKey] = {}

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        number = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        key = self._files[fileobj] = selectors.SelectorKey(fileobj, number, events, data)
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._files.pop(fileobj)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._files

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure
        if timeout is None:
            raise Deadlock("nothing is ready, and no timer is set: everybody waits for ever")
        self.seconds += timeout
        return []


class SimulatedLoop(asyncio.SelectorEventLoop):
    """An event loop that never waits. Its time starts at 0 and is in seconds."""

    def __init__(self) -> None:
        self._jumping = _TimeJumpingSelector()
        super().__init__(self._jumping)
        self._clock_resolution = RESOLUTION_SECONDS

    def time(self) -> float:
        return self._jumping.seconds

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """A mistake in a callback ends the run: going on without it would prove nothing.

        Tasks are left to whoever started them.
        """
        if "handle" in context:
            self._jumping.failure = context.get("exception")
        else:
            super().call_exception_handler(context)

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """Do it on the spot; no time passes."""
        done: asyncio.Future[T] = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:
            done.set_exception(error)
        return done


class SimulatedClock:
    """The time of a loop, as a date and in seconds. It shows `start` when it is made."""

    def __init__(self, start: datetime, loop: events.AbstractEventLoop) -> None:
        assert start.tzinfo is not None, "a moment has a time zone"
        self.start = start.astimezone(UTC)
        self._loop = loop
        self._began = loop.time()

    def now(self) -> datetime:
        """The date and time, in UTC."""
        return self.start + timedelta(seconds=self._loop.time() - self._began)

    def seconds(self) -> float:
        """Seconds that only ever go on."""
        return self._loop.time()


def run_simulated(main: Callable[[SimulatedClock], Coroutine[Any, Any, T]], start: datetime) -> T:
    """Run something from its first to its last moment in a loop of its own.

    `main` is called in the loop, with a clock that shows `start` now.
    """

    async def begin() -> T:
        return await main(SimulatedClock(start, asyncio.get_running_loop()))

    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        return runner.run(begin())
