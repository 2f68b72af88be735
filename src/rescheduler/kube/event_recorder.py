"""Kubernetes Events: what happens to an object, where people look for it.

They are sent in the background and at most once: a lost Event must not hold up anything else.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from random import Random
from typing import Any

from rescheduler.errors import ReschedulerError
from rescheduler.kube.api_server import ApiServer, collection_path
from rescheduler.kube.clock import WALL_CLOCK
from rescheduler.model.kinds import Kind
from rescheduler.model.objects import Identity, Part

logger = logging.getLogger(__name__)

MOST_WAITING = 1000
LONGEST_MESSAGE = 1000
COMPONENT = "rescheduler"


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
        self._waiting: asyncio.Queue[dict[str, Any]] = asyncio.Queue(MOST_WAITING)

    def record(
        self, about: Mapping[str, str], reason: str, message: str, *, warning: bool = False
    ) -> bool:
        """Send an Event about an object; False if too many wait and this one is left out."""
        name = f"{about['name'][:200]}.{self._chance.getrandbits(64):016x}"
        try:
            self._waiting.put_nowait(event(name, about, reason, message, self._clock(), warning))
        except asyncio.QueueFull:
            return False
        return True

    async def run(self) -> None:
        """Send them, one after the other, until cancelled."""
        while True:
            await self._send(await self._waiting.get())
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

    async def _send(self, body: dict[str, Any]) -> None:
        namespace = body["metadata"]["namespace"]
        try:
            await self._server.create(collection_path(EVENT, namespace), body)
        except ReschedulerError as error:
            logger.debug("Failed to send an Event", extra={"error": str(error)})


def about_pod(namespace: str, name: str, uid: str) -> dict[str, str]:
    """The pod that an Event is about."""
    return {"apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": name, "uid": uid}


def event(
    name: str, about: Mapping[str, str], reason: str, message: str, now: datetime, warning: bool
) -> dict[str, Any]:
    """An Event as the server takes it."""
    moment = now.isoformat(timespec="seconds")
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"namespace": about["namespace"], "name": name},
        "involvedObject": about,
        "reason": reason,
        "message": message[:LONGEST_MESSAGE],
        "type": "Warning" if warning else "Normal",
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "firstTimestamp": moment,
        "lastTimestamp": moment,
        "count": 1,
    }
