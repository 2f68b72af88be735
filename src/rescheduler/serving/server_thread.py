"""A server on an event loop of its own, in a thread of its own.

TLS, reading and decoding take time that the loop of migrations would lose. In a thread they cannot
hold it up: Python gives it its turn within milliseconds, and OpenSSL works without Python's lock.
Only the answers themselves, which need what the other loop keeps up to date, are computed there.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from threading import Thread
from typing import TypeVar

T = TypeVar("T")
A = TypeVar("A")

OpenServer = Callable[[], AbstractAsyncContextManager[T]]


@asynccontextmanager
async def in_own_thread(open_server: OpenServer[T]) -> AsyncIterator[T]:
    """Open a server in another thread while the block runs; yields what it yields."""
    opened: Future[tuple[T, Callable[[], None]]] = Future()
    ended: Future[None] = Future()

    async def serve() -> None:
        stopping = asyncio.Event()
        loop = asyncio.get_running_loop()

        def stop() -> None:
            loop.call_soon_threadsafe(stopping.set)

        async with open_server() as server:
            opened.set_result((server, stop))
            await stopping.wait()

    def run() -> None:
        try:
            asyncio.run(serve())
        except BaseException as error:
            if opened.done():
                ended.set_exception(error)
            else:
                opened.set_exception(error)
        else:
            ended.set_result(None)

    Thread(target=run, name="http server", daemon=True).start()
    server, stop = await asyncio.wrap_future(opened)
    try:
        yield server
    finally:
        stop()
        await asyncio.wrap_future(ended)


async def on_loop(
    loop: asyncio.AbstractEventLoop, handle: Callable[[A], T | Awaitable[T]], argument: A
) -> T:
    """The result of a function that is called on another loop."""

    async def call() -> T:
        result = handle(argument)
        return await result if isinstance(result, Awaitable) else result

    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(call(), loop))
