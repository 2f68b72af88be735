"""An API server with faults.

Calls fail, responses are lost before or after the write was done, writes arrive late, watches lag,
break or expire, and the program itself may crash at any of its calls. All faults are drawn from a
random generator, so a failing run can be repeated.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from random import Random
from typing import Any, TypeVar

from rescheduler.errors import Conflict, OutcomeUnknown, ReschedulerError, Unavailable
from rescheduler.kube.api_server import PAGE_SIZE, Answer, ApiServer, ListPage, Patch
from rescheduler.kube.watch_events import WatchEvent
from rescheduler.model.kinds import Kind
from rescheduler.simulation.cluster import status_errors

T = TypeVar("T")


@dataclass(frozen=True)
class FaultRates:
    """The probability of each fault, per call or per batch of a watch."""

    unavailable: float = 0.0
    """The call fails, and nothing was done."""
    conflict: float = 0.0
    """A write is refused as if somebody else had changed the object."""
    lost_before: float = 0.0
    """The response to a write is lost, and the write is not done."""
    lost_after: float = 0.0
    """The response to a write is lost, but the write is done."""
    late: float = 0.0
    """The response to a write is lost, and the write is done later."""
    watch_broken: float = 0.0
    watch_gone: float = 0.0
    """The resource version of the watch has expired."""
    longest_call_seconds: float = 0.0
    longest_lag_seconds: float = 0.0
    """The most by which watches lag behind."""
    latest_write_seconds: float = 0.0


NO_FAULTS = FaultRates()


class FaultyApiServer:
    """An `ApiServer` for one program, which crashes with it.

    `crashes_at` is the number of the call at which the program crashes: the server receives that
    call or not, and the program gets no responses any more. Then `crashed` is set; the caller
    ends the tasks of the program.
    """

    def __init__(
        self, server: ApiServer, chance: Random, rates: FaultRates, crashes_at: int | None = None
    ) -> None:
        self.rates = rates
        self.calls = 0
        self.crashed = asyncio.Event()
        self.late: list[str] = []
        """Writes that were done after their caller had got an error."""
        self._server = server
        self._chance = chance
        self._crashes_at = crashes_at
        self._late: set[asyncio.Task[None]] = set()

    async def list_pages(
        self, kind: Kind[T], limit: int = PAGE_SIZE
    ) -> AsyncGenerator[ListPage[T], None]:
        """See `ApiServer.list_pages`."""
        await self._begin(f"GET {kind.path}", is_write=False)
        async with aclosing(self._server.list_pages(kind, limit)) as pages:
            async for page in pages:
                yield page
                await self._take_time()

    async def watch(
        self,
        kind: Kind[T],
        resource_version: str,
        timeout_seconds: int,
        batch_seconds: float = 0.0,
    ) -> AsyncGenerator[Sequence[WatchEvent[T]], None]:
        """See `ApiServer.watch`."""
        call = f"WATCH {kind.path}"
        await self._begin(call, is_write=False)
        watching = self._server.watch(kind, resource_version, timeout_seconds, batch_seconds)
        async with aclosing(watching) as batches:
            async for events in batches:
                if self.crashed.is_set():
                    await asyncio.Event().wait()
                if self._happens(self.rates.watch_gone):
                    raise status_errors.gone(call, int(resource_version))
                if self._happens(self.rates.watch_broken):
                    return
                await asyncio.sleep(self._chance.uniform(0, self.rates.longest_lag_seconds))
                yield events

    async def get(self, path: str, type: type[T], query: dict[str, str] | None = None) -> T:
        """See `ApiServer.get`."""
        await self._begin(f"GET {path}", is_write=False)
        found = await self._server.get(path, type, query)
        await self._take_time()
        return found

    async def create(self, path: str, body: Any) -> Answer:
        """See `ApiServer.create`."""
        return await self._write(f"POST {path}", lambda: self._server.create(path, body))

    async def patch(
        self, path: str, body: Any, how: Patch = Patch.MERGE, *, force: bool = False
    ) -> Answer:
        """See `ApiServer.patch`."""
        return await self._write(
            f"PATCH {path}", lambda: self._server.patch(path, body, how, force=force)
        )

    async def delete(
        self, path: str, *, uid: str = "", version: str = "", grace_seconds: int | None = None
    ) -> Answer:
        """See `ApiServer.delete`."""
        return await self._write(
            f"DELETE {path}",
            lambda: self._server.delete(
                path, uid=uid, version=version, grace_seconds=grace_seconds
            ),
        )

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
        await self._write(
            f"POST pods/{pod}/eviction",
            lambda: self._server.evict(
                pod, uid=uid, version=version, grace_seconds=grace_seconds, dry_run=dry_run
            ),
        )

    async def bind(self, pod: str, node: str, *, uid: str = "") -> None:
        """See `ApiServer.bind`."""
        await self._write(f"POST pods/{pod}/binding", lambda: self._server.bind(pod, node, uid=uid))

    # ------------------------------------------------------------ faults

    async def _write(self, call: str, write: Callable[[], Coroutine[Any, Any, T]]) -> T:
        if await self._begin(call, is_write=True):
            await self._crash_after(write)
        if self._happens(self.rates.conflict):
            raise Conflict(call, "409 Conflict: the object has been modified", status=409)
        if self._happens(self.rates.lost_before):
            raise OutcomeUnknown(call, "lost the response")
        if self._happens(self.rates.late):
            late = asyncio.create_task(self._do_late(call, write))
            self._late.add(late)
            late.add_done_callback(self._late.discard)
            raise OutcomeUnknown(call, "lost the response")
        done = await write()
        await self._take_time()
        if self._happens(self.rates.lost_after):
            raise OutcomeUnknown(call, "lost the response")
        return done

    async def _do_late(self, call: str, write: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        """A request that was delayed: it arrives although its caller has given up."""
        await asyncio.sleep(self._chance.uniform(0, self.rates.latest_write_seconds))
        self.late.append(call)
        try:
            await write()
        except ReschedulerError:
            return

    async def _begin(self, call: str, *, is_write: bool) -> bool:
        """Count a call; whether the program crashes after the server has done it."""
        if self.crashed.is_set():
            await asyncio.Event().wait()
        self.calls += 1
        if self.calls == self._crashes_at:
            if is_write and self._chance.random() < 0.5:
                return True
            await self._crash()
        await self._take_time()
        if self._happens(self.rates.unavailable):
            raise Unavailable(call, "503 Service Unavailable", status=503)
        return False

    async def _crash_after(self, write: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        """The server does the call, but the program does not get the response."""
        try:
            await write()
        finally:
            await self._crash()

    async def _crash(self) -> None:
        self.crashed.set()
        await asyncio.Event().wait()

    async def _take_time(self) -> None:
        await asyncio.sleep(self._chance.uniform(0, self.rates.longest_call_seconds))
        if self.crashed.is_set():
            await asyncio.Event().wait()

    def _happens(self, probability: float) -> bool:
        return probability > 0 and self._chance.random() < probability
