"""Makes kube-scheduler try pods again that we refused everywhere and would accept by now.

The scheduler tries a pod again that an extender has refused as soon as the pod itself changes, so
an annotation is written on it.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime

from rescheduler.errors import OutcomeUnknown, ReschedulerError, Unavailable
from rescheduler.extender.retries.refused_pods import RefusedPod
from rescheduler.kube.api_server import ApiServer, object_path
from rescheduler.labels import ACCEPTED_AT
from rescheduler.migration.migration_labels import rfc3339
from rescheduler.migration.moving_pod import PodMeta
from rescheduler.model.kinds import POD

logger = logging.getLogger(__name__)

SECONDS_BETWEEN_LOOKS = 1.0
# After an error of this program, which the next look most likely meets, too.
SECONDS_AFTER_ERROR = 60.0


class SchedulingRetries:
    """Looks for such pods again and again."""

    def __init__(self, server: ApiServer, clock: Callable[[], datetime]) -> None:
        self._server = server
        self._clock = clock

    async def run(
        self,
        take_accepted: Callable[[], Sequence[RefusedPod]],
        put_back: Callable[[RefusedPod], None],
    ) -> None:
        """Have pods tried again that are given, until cancelled.

        If the API server does not answer, they are put back: by the time it does, they may have
        been placed, or no node may accept them.
        """
        seconds = SECONDS_BETWEEN_LOOKS
        while True:
            await asyncio.sleep(seconds)
            seconds = SECONDS_BETWEEN_LOOKS
            try:
                await self._look(take_accepted, put_back)
            except Exception:
                # The scheduler is answered all the same, and without us tries again, only later.
                logger.exception("Failed to look at refused pods")
                seconds = SECONDS_AFTER_ERROR

    async def _look(
        self,
        take_accepted: Callable[[], Sequence[RefusedPod]],
        put_back: Callable[[RefusedPod], None],
    ) -> None:
        waiting = deque(take_accepted())
        while waiting:
            refused = waiting.popleft()
            if not await self._have_tried_again(refused.pod):
                # The others first: only this one may be what cannot be changed.
                for taken in (*waiting, refused):
                    put_back(taken)
                return

    async def _have_tried_again(self, pod: PodMeta) -> bool:
        """Write the annotation; False if that may succeed later."""
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
            return not isinstance(error, (Unavailable, OutcomeUnknown))
        logger.info("A pod that was refused has nodes again", extra=extra)
        return True
