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
    assert len(queue) == 2
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
    queue.drop("a")
    assert "a" not in queue
