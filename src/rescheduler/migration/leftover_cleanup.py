"""Finds and restores what an interrupted migration has left behind.

Whatever a migration touches is labelled until it is restored or stays for good. So a labelled
object is a leftover exactly if its Migration no longer exists, has finished, or is at another
attempt. Its age does not matter, nor does the process that left it.

Whoever may patch an object may label it like that. So an object is only deleted if more than labels
and annotations prove that a migration has created it. Otherwise it loses them, and stays.
"""

import logging
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from typing import Any

from rescheduler.errors import Forbidden, NotFound, Refused
from rescheduler.kube.api_server import ApiServer, object_path
from rescheduler.labels import MIGRATION_ID, MIGRATION_NAME, ORIGINAL_POD, ORIGINAL_POD_NAME
from rescheduler.log_context import about_migration
from rescheduler.migration import migration_labels
from rescheduler.migration.executor import Executor
from rescheduler.migration.migration_object import Migration
from rescheduler.migration.migration_watches import is_part_of, is_unadopted_new_pod
from rescheduler.migration.moving_pod import MovingPod, PodMeta
from rescheduler.migration.new_pod import COPY_PREFIX
from rescheduler.migration.observer import Observer
from rescheduler.migration.state_machine import placement
from rescheduler.migration.state_machine.actions import DeleteBudget, DeletePod, PatchPod, Wait
from rescheduler.migration.state_machine.eviction import budget_name
from rescheduler.migration.state_machine.service_departure import (
    LOOK_AGAIN_SECONDS,
    depart,
    rejoin_services,
)
from rescheduler.model.kinds import BUDGET
from rescheduler.model.objects import Part
from rescheduler.settings import MigrationOptions

logger = logging.getLogger(__name__)

UNPROVEN = "it has the labels of a migration, but nothing proves that one has created it"


class LabelledBudget(Part, frozen=True):
    """A temporary disruption budget, with the labels that name its migration."""

    metadata: PodMeta


def cleanup_action(
    pod: MovingPod, original: MovingPod | None, now: datetime
) -> PatchPod | DeletePod:
    """The next action that removes or restores a leftover pod.

    A pod that a migration has created is deleted. The exception is a copy that has a node and whose
    original no longer exists: nobody would bring it back. A migration evicts the original only when
    the copy is Ready. So if the copy has no node, somebody else has deleted the original.
    """
    original_exists = original is not None and not original.is_deleting
    if not is_unadopted_new_pod(pod):
        return restore(pod, now)
    if is_copy(pod) and pod.node and not original_exists:
        return placement.give_away(pod) or PatchPod(
            "keep-leftover", pod, migration_labels.completed_patch()
        )
    return DeletePod("delete-leftover", pod)


def restore(pod: MovingPod, now: datetime) -> PatchPod:
    """The next action that removes what a migration has written on a pod that stays."""
    return rejoin_services(pod, now) or PatchPod(
        "restore-leftover", pod, migration_labels.restore_patch(pod)
    )


def is_copy(pod: MovingPod) -> bool:
    """Whether a new pod is the copy of a pod without a controller.

    The name alone does not tell: a workload may have such a name, too.
    """
    return pod.metadata.name.startswith(COPY_PREFIX) and not pod.metadata.generate_name


def about_migration_of(metadata: PodMeta) -> AbstractContextManager[None]:
    """What is logged in the block is about the Migration that an object is labelled with."""
    name, uid = metadata.annotations.get(MIGRATION_NAME, ""), metadata.labels.get(MIGRATION_ID, "")
    return about_migration(f"{metadata.namespace}/{name}", uid)


class LeftoverCleanup:
    """Checks labelled objects, and cleans up those that no migration takes care of."""

    def __init__(self, server: ApiServer, observer: Observer, executor: Executor) -> None:
        self._server = server
        self._observer = observer
        self._executor = executor

    async def check_pod(self, key: str, options: MigrationOptions) -> float | None:
        """Restore or delete a pod if it is a leftover.

        Returns after how many seconds to look again, if that is needed.
        """
        pod = await self._observer.pod(key, fresh=True)
        if pod is None or pod.is_deleting or not migration_labels.is_in_progress(pod):
            return None
        with about_migration_of(pod.metadata):
            return await self._clean_up(pod, options)

    async def _clean_up(self, pod: MovingPod, options: MigrationOptions) -> float | None:
        if is_part_of(pod, await self._migration_of(pod.metadata)):
            return None
        original = await self._original_of(pod)
        now = self._observer.now()
        action: PatchPod | DeletePod | Wait = cleanup_action(pod, original, now)
        if isinstance(action, DeletePod) and not pod.is_ours:
            logger.warning("Left a labelled pod alone", extra={"pod": pod.key, "why": UNPROVEN})
            action = restore(pod, now)
        if isinstance(action, DeletePod):
            action = await self._leave_services(pod, original, options) or action
        if isinstance(action, Wait):
            return action.seconds
        if isinstance(action, DeletePod):
            await self._executor.delete_pod(action)
        else:
            await self._executor.patch_pod(action)
        logger.info("Cleaned up a leftover pod", extra={"pod": pod.key, "action": action.name})
        # After a patch, there is more to do: it may not be this pod that was patched.
        return LOOK_AGAIN_SECONDS if isinstance(action, PatchPod) else None

    async def _leave_services(
        self, pod: MovingPod, original: MovingPod | None, options: MigrationOptions
    ) -> PatchPod | Wait | None:
        """The next action by which a new pod leaves its Services; None when it may be deleted.

        The pod that it was to replace must serve again first.
        """
        for_proxies = timedelta(seconds=options.leave_services_seconds)
        is_serving = pod.is_ready or pod.has_left_services
        if not is_serving or not for_proxies or pod.has_pre_stop_hooks:
            return None
        now = self._observer.now()
        if original is not None and (action := rejoin_services(original, now)):
            return action
        stand_in = original if original is not None and original.is_ready else None
        try:
            found = await self._observer.departure_of(pod, stand_in)
        except (Refused, Forbidden):
            return None
        if found.lonely and stand_in is not None:
            return Wait(LOOK_AGAIN_SECONDS)
        return depart(pod, found, now, for_proxies)

    async def budget(self, key: str) -> LabelledBudget | None:
        """A temporary disruption budget, read from the server; None if it does not exist."""
        try:
            return await self._server.get(object_path(BUDGET, key), LabelledBudget)
        except NotFound:
            return None

    async def check_budget(self, budget: LabelledBudget) -> None:
        """Delete a temporary disruption budget if it is a leftover."""
        migration = await self._migration_of(budget.metadata)
        if migration is not None and migration.is_in_progress:
            return
        key, uid = budget.metadata.key, budget.metadata.uid
        if budget.metadata.name != budget_name(budget.metadata.labels.get(MIGRATION_ID, "")):
            logger.warning("Left a labelled budget alone", extra={"budget": key, "why": UNPROVEN})
            return
        await self._executor.delete_budget(DeleteBudget("leftover", key, uid))
        logger.info("Cleaned up a leftover disruption budget", extra={"budget": key})

    async def _migration_of(self, metadata: PodMeta) -> Migration | None:
        """The Migration that an object is labelled with, read from the server."""
        name = metadata.annotations.get(MIGRATION_NAME, "")
        if not name:
            return None
        found = await self._observer.migration(f"{metadata.namespace}/{name}", fresh=True)
        is_same = found is not None and found.metadata.uid == metadata.labels.get(MIGRATION_ID)
        return found if is_same else None

    async def _original_of(self, pod: MovingPod) -> MovingPod | None:
        annotations: dict[str, Any] = pod.metadata.annotations
        name, uid = annotations.get(ORIGINAL_POD_NAME, ""), annotations.get(ORIGINAL_POD, "")
        if not name:
            return None
        found = await self._observer.pod(f"{pod.metadata.namespace}/{name}", fresh=True)
        return found if found is not None and found.uid == uid else None
