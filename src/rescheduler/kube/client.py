"""The client of a real API server.

What it may repeat by itself, it repeats: reads, and writes that certainly were not carried out.
A write whose answer was lost is raised as `OutcomeUnknown` and never sent again.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from http import HTTPStatus
from random import Random
from types import TracebackType
from typing import Any, Self, TypeVar

import aiohttp
import msgspec

from rescheduler.errors import Unavailable
from rescheduler.kube import api_errors
from rescheduler.kube.api_server import PAGE_SIZE, Answer, ListPage, Patch, object_path
from rescheduler.kube.auth.authentication import ClientIdentity
from rescheduler.kube.auth.credentials import Credentials
from rescheduler.kube.backoff import Backoff, RateLimit
from rescheduler.kube.clock import WALL_CLOCK, Clock, ServerClock
from rescheduler.kube.object_decoding import decoded_event, decoded_objects, problem_with
from rescheduler.kube.request import Request
from rescheduler.kube.transport import (
    ReadBatching,
    RequestObserver,
    Timeouts,
    Transport,
    chunks_of,
    socket_of,
)
from rescheduler.kube.watch_events import WatchEvent, whole_lines
from rescheduler.kube.write_fence import WriteFence, WritePermit
from rescheduler.model.kinds import POD, Kind
from rescheduler.model.objects import Page
from rescheduler.model.unreadable_objects import UnreadableObject

T = TypeVar("T")

logger = logging.getLogger(__name__)

# Who changed a field, in an object's `managedFields`.
FIELD_MANAGER = "rescheduler"

# Someone is waiting for the answer, so this gives up earlier than a watch does.
CALL_BACKOFF = Backoff(first_seconds=0.2, limit_seconds=10.0)


@dataclass(frozen=True)
class ClientSettings:
    """How the client behaves towards the server."""

    timeouts: Timeouts = field(default_factory=Timeouts)
    # In the long run, and at once. kube-scheduler takes the same share.
    requests_per_second: float = 50.0
    burst: int = 100
    # How often a call is sent at most; 1 means never again.
    attempts: int = 4
    backoff: Backoff = CALL_BACKOFF


class Client:
    """One API server, over connections that all calls share. Use it with `async with`."""

    def __init__(
        self,
        credentials: Credentials,
        settings: ClientSettings | None = None,
        chance: Random | None = None,
        clock: Clock = WALL_CLOCK,
        observer: RequestObserver | None = None,
    ) -> None:
        self.settings = settings or ClientSettings()
        self.server_clock = ServerClock(clock)
        """The server's time, for everything that is compared with the times of objects."""
        self._authentication = credentials.authentication
        self._transport = Transport(credentials, self.settings.timeouts, observer)
        self._limit = RateLimit(self.settings.requests_per_second, self.settings.burst)
        self._chance = chance or Random()
        self._fence: WriteFence | None = None

    def fenced(self, fence: WriteFence) -> Self:
        """The same client over the same connections, whose writes need permits of the fence."""
        fenced = copy(self)
        fenced._fence = fence
        return fenced

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.close()

    async def list_pages(
        self, kind: Kind[T], limit: int = PAGE_SIZE
    ) -> AsyncGenerator[ListPage[T], None]:
        """See `ApiServer.list_pages`. No version is named, so the list is the latest there is."""
        token = ""
        while True:
            query = selection_of(kind) | {"limit": str(limit)}
            if token:
                query["continue"] = token
            request = Request("GET", kind.path, query)
            page = await self._read(request, Page[msgspec.Raw])
            objects = decoded(page.items, kind, request)
            yield ListPage(page.metadata.resource_version, len(page.items), objects)
            token = page.metadata.continue_token
            if not token:
                return

    async def watch(
        self,
        kind: Kind[T],
        resource_version: str,
        timeout_seconds: int,
        batch_seconds: float = 0.0,
    ) -> AsyncGenerator[Sequence[WatchEvent[T]], None]:
        """See `ApiServer.watch`. Not opened again by itself: only its reader knows from where."""
        query = selection_of(kind) | {
            "watch": "true",
            "resourceVersion": resource_version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(timeout_seconds),
        }
        request = Request("GET", kind.path, query)
        async with self._answer(request, self.settings.timeouts.watch) as response:
            yield ()
            try:
                with closing(ReadBatching(socket_of(response), batch_seconds)) as batching:
                    async for lines in whole_lines(chunks_of(response)):
                        yield [decoded_event(line, kind) for line in lines]
                        batching.after_events()
            except msgspec.DecodeError as error:
                raise api_errors.from_body(request, error) from error
            except aiohttp.SocketTimeoutError:
                # The kind was quiet for long, or nobody is there any more. Opening another
                # watch is the only way to tell.
                return

    async def get(self, path: str, type: type[T], query: dict[str, str] | None = None) -> T:
        """See `ApiServer.get`."""
        return await self._read(Request("GET", path, query or {}), type)

    async def get_text(self, path: str) -> str:
        """What answers behind a proxy of the API server, which need not be JSON."""
        answer = await self._repeatedly(Request("GET", path))
        return answer.body.decode(errors="replace")

    @asynccontextmanager
    async def websocket(
        self, path: str, query: dict[str, str], protocol: str, most_bytes: int
    ) -> AsyncIterator[aiohttp.ClientWebSocketResponse[bool]]:
        """A websocket to what is behind the API server; messages are at most so long."""
        request = Request("GET", path, query)
        identity = await self._authentication.identity()
        try:
            async with self._transport.websocket(
                request, identity, protocol, most_bytes
            ) as websocket:
                yield websocket
        except aiohttp.WSServerHandshakeError as error:
            body = error.message.encode()
            raise api_errors.from_answer(request, error.status, body) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise api_errors.from_exception(request, self._transport.server, error) from error

    async def create(self, path: str, body: Any) -> Answer:
        """See `ApiServer.create`."""
        return await self._write("POST", path, body)

    async def patch(
        self, path: str, body: Any, how: Patch = Patch.MERGE, *, force: bool = False
    ) -> Answer:
        """See `ApiServer.patch`."""
        query = {"force": "true"} if force else {}
        return await self._write("PATCH", path, body, how.value, query)

    async def delete(
        self, path: str, *, uid: str = "", version: str = "", grace_seconds: int | None = None
    ) -> Answer:
        """See `ApiServer.delete`."""
        options = delete_options(uid, version, grace_seconds)
        return await self._repeatedly(Request("DELETE", path, body=msgspec.json.encode(options)))

    async def evict(
        self,
        pod: str,
        *,
        uid: str = "",
        version: str = "",
        grace_seconds: int | None = None,
        dry_run: bool = False,
    ) -> None:
        """See `ApiServer.evict`."""
        namespace, _, name = pod.partition("/")
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"namespace": namespace, "name": name},
            "deleteOptions": delete_options(uid, version, grace_seconds, dry_run),
        }
        await self._write("POST", object_path(POD, pod, "eviction"), eviction)

    async def bind(self, pod: str, node: str, *, uid: str = "") -> None:
        """See `ApiServer.bind`."""
        namespace, _, name = pod.partition("/")
        metadata = {"namespace": namespace, "name": name} | ({"uid": uid} if uid else {})
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": metadata,
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        await self._write("POST", object_path(POD, pod, "binding"), binding)

    async def _read(self, request: Request, type: type[T]) -> T:
        answer = await self._repeatedly(request)
        try:
            return answer.decode(type)
        except msgspec.ValidationError as error:
            problem = problem_with(msgspec.json.decode(answer.body), type, error)
            raise api_errors.from_body(request, problem) from error
        except msgspec.DecodeError as error:
            raise api_errors.from_body(request, error) from error

    async def _write(
        self,
        method: str,
        path: str,
        body: Any,
        content_type: str = "application/json",
        query: dict[str, str] | None = None,
    ) -> Answer:
        query = {"fieldManager": FIELD_MANAGER} | (query or {})
        encoded = msgspec.json.encode(body)
        return await self._repeatedly(Request(method, path, query, encoded, content_type))

    async def _repeatedly(self, request: Request) -> Answer:
        """Send a request until it is answered, as often as the settings allow.

        Only `Unavailable` is worth another attempt, and it is always safe: it says that
        nothing was done.
        """
        failed = 0
        while True:
            try:
                return await self._once(request)
            except Unavailable as error:
                failed += 1
                wait_seconds = self._seconds_before_retry(error, failed)
                if wait_seconds is None:
                    raise
                logger.debug(
                    "Failed a call and will repeat it",
                    extra={
                        "call": str(request),
                        "error": str(error),
                        "retry_seconds": wait_seconds,
                    },
                )
            await asyncio.sleep(wait_seconds)

    def _seconds_before_retry(self, error: Unavailable, failed: int) -> float | None:
        """How long to wait before the next attempt, or None if there is none.

        The server's Retry-After counts, up to the limit of our own backoff: beyond that the
        caller decides.
        """
        retry_after = error.retry_after_seconds or 0.0
        backoff = self.settings.backoff
        if failed >= self.settings.attempts or retry_after > backoff.limit_seconds:
            return None
        return max(retry_after, backoff.seconds(failed, self._chance))

    async def _once(self, request: Request) -> Answer:
        async with self._answer(request, self.settings.timeouts.call) as response:
            return Answer(response.status, await response.read())

    @asynccontextmanager
    async def _answer(
        self, request: Request, timeout: aiohttp.ClientTimeout
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The answer to a request, if it is one of success; every failure becomes our own."""
        await self._limit.wait()
        identity = await self._authentication.identity()
        permit = self._permit_for(request)
        if permit is not None:
            request = limited(request, permit.server_seconds)
        try:
            async with AsyncExitStack() as stack:
                send = partial(self._transport.send, timeout=timeout, permit=permit)
                response = await stack.enter_async_context(send(request, identity))
                if permit is not None:
                    permit.answered()
                self.server_clock.observe(response.headers.get("Date"))
                if response.status == HTTPStatus.UNAUTHORIZED:
                    renewed = await self._authentication.after_rejection(identity)
                    if is_another(renewed, identity):
                        response = await stack.enter_async_context(send(request, renewed))
                if response.status >= HTTPStatus.MULTIPLE_CHOICES:
                    retry_after = response.headers.get("Retry-After")
                    body = await response.read()
                    raise api_errors.from_answer(request, response.status, body, retry_after)
                yield response
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            if permit is not None and permit.refusal is not None:
                # aiohttp reports it as a lost connection.
                raise permit.refusal from None
            raise api_errors.from_exception(request, self._transport.server, error) from error

    def _permit_for(self, request: Request) -> WritePermit | None:
        if self._fence is None or request.is_read:
            return None
        return self._fence.permit(str(request))


def selection_of(kind: Kind[Any]) -> dict[str, str]:
    """The query parameters that select the objects of a kind."""
    return {"labelSelector": kind.selector} if kind.selector else {}


def decoded(
    raw: Iterable[msgspec.Raw], kind: Kind[T], request: Request
) -> Iterator[T | UnreadableObject]:
    """The objects of a page, one after the other."""
    try:
        yield from decoded_objects(raw, kind)
    except msgspec.DecodeError as error:
        raise api_errors.from_body(request, error) from error


def limited(request: Request, server_seconds: float) -> Request:
    """The request, which the server gives up after so many seconds."""
    return replace(request, query={**request.query, "timeout": f"{server_seconds:.3f}s"})


def is_another(renewed: ClientIdentity, rejected: ClientIdentity) -> bool:
    """Whether it is worth trying again with the renewed identity."""
    return (renewed.authorization, renewed.certificate) != (
        rejected.authorization,
        rejected.certificate,
    )


def delete_options(
    uid: str, version: str, grace_seconds: int | None, dry_run: bool = False
) -> dict[str, Any]:
    """The preconditions and the grace period of a deletion."""
    options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
    preconditions = {"uid": uid, "resourceVersion": version}
    if uid or version:
        options["preconditions"] = {key: value for key, value in preconditions.items() if value}
    if grace_seconds is not None:
        options["gracePeriodSeconds"] = grace_seconds
    if dry_run:
        options["dryRun"] = ["All"]
    return options
