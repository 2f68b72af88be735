"""Makes kube-scheduler try pods again that we refused everywhere and would accept by now.

The scheduler tries a pod again that an extender has refused as soon as the pod itself changes, so
an annotation is written on it.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import datetime

from rescheduler.errors import ReschedulerError
from rescheduler.kube.api_server import ApiServer, object_path
from rescheduler.labels import ACCEPTED_AT
from rescheduler.migration.migration_labels import rfc3339
from rescheduler.migration.moving_pod import PodMeta
from rescheduler.model.kinds import POD

logger = logging.getLogger(__name__)

SECONDS_BETWEEN_LOOKS = 1.0


class SchedulingRetries:
    """Looks for such pods again and again."""

    def __init__(self, server: ApiServer, clock: Callable[[], datetime]) -> None:
        self._server = server
        self._clock = clock

    async def run(self, take_accepted: Callable[[], Sequence[PodMeta]]) -> None:
        """Have pods tried again that are given, until cancelled."""
        while True:
            await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
            for pod in take_accepted():
                await self._have_tried_again(pod)

    async def _have_tried_again(self, pod: PodMeta) -> None:
        extra = {"pod": pod.key}
        annotations = {ACCEPTED_AT: rfc3339(self._clock())}
        # Another pod may have got the name meanwhile: the API server then reports a conflict.
        patch = {"metadata": {"uid": pod.uid, "annotations": annotations}}
        try:
            await self._server.patch(object_path(POD, pod.key), patch)
        except ReschedulerError as error:
            logger.debug(
                "Failed to have a pod scheduled again", extra=extra | {"error": str(error)}
            )
        else:
            logger.info("A pod that was refused has nodes again", extra=extra)
