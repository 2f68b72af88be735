"""Find what a migration has left behind, and put it back.

Whatever a migration touches carries its mark until it is put back or here to stay. So a marked
object is a leftover if its Migration is gone, finished, or busy with another attempt; nothing
else ever is, however old it may be and whoever left it.
"""

import logging
from typing import Any

from rescheduler.errors import NotFound
from rescheduler.kube.api_server import ApiServer, object_path
from rescheduler.labels import MIGRATION_ID, MIGRATION_NAME, ORIGINAL_POD, ORIGINAL_POD_NAME
from rescheduler.migration import pod_marks
from rescheduler.migration.executor import Executor
from rescheduler.migration.migration_object import Migration
from rescheduler.migration.moving_pod import MovingPod, PodMeta
from rescheduler.migration.new_pod import new_pod_name
from rescheduler.migration.observer import Observer
from rescheduler.migration.state_machine.actions import DeleteBudget, DeletePod, PatchPod
from rescheduler.model.kinds import BUDGET
from rescheduler.model.objects import Part

logger = logging.getLogger(__name__)


class MarkedBudget(Part, frozen=True):
    """A temporary budget, with what says whose it is."""

    metadata: PodMeta


def is_part_of(pod: MovingPod, migration: Migration | None) -> bool:
    """Whether a marked pod is still being looked after by its migration."""
    if migration is None or migration.is_finished:
        return False
    if pod.metadata.labels.get(MIGRATION_ID) != migration.metadata.uid:
        return False
    if is_replacement_made_by_us(pod):
        return pod.metadata.name == new_pod_name(migration)
    return migration.is_in_progress


def is_replacement_made_by_us(pod: MovingPod) -> bool:
    """Whether we made it and nobody has taken it over."""
    is_new = ORIGINAL_POD in pod.metadata.annotations and pod.metadata.controller is None
    return is_new and pod_marks.is_in_progress(pod) and bool(pod.metadata.labels.get(MIGRATION_ID))


def cleaning(pod: MovingPod, original: MovingPod | None) -> PatchPod | DeletePod:
    """How a leftover pod is put back.

    A pod that we made is deleted, but never if it is the last of its kind: a copy whose original
    is gone stays.
    """
    is_original_there = original is not None and not original.is_deleting
    if not is_replacement_made_by_us(pod):
        return PatchPod("restore-leftover", pod, pod_marks.restoring(pod))
    if is_copy(pod) and not is_original_there:
        return PatchPod("keep-leftover", pod, pod_marks.completing())
    return DeletePod("delete-leftover", pod)


def is_copy(pod: MovingPod) -> bool:
    """Whether it is the copy of a pod that had no controller."""
    return pod.metadata.name.startswith("rescheduled-")


class LeftoverCleanup:
    """Looks after marked objects that no living migration looks after."""

    def __init__(self, server: ApiServer, observer: Observer, hands: Executor) -> None:
        self._server = server
        self._observer = observer
        self._hands = hands

    async def look_at_pod(self, key: str) -> bool:
        """Put a pod back if it is a leftover; whether it was one."""
        pod = await self._observer.pod(key, fresh=True)
        if pod is None or pod.is_deleting or not pod_marks.is_in_progress(pod):
            return False
        if is_part_of(pod, await self._migration_of(pod.metadata)):
            return False
        action = cleaning(pod, await self._original_of(pod))
        logger.info("Cleaned up a leftover pod", extra={"pod": key, "action": action.name})
        if isinstance(action, DeletePod):
            await self._hands.delete(action)
        else:
            await self._hands.patch(action)
        return True

    async def look_at_budget(self, key: str) -> bool:
        """Delete a temporary budget if it is a leftover; whether it was one."""
        try:
            budget = await self._server.get(object_path(BUDGET, key), MarkedBudget)
        except NotFound:
            return False
        migration = await self._migration_of(budget.metadata)
        if migration is not None and migration.is_in_progress:
            return False
        logger.info("Cleaned up a leftover disruption budget", extra={"budget": key})
        await self._hands.delete_budget(DeleteBudget("leftover", key, budget.metadata.uid))
        return True

    async def _migration_of(self, metadata: PodMeta) -> Migration | None:
        """The Migration whose mark an object carries, as the server has it now."""
        name = metadata.annotations.get(MIGRATION_NAME, "")
        if not name:
            return None
        found = await self._observer.migration(f"{metadata.namespace}/{name}", fresh=True)
        is_it = found is not None and found.metadata.uid == metadata.labels.get(MIGRATION_ID)
        return found if is_it else None

    async def _original_of(self, pod: MovingPod) -> MovingPod | None:
        annotations: dict[str, Any] = pod.metadata.annotations
        name, uid = annotations.get(ORIGINAL_POD_NAME, ""), annotations.get(ORIGINAL_POD, "")
        if not name:
            return None
        found = await self._observer.pod(f"{pod.metadata.namespace}/{name}", fresh=True)
        return found if found is not None and found.uid == uid else None
