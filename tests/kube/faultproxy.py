"""A proxy in front of the API server that breaks connections in every way networks do.

Without a fault it passes everything on. `proxy.next(matches, fault)` lets a fault strike the next
request that matches; `proxy.cut_all()` ends everything that is open, at once.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self

import aiohttp
from aiohttp import web

Matches = Callable[[web.Request], bool]
PASSED_ON = ("Accept", "Authorization", "Content-Type")


def is_watch(request: web.Request) -> bool:
    return request.query.get("watch") == "true"


def is_list(request: web.Request) -> bool:
    return "limit" in request.query


def is_next_page(request: web.Request) -> bool:
    return "continue" in request.query


def is_version(request: web.Request) -> bool:
    return request.path == "/version"


def is_write(request: web.Request) -> bool:
    return request.method != "GET"


class Exchange:
    """One request on its way through the proxy, and the answer on its way back."""

    def __init__(self, request: web.Request, session: aiohttp.ClientSession, server: str) -> None:
        self.request = request
        self.path = request.path_qs
        self._session = session
        self._server = server

    @asynccontextmanager
    async def server_answer(self) -> AsyncIterator[aiohttp.ClientResponse]:
        """What the real server says to the request."""
        given = self.request.headers
        headers = {name: given[name] for name in PASSED_ON if name in given}
        body = await self.request.read() if is_write(self.request) else None
        url = self._server + self.path
        async with self._session.request(
            self.request.method, url, data=body, headers=headers
        ) as answer:
            yield answer

    async def begin(self, answer: aiohttp.ClientResponse) -> web.StreamResponse:
        """Send the head of the server's answer to the client."""
        response = web.StreamResponse(status=answer.status)
        response.content_type = answer.content_type
        if "Retry-After" in answer.headers:
            response.headers["Retry-After"] = answer.headers["Retry-After"]
        await response.prepare(self.request)
        return response

    def cut(self) -> None:
        """End the connection to the client without a word."""
        if self.request.transport is not None:
            self.request.transport.abort()


Fault = Callable[[Exchange], Awaitable[web.StreamResponse]]
Afterwards = Callable[[Exchange, web.StreamResponse], Awaitable[None]]


class FaultProxy:
    """Listens on 127.0.0.1 without TLS, and talks to the API server with it."""

    def __init__(self, server: str, ca_file: str, token: str = "") -> None:
        """With a `token`, clients need none: a kubeconfig's is not sent without TLS."""
        self._server = server
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._tls = ssl.create_default_context(cafile=ca_file)
        self._planned: list[tuple[Matches, Fault]] = []
        self.chaos: Callable[[web.Request], Fault | None] | None = None
        """Chooses a fault, or none, for every request that has no planned one."""
        self._open: set[Exchange] = set()

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=self._tls),
            headers=self._headers,
            timeout=aiohttp.ClientTimeout(total=None),
            read_bufsize=2**20,
        )
        application = web.Application(client_max_size=2**24)
        application.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(application, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = "http://{}:{}".format(*self._runner.addresses[0])
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.cut_all()
        await self._runner.cleanup()
        await self._session.close()

    def next(self, matches: Matches, fault: Fault) -> None:
        """Let a fault strike the next request that matches and has none yet."""
        self._planned.append((matches, fault))

    @property
    def pending(self) -> int:
        """How many faults have not struck yet."""
        return len(self._planned)

    def open_watches(self) -> int:
        """How many watches are passing through now."""
        return sum(is_watch(exchange.request) for exchange in self._open)

    def cut_all(self) -> None:
        """Cut every connection that is open."""
        for exchange in self._open:
            exchange.cut()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        exchange = Exchange(request, self._session, self._server)
        self._open.add(exchange)
        try:
            return await self._fault_for(request)(exchange)
        except (aiohttp.ClientError, OSError):
            # The server went away, or the client did: either way the other one is cut off.
            exchange.cut()
            raise asyncio.CancelledError from None
        finally:
            self._open.discard(exchange)

    def _fault_for(self, request: web.Request) -> Fault:
        for number, (matches, fault) in enumerate(self._planned):
            if matches(request):
                del self._planned[number]
                return fault
        return (self.chaos(request) if self.chaos is not None else None) or pass_on


async def pass_on(exchange: Exchange) -> web.StreamResponse:
    """No fault at all."""
    async with exchange.server_answer() as answer:
        response = await exchange.begin(answer)
        async for chunk in answer.content.iter_any():
            await response.write(chunk)
        return response


def answer_with(status: int, body: str = "", retry_after: int | None = None) -> Fault:
    """Answer in the server's place."""

    async def fault(exchange: Exchange) -> web.StreamResponse:
        response = web.Response(status=status, text=body)
        if retry_after is not None:
            response.headers["Retry-After"] = str(retry_after)
        return response

    return fault


def forget_version() -> Fault:
    """Answer that the version or the continue token is too old."""
    return answer_with(410, '{"kind":"Status","code":410,"reason":"Expired","message":"too old"}')


async def cut_at_once(exchange: Exchange) -> web.StreamResponse:
    """Cut the connection before the request reaches the server."""
    exchange.cut()
    return web.Response()


async def lose_answer(exchange: Exchange) -> web.StreamResponse:
    """Cut the connection after the server has done what was asked."""
    async with exchange.server_answer() as answer:
        await answer.read()
    exchange.cut()
    return web.Response()


def delay(seconds: float) -> Fault:
    """Pass everything on, late."""

    async def fault(exchange: Exchange) -> web.StreamResponse:
        await asyncio.sleep(seconds)
        return await pass_on(exchange)

    return fault


def first_bytes(
    count: int, then: Callable[[Exchange, web.StreamResponse], Awaitable[None]]
) -> Fault:
    """Pass on so much of the answer's body, and then do something else."""

    async def fault(exchange: Exchange) -> web.StreamResponse:
        left = count
        async with exchange.server_answer() as answer:
            response = await exchange.begin(answer)
            async for chunk in answer.content.iter_any():
                await response.write(chunk[:left])
                left -= len(chunk)
                if left <= 0:
                    await then(exchange, response)
                    break
        return response

    return fault


def cut_after(count: int) -> Fault:
    """Cut the connection in the middle of the body."""

    async def then(exchange: Exchange, response: web.StreamResponse) -> None:
        exchange.cut()

    return first_bytes(count, then)


def end_after(count: int) -> Fault:
    """End the body too early, but as if it were complete."""

    async def then(exchange: Exchange, response: web.StreamResponse) -> None:
        pass

    return first_bytes(count, then)


def stall_after(count: int) -> Fault:
    """Say nothing more, and keep the connection open until the client gives up."""

    async def then(exchange: Exchange, response: web.StreamResponse) -> None:
        await asyncio.Event().wait()

    return first_bytes(count, then)


def line_after(count: int, line: str) -> Fault:
    """End the current line early, and follow it with another one."""

    async def then(exchange: Exchange, response: web.StreamResponse) -> None:
        await response.write(b"\n" + line.encode() + b"\n")

    return first_bytes(count, then)


def event_instead(line: str) -> Fault:
    """Say this in place of the watch's first event, and end the watch."""

    async def fault(exchange: Exchange) -> web.StreamResponse:
        async with exchange.server_answer() as answer:
            response = await exchange.begin(answer)
            async for _ in answer.content.iter_any():
                await response.write(line.encode() + b"\n")
                break
        return response

    return fault


def error_event(code: int, message: str = "too old") -> Fault:
    """Let the watch end with an error where its first event should be."""
    status = f'{{"kind":"Status","code":{code},"message":"{message}"}}'
    return event_instead(f'{{"type":"ERROR","object":{status}}}')


def with_path(rewritten: Callable[[str], str]) -> Fault:
    """Pass on, but ask the server for something else."""

    async def fault(exchange: Exchange) -> web.StreamResponse:
        exchange.path = rewritten(exchange.path)
        return await pass_on(exchange)

    return fault
