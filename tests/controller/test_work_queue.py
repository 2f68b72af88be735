"""The work queue: each key once, never with two workers, and with back-off after failures."""

import asyncio

from rescheduler.controller.work_queue import WorkQueue
from rescheduler.kube.backoff import Backoff


async def test_a_key_is_never_processed_twice_at_once() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    queue.add("a")
    assert await queue.get() == "a"
    queue.add("a")
    waiting = asyncio.ensure_future(queue.get())
    await asyncio.sleep(0)
    assert not waiting.done()
    queue.done("a")
    assert await waiting == "a"


async def test_a_key_that_fails_is_retried_with_growing_delays() -> None:
    queue: WorkQueue[str] = WorkQueue(Backoff(0.001, 1.0))
    delays = []
    queue.add("a")
    for _ in range(4):
        delays.append(queue.retry(await queue.get()))
    assert delays[3] > delays[0]


async def test_the_error_of_a_key_is_known_until_it_is_processed_or_dropped() -> None:
    queue: WorkQueue[str] = WorkQueue(Backoff(0.001, 1.0))
    for key in ("a", "b"):
        queue.add(key)
        queue.retry(await queue.get(), error=f"no {key}")
    assert queue.errors() == {"a": "no a", "b": "no b"}
    queue.done("a")
    queue.drop("b")
    assert queue.errors() == {}


async def test_a_key_that_was_dropped_has_no_failures() -> None:
    queue: WorkQueue[str] = WorkQueue(Backoff(0.001, 1.0))
    queue.add("a")
    for _ in range(4):
        queue.retry(await queue.get())
    queue.drop("a")
    queue.add("a")
    assert queue.retry(await queue.get()) <= 0.001
