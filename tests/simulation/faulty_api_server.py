"""What goes wrong between a program and the API server: a port with faults.

Answers come late or not at all, writes happen although nobody hears of it, or long after, watches
lag behind, break, or have been forgotten; and the program itself may die at any of its calls. All
of it is drawn from a seed, so that what was found once can be looked at again.
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
    """How likely each fault is, for each call or for each batch that a watch brings."""

    unavailable: float = 0.0
    """The call fails, and nothing was done."""
    conflict: float = 0.0
    """A write is refused as if somebody had been faster."""
    lost_before: float = 0.0
    """The answer to a write is lost, and the write as well."""
    lost_after: float = 0.0
    """The answer to a write is lost, but the write was done."""
    late: float = 0.0
    """The answer to a write is lost, and the write is done a while later."""
    watch_broken: float = 0.0
    watch_gone: float = 0.0
    """What followed the version that the watch has reached is forgotten."""
    longest_call_seconds: float = 0.0
    longest_lag_seconds: float = 0.0
    """How far watches are behind at most."""
    latest_write_seconds: float = 0.0


NO_FAULTS = FaultRates()


class FaultyApiServer:
    """An `ApiServer` for one program, which dies with it.

    `dies_at` is the number of the call at which the program dies: the server hears of that call or
    not, and the program hears of nothing any more. `died` is set then; end its tasks.
    """

    def __init__(
        self, server: ApiServer, chance: Random, rates: FaultRates, dies_at: int | None = None
    ) -> None:
        self.rates = rates
        self.calls = 0
        self.died = asyncio.Event()
        self.late: list[str] = []
        """Writes that were done after nobody waited for them any more."""
        self._server = server
        self._chance = chance
        self._dies_at = dies_at
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
        self, kind: Kind[T], resource_version: str, timeout_seconds: int
    ) -> AsyncGenerator[Sequence[WatchEvent[T]], None]:
        """See `ApiServer.watch`."""
        call = f"WATCH {kind.path}"
        await self._begin(call, is_write=False)
        async with aclosing(self._server.watch(kind, resource_version, timeout_seconds)) as batches:
            async for events in batches:
                if self.died.is_set():
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

    async def create(self, path: str, body: Any, *, dry_run: bool = False) -> Answer:
        """See `ApiServer.create`."""
        return await self._write(
            f"POST {path}", lambda: self._server.create(path, body, dry_run=dry_run)
        )

    async def replace(self, path: str, body: Any, *, dry_run: bool = False) -> Answer:
        """See `ApiServer.replace`."""
        return await self._write(
            f"PUT {path}", lambda: self._server.replace(path, body, dry_run=dry_run)
        )

    async def patch(
        self,
        path: str,
        body: Any,
        how: Patch = Patch.MERGE,
        *,
        dry_run: bool = False,
        force: bool = False,
    ) -> Answer:
        """See `ApiServer.patch`."""
        return await self._write(
            f"PATCH {path}",
            lambda: self._server.patch(path, body, how, dry_run=dry_run, force=force),
        )

    async def delete(
        self,
        path: str,
        *,
        uid: str = "",
        version: str = "",
        grace_seconds: int | None = None,
        dry_run: bool = False,
    ) -> Answer:
        """See `ApiServer.delete`."""
        return await self._write(
            f"DELETE {path}",
            lambda: self._server.delete(
                path, uid=uid, version=version, grace_seconds=grace_seconds, dry_run=dry_run
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

    # ------------------------------------------------------------ what goes wrong

    async def _write(self, call: str, write: Callable[[], Coroutine[Any, Any, T]]) -> T:
        if await self._begin(call, is_write=True):
            await self._die_after(write)
        if self._happens(self.rates.conflict):
            raise Conflict(call, "409 Conflict: somebody else was faster", status=409)
        if self._happens(self.rates.lost_before):
            raise OutcomeUnknown(call, "lost the answer")
        if self._happens(self.rates.late):
            late = asyncio.create_task(self._do_late(call, write))
            self._late.add(late)
            late.add_done_callback(self._late.discard)
            raise OutcomeUnknown(call, "lost the answer")
        done = await write()
        await self._take_time()
        if self._happens(self.rates.lost_after):
            raise OutcomeUnknown(call, "lost the answer")
        return done

    async def _do_late(self, call: str, write: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        """A request that was held up on its way: it arrives although nobody waits any more."""
        await asyncio.sleep(self._chance.uniform(0, self.rates.latest_write_seconds))
        self.late.append(call)
        try:
            await write()
        except ReschedulerError:
            return

    async def _begin(self, call: str, *, is_write: bool) -> bool:
        """Count a call; whether it is the one at which the program dies after all."""
        if self.died.is_set():
            await asyncio.Event().wait()
        self.calls += 1
        if self.calls == self._dies_at:
            if is_write and self._chance.random() < 0.5:
                return True
            await self._die()
        await self._take_time()
        if self._happens(self.rates.unavailable):
            raise Unavailable(call, "503 Service Unavailable", status=503)
        return False

    async def _die_after(self, write: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        """The server has heard of the call, but nobody hears of its answer."""
        try:
            await write()
        finally:
            await self._die()

    async def _die(self) -> None:
        self.died.set()
        await asyncio.Event().wait()

    async def _take_time(self) -> None:
        await asyncio.sleep(self._chance.uniform(0, self.rates.longest_call_seconds))
        if self.died.is_set():
            await asyncio.Event().wait()

    def _happens(self, likelihood: float) -> bool:
        return likelihood > 0 and self._chance.random() < likelihood
