"""Kubernetes Events: what happens to an object, where people look for it.

They are sent in the background and at most once: a lost Event must not hold up anything else.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import Context, copy_context
from datetime import datetime
from random import Random
from typing import Any

from rescheduler.errors import NotFound, OutcomeUnknown, ReschedulerError
from rescheduler.kube.api_server import ApiServer, collection_path, object_path
from rescheduler.kube.clock import WALL_CLOCK
from rescheduler.kube.event_correlator import CorrelatedEvent, EventCorrelator
from rescheduler.model.kinds import Kind
from rescheduler.model.objects import Identity, Part

logger = logging.getLogger(__name__)

MOST_WAITING = 1000
COMPONENT = "rescheduler"
CLUSTER_NAMESPACE = "default"
"""Where Events about objects without a namespace are."""


class EventObject(Part, frozen=True):
    """An Event, which we write and never read."""

    metadata: Identity


EVENT = Kind("Event", "v1", "events", True, EventObject)


class EventRecorder:
    """Events on their way to the server."""

    def __init__(
        self,
        server: ApiServer,
        clock: Callable[[], datetime] = WALL_CLOCK.now,
        chance: Random | None = None,
    ) -> None:
        self._server = server
        self._clock = clock
        self._chance = chance or Random()
        self._correlator = EventCorrelator()
        self._waiting: asyncio.Queue[tuple[CorrelatedEvent, Context]] = asyncio.Queue(MOST_WAITING)

    def record(
        self, about: Mapping[str, str], reason: str, message: str, *, warning: bool = False
    ) -> bool:
        """Send an Event about an object; False if too many wait and this one is left out.

        If it repeats an earlier one, that one's count is raised instead.
        """
        event = self._correlated(about, reason, message, warning)
        if event.is_waiting:
            return True
        try:
            self._waiting.put_nowait((event, copy_context()))
        except asyncio.QueueFull:
            return False
        event.is_waiting = True
        return True

    async def send(
        self, about: Mapping[str, str], reason: str, message: str, *, warning: bool = False
    ) -> None:
        """Send an Event now, for those who do not run the recorder."""
        await self._try_to_send(self._correlated(about, reason, message, warning))

    def _correlated(
        self, about: Mapping[str, str], reason: str, message: str, warning: bool
    ) -> CorrelatedEvent:
        event = self._correlator.add(about, reason, message, self._clock(), warning=warning)
        if not event.name:
            chance = self._chance.getrandbits(64)
            event.name = f"{about['name'][:200].rstrip('-.')}.{chance:016x}"
        return event

    async def run(self) -> None:
        """Send them, one after the other, until cancelled."""
        while True:
            event, context = await self._waiting.get()
            event.is_waiting = False
            try:
                await self._try_to_send(event, context)
            finally:
                self._waiting.task_done()

    async def flush(self, seconds: float) -> None:
        """Return when all are sent that wait; after so many seconds, when one more is sent.

        `run` sends them. Those that are left are dropped.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._waiting.join()
        while not self._waiting.empty():
            self._waiting.get_nowait()
            self._waiting.task_done()
        await self._waiting.join()

    async def _try_to_send(self, event: CorrelatedEvent, context: Context | None = None) -> None:
        extra = {"reason": event.reason, "object": event.about["name"]}
        # What is logged is about what was handled when the Event was recorded, also by the client.
        context = context or copy_context()
        run = context.run
        try:
            await asyncio.create_task(self._send(event), context=context)
        except ReschedulerError as error:
            run(logger.debug, "Failed to send an Event", extra={**extra, "error": str(error)})
        except Exception:
            # The next one may be sent all the same.
            run(logger.exception, "Failed to send an Event", extra=extra)

    async def _send(self, event: CorrelatedEvent) -> None:
        if event.is_created:
            path = object_path(EVENT, f"{namespace_of(event.about)}/{event.name}")
            try:
                await self._server.patch(path, repetition(event))
                return
            except NotFound:
                # The server deletes Events after a while.
                event.is_created = False
        try:
            await self._server.create(
                collection_path(EVENT, namespace_of(event.about)), event_body(event)
            )
        except OutcomeUnknown:
            event.is_created = True
            raise
        event.is_created = True


def about_pod(namespace: str, name: str, uid: str) -> dict[str, str]:
    """The pod that an Event is about."""
    return {"apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": name, "uid": uid}


def about_node(name: str, uid: str) -> dict[str, str]:
    """The node that an Event is about."""
    return {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}


def namespace_of(about: Mapping[str, str]) -> str:
    """Where an Event about an object is."""
    return about.get("namespace") or CLUSTER_NAMESPACE


def repetition(event: CorrelatedEvent) -> dict[str, Any]:
    """A patch of an Event that has happened again."""
    return {
        "count": event.count,
        "lastTimestamp": event.last.isoformat(timespec="seconds"),
        "message": event.message,
    }


def event_body(event: CorrelatedEvent) -> dict[str, Any]:
    """An Event as the server takes it."""
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"namespace": namespace_of(event.about), "name": event.name},
        "involvedObject": dict(event.about),
        "reason": event.reason,
        "type": "Warning" if event.is_warning else "Normal",
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "firstTimestamp": event.first.isoformat(timespec="seconds"),
        **repetition(event),
    }
