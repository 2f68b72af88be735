"""Marks replacements that only the extender has steered, where no webhook does so.

The mark is written in the background, after the response. A pod without it is followed all the
same, but its migration then reports that it was not steered.

A marked pod may be deleted when its migration ends. So what the scheduler says about a pod is not
enough: the API server is asked whether it belongs to the workload.
"""

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime

from rescheduler.errors import ReschedulerError
from rescheduler.kube.api_server import ApiServer, object_path
from rescheduler.log_context import about_migration
from rescheduler.migration import migration_labels
from rescheduler.migration.migration_object import Migration
from rescheduler.migration.moving_pod import MovingPod, PodMeta
from rescheduler.model.kinds import POD

logger = logging.getLogger(__name__)

MOST_WAITING = 1000


class ReplacementMarker:
    """A queue of marks that are written one after the other."""

    def __init__(self, server: ApiServer, clock: Callable[[], datetime]) -> None:
        self._server = server
        self._clock = clock
        self._waiting: asyncio.Queue[tuple[PodMeta, Migration]] = asyncio.Queue(MOST_WAITING)

    def mark(self, pod: PodMeta, migration: Migration) -> None:
        """Mark a pod soon. It stays unmarked if too many are waiting."""
        if not self._waiting.full():
            self._waiting.put_nowait((pod, migration))

    async def run(self) -> None:
        """Write marks until cancelled."""
        while True:
            pod, migration = await self._waiting.get()
            with about_migration(migration.key, migration.metadata.uid):
                await self._mark(pod, migration)

    async def _mark(self, pod: PodMeta, migration: Migration) -> None:
        extra = {"pod": pod.key}
        try:
            found = await self._server.get(object_path(POD, pod.key), MovingPod)
            if found.uid == pod.uid and is_replacement(found, migration):
                await self._write(found, migration)
            else:
                logger.warning("Refused to mark a pod that is no replacement", extra=extra)
        except ReschedulerError as error:
            logger.debug("Failed to mark a pod", extra={**extra, "error": str(error)})

    async def _write(self, pod: MovingPod, migration: Migration) -> None:
        patch = migration_labels.steered_patch(migration, self._clock())
        # Another pod may have got the name meanwhile: the API server then reports a conflict.
        patch["metadata"]["uid"] = pod.uid
        await self._server.patch(object_path(POD, pod.key), patch)
        extra = {"pod": pod.key, "target": migration.spec.target_node}
        logger.info("Steered a replacement", extra=extra)


def is_replacement(pod: MovingPod, migration: Migration) -> bool:
    """Whether a pod is one that the migration's workload has just created.

    It may be bound to the target by now, and to no other node.
    """
    owner, workload = pod.metadata.controller, migration.status.workload
    return (
        owner is not None
        and workload is not None
        and owner.uid == workload.uid
        and pod.node in ("", migration.spec.target_node)
    )
