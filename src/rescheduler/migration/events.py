"""Kubernetes Events: what happens to a pod, where people look for it.

They are told in the background and at most once: a lost Event must not hold up a migration.
"""

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime
from random import Random
from typing import Any

from rescheduler.errors import ReschedulerError
from rescheduler.kube.clock import WALL_CLOCK
from rescheduler.kube.port import ApiServer
from rescheduler.migration.marks import rfc3339
from rescheduler.migration.objects import API_VERSION, Migration

logger = logging.getLogger(__name__)

MOST_WAITING = 1000
LONGEST_MESSAGE = 1000
COMPONENT = "rescheduler"
WARNINGS = ("MigrationFailed", "MigrationUndoing", "MigrationRetrying")


class Events:
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

    def tell(self, migration: Migration, reason: str, message: str) -> None:
        """Tell it of the Migration and of the pod that is moved."""
        pod = {"apiVersion": "v1", "kind": "Pod", **reference(migration)}
        pod |= {"name": migration.spec.pod.name, "uid": migration.spec.pod.uid}
        own = {"apiVersion": API_VERSION, "kind": "Migration", **reference(migration)}
        for about in (own, pod):
            try:
                name = f"{about['name'][:200]}.{self._chance.getrandbits(64):016x}"
                self._waiting.put_nowait(event(name, about, reason, message, self._clock()))
            except asyncio.QueueFull:
                return

    async def run(self) -> None:
        """Send them, one after the other, until cancelled."""
        while True:
            await self._send(await self._waiting.get())

    async def flush(self) -> None:
        """Send all that still wait."""
        while not self._waiting.empty():
            await self._send(self._waiting.get_nowait())

    async def _send(self, body: dict[str, Any]) -> None:
        namespace = body["metadata"]["namespace"]
        try:
            await self._server.create(f"/api/v1/namespaces/{namespace}/events", body)
        except ReschedulerError as error:
            logger.debug("Failed to send an Event", extra={"error": str(error)})


def reference(migration: Migration) -> dict[str, str]:
    """Which object an Event is about."""
    metadata = migration.metadata
    return {"namespace": metadata.namespace, "name": metadata.name, "uid": metadata.uid}


def event(
    name: str, about: dict[str, str], reason: str, message: str, now: datetime
) -> dict[str, Any]:
    """An Event as the server takes it."""
    moment = rfc3339(now)
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"namespace": about["namespace"], "name": name},
        "involvedObject": about,
        "reason": reason,
        "message": message[:LONGEST_MESSAGE],
        "type": "Warning" if reason in WARNINGS else "Normal",
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "firstTimestamp": moment,
        "lastTimestamp": moment,
        "count": 1,
    }
