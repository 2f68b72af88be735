"""Simulated time: a day passes as fast as the work of that day can be done.

When nothing is left to do now, the event loop jumps to its next timer. Sleeps, timeouts and timers
follow the time of the loop. Work for threads is done in the loop itself, because threads would make
runs differ.
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

# Timers that are closer than this fire together: after a year, floats cannot separate them.
RESOLUTION_SECONDS = 1e-6
# Turns of the loop in which no time passes: 1,000 nodes with 20,000 pods take 500 at most.
MAX_TURNS_AT_ONCE = 100_000


class Deadlock(RuntimeError):
    """All tasks wait and no timer is set: a bug in what runs in the loop."""


class Livelock(RuntimeError):
    """There is always something to do, and no time passes: a bug in what runs in the loop."""


class _TimeJumpingSelector(selectors.BaseSelector):
    """Instead of waiting for sockets, it advances the time to the next timer."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.turns_at_once = 0
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
            raise Deadlock("nothing is ready and no timer is set: all tasks wait for ever")
        self.seconds += timeout
        self.turns_at_once = 0 if timeout > 0 else self.turns_at_once + 1
        if self.turns_at_once > MAX_TURNS_AT_ONCE:
            # Tasks have turns to end in.
            self.turns_at_once = 0
            raise Livelock(f"something is ready again and again {self.seconds:g} s after the start")
        return []


class SimulatedLoop(asyncio.SelectorEventLoop):
    """An event loop that never waits. Its time starts at 0 and is in seconds."""

    def __init__(self) -> None:
        self._time_selector = _TimeJumpingSelector()
        super().__init__(self._time_selector)
        self._clock_resolution = RESOLUTION_SECONDS

    def time(self) -> float:
        return self._time_selector.seconds

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """An error in a callback ends the run. Errors of tasks are left to who started them."""
        if "handle" in context:
            self._time_selector.failure = context.get("exception")
        else:
            super().call_exception_handler(context)

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """Call the function at once; no simulated time passes."""
        done: asyncio.Future[T] = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:
            done.set_exception(error)
        return done


class SimulatedClock:
    """The time of a loop, as a date and in seconds; `start` is the date at its creation."""

    def __init__(self, start: datetime, loop: events.AbstractEventLoop) -> None:
        assert start.tzinfo is not None, "start needs a time zone"
        self.start = start.astimezone(UTC)
        self._loop = loop
        self._created_at = loop.time()

    def now(self) -> datetime:
        """The date and time, in UTC."""
        return self.start + timedelta(seconds=self._loop.time() - self._created_at)

    def seconds(self) -> float:
        """Seconds that never go back."""
        return self._loop.time()


def run_simulated(main: Callable[[SimulatedClock], Coroutine[Any, Any, T]], start: datetime) -> T:
    """Run `main` in a simulated loop of its own, with a clock that starts at `start`."""

    async def run() -> T:
        return await main(SimulatedClock(start, asyncio.get_running_loop()))

    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        return runner.run(run())
