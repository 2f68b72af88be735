"""What many ask for at the same time is found once."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from rescheduler.serving.shared_answer import MOST_KEPT_SECONDS, SharedAnswer


class Finder:
    """Finds numbers, each in so many seconds of a clock that is set by hand."""

    def __init__(self, takes_seconds: float) -> None:
        self.now = 100.0
        self.found = 0
        self._takes_seconds = takes_seconds

    async def find(self) -> int:
        await asyncio.sleep(0)
        self.now += self._takes_seconds
        self.found += 1
        return self.found

    def answer(self) -> SharedAnswer[int]:
        return SharedAnswer(self.find, lambda: self.now)


async def test_all_who_ask_at_the_same_time_get_the_same_answer() -> None:
    finder = Finder(0.0)
    answer = finder.answer()
    assert await asyncio.gather(*(answer.get(60) for _ in range(100))) == [1] * 100
    assert await answer.get(60) == 2


async def test_an_answer_is_kept_for_ten_times_as_long_as_it_took() -> None:
    finder = Finder(0.1)
    answer = finder.answer()
    assert await answer.get(60) == 1
    finder.now += 0.9
    assert await answer.get(60) == 1
    finder.now += 0.2
    assert await answer.get(60) == 2


async def test_no_answer_is_kept_for_long() -> None:
    finder = Finder(60.0)
    answer = finder.answer()
    assert await answer.get(60) == 1
    finder.now += MOST_KEPT_SECONDS
    assert await answer.get(60) == 2


async def test_who_does_not_wait_any_longer_leaves_the_answer_to_others() -> None:
    may_end = asyncio.Event()

    async def find() -> str:
        await may_end.wait()
        return "found"

    answer = SharedAnswer(find)
    waiting = asyncio.create_task(answer.get(60))
    with pytest.raises(TimeoutError):
        await answer.get(0.01)
    may_end.set()
    assert await waiting == "found"


async def test_a_failure_is_an_answer_for_everybody() -> None:
    finder = Finder(1.0)

    def failing(find: Callable[[], Awaitable[int]]) -> Callable[[], Awaitable[int]]:
        async def fail() -> int:
            raise ValueError(str(await find()))

        return fail

    answer = SharedAnswer(failing(finder.find), lambda: finder.now)
    for _ in range(3):
        with pytest.raises(ValueError, match="1"):
            await answer.get(60)
