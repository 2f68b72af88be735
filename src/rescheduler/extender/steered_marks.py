"""Marks replacements that only the extender has steered, where there is no webhook to do so.

In the background, after the answer: a pod that is not marked is followed all the same, but then
nobody can tell that it was steered.
"""

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime

from rescheduler.errors import ReschedulerError
from rescheduler.kube.api_server import ApiServer, object_path
from rescheduler.migration import migration_labels
from rescheduler.migration.migration_object import Migration
from rescheduler.migration.moving_pod import PodMeta
from rescheduler.model.kinds import POD

logger = logging.getLogger(__name__)

MOST_WAITING = 1000


class SteeredMarks:
    """Marks on their way to the server."""

    def __init__(self, server: ApiServer, clock: Callable[[], datetime]) -> None:
        self._server = server
        self._clock = clock
        self._waiting: asyncio.Queue[tuple[PodMeta, Migration]] = asyncio.Queue(MOST_WAITING)

    def mark(self, pod: PodMeta, migration: Migration) -> None:
        """Mark a pod soon."""
        if not self._waiting.full():
            self._waiting.put_nowait((pod, migration))

    async def run(self) -> None:
        """Write them, one after the other, until cancelled."""
        while True:
            pod, migration = await self._waiting.get()
            patch = migration_labels.steered_patch(migration, self._clock())
            # Another pod may have got the name meanwhile: then it is a conflict.
            patch["metadata"]["uid"] = pod.uid
            extra = {"pod": pod.key, "migration": migration.key}
            try:
                await self._server.patch(object_path(POD, pod.key), patch)
            except ReschedulerError as error:
                logger.debug("Failed to mark a pod", extra={**extra, "error": str(error)})
            else:
                extra["target"] = migration.spec.target_node
                logger.info("Steered a replacement", extra=extra)
