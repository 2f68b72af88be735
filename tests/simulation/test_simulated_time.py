"""The loop whose clock is turned by hand."""

import asyncio
import time
from datetime import UTC, datetime, timedelta

import pytest

from rescheduler.simulation import simulated_time
from rescheduler.simulation.simulated_time import (
    Deadlock,
    Livelock,
    SimulatedClock,
    run_simulated,
)

START = datetime(2026, 3, 1, tzinfo=UTC)


def test_a_year_passes_at_once() -> None:
    async def sleep(clock: SimulatedClock) -> datetime:
        await asyncio.sleep(365 * 86400)
        return clock.now()

    began = time.monotonic()
    assert run_simulated(sleep, START) == START + timedelta(days=365)
    assert time.monotonic() - began < 60


def test_timers_ring_in_their_order_and_at_their_time() -> None:
    async def ring(clock: SimulatedClock) -> list[tuple[float, str]]:
        rung: list[tuple[float, str]] = []

        async def one(name: str, seconds: float) -> None:
            await asyncio.sleep(seconds)
            rung.append((clock.seconds(), name))

        await asyncio.gather(one("late", 7.5), one("early", 0.25), one("middle", 3.0))
        return rung

    assert run_simulated(ring, START) == [(0.25, "early"), (3.0, "middle"), (7.5, "late")]


def test_a_timeout_ends_a_wait_at_its_time() -> None:
    async def wait(clock: SimulatedClock) -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(12):
                await asyncio.Event().wait()
        return clock.seconds()

    assert run_simulated(wait, START) == 12


def test_work_for_a_thread_is_done_on_the_spot() -> None:
    async def work(clock: SimulatedClock) -> tuple[str, float]:
        return await asyncio.to_thread(lambda: "done"), clock.seconds()

    assert run_simulated(work, START) == ("done", 0.0)


def test_a_failure_of_work_for_a_thread_reaches_its_caller() -> None:
    def fail() -> None:
        raise ValueError("broken")

    async def work(clock: SimulatedClock) -> None:
        await asyncio.to_thread(fail)

    with pytest.raises(ValueError, match="broken"):
        run_simulated(work, START)


def test_waiting_for_what_never_comes_is_a_deadlock() -> None:
    async def wait(clock: SimulatedClock) -> None:
        await asyncio.Event().wait()

    with pytest.raises(Deadlock):
        run_simulated(wait, START)


def test_work_that_is_never_done_is_no_endless_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulated_time, "MAX_TURNS_AT_ONCE", 1000)

    def be_busy() -> None:
        asyncio.get_running_loop().call_soon(be_busy)

    async def live(clock: SimulatedClock) -> None:
        asyncio.get_running_loop().call_later(5, be_busy)
        await asyncio.sleep(100)

    with pytest.raises(Livelock, match="5 s after the start"):
        run_simulated(live, START)


def test_a_mistake_in_a_callback_ends_the_run() -> None:
    def fail() -> None:
        raise ZeroDivisionError

    async def live(clock: SimulatedClock) -> None:
        asyncio.get_running_loop().call_later(5, fail)
        await asyncio.sleep(100)

    with pytest.raises(ZeroDivisionError):
        run_simulated(live, START)
