"""Carries out the actions of the state machine: one write for each, and nothing else.

The server rejects a write unless the object is still as it was observed. So a write may be sent
twice, late, or by two controllers. Errors are left to the caller, who observes again.
"""

from typing import Any

import msgspec

from rescheduler.errors import AlreadyExists, Conflict, NotFound
from rescheduler.kube.api_server import ApiServer, Patch, collection_path, object_path
from rescheduler.migration.migration_object import MIGRATION, Migration
from rescheduler.migration.migration_watches import MigrationWatches
from rescheduler.migration.moving_pod import MovingPod
from rescheduler.migration.new_pod import gated_copy
from rescheduler.migration.state_machine.actions import (
    CreateBudget,
    CreatePod,
    DeleteBudget,
    DeleteMigration,
    DeletePod,
    EvictPod,
    PatchPod,
    UpdateStatus,
    Write,
)
from rescheduler.migration.state_machine.observation import Observation
from rescheduler.migration.state_machine.status_transitions import status_patch
from rescheduler.model.json_decoder import without_nulls
from rescheduler.model.kinds import BUDGET, POD


class Executor:
    """Writes to the API server, and records the answers so that later decisions see them."""

    def __init__(self, server: ApiServer, watches: MigrationWatches) -> None:
        self._server = server
        self._migrations = watches.migrations
        self._pods = watches.pods

    async def carry_out(self, action: Write, o: Observation) -> None:
        """Carry out one action that was decided for this observation."""
        match action:
            case UpdateStatus():
                await self._update_status(action, o.migration)
            case PatchPod():
                await self.patch_pod(action)
            case CreatePod():
                await self._create_pod(action, o)
            case DeletePod():
                await self.delete_pod(action)
            case EvictPod():
                await self._evict(action)
            case CreateBudget():
                await self._create_budget(action)
            case DeleteBudget():
                await self.delete_budget(action)
            case DeleteMigration():
                metadata = o.migration.metadata
                path = object_path(MIGRATION, metadata.key)
                await self._server.delete(path, uid=metadata.uid)
                self._migrations.forget(metadata.key)

    async def _evict(self, action: EvictPod) -> None:
        """Evict the old pod, if nobody has changed it since.

        The end of an attempt writes on the pod, so that an eviction which is still on its way, for
        example one that a controller had sent before it was killed, is rejected from then on.
        """
        metadata = action.pod.metadata
        await self._server.evict(
            metadata.key,
            uid=metadata.uid,
            version=metadata.resource_version,
            grace_seconds=action.grace_seconds,
        )

    async def patch_pod(self, action: PatchPod) -> None:
        """Patch a pod, if nobody has changed it since."""
        metadata = action.pod.metadata
        version = {"resourceVersion": metadata.resource_version, "uid": metadata.uid}
        patch = {**action.patch, "metadata": {**action.patch.get("metadata", {}), **version}}
        path = object_path(POD, metadata.key, action.subresource)
        how = Patch.STRATEGIC if action.is_strategic else Patch.MERGE
        answer = await self._server.patch(path, patch, how)
        self._pods.record(answer.decode(MovingPod))

    async def delete_pod(self, action: DeletePod) -> None:
        """Delete a pod that a migration has created, if nobody has changed it since."""
        metadata = action.pod.metadata
        self._pods.forget(metadata.key)
        await self._server.delete(
            object_path(POD, metadata.key), uid=metadata.uid, version=metadata.resource_version
        )

    async def delete_budget(self, action: DeleteBudget) -> None:
        """Delete a temporary disruption budget, if it still exists."""
        try:
            await self._server.delete(object_path(BUDGET, action.key), uid=action.uid)
        except NotFound:
            return

    async def _update_status(self, action: UpdateStatus, migration: Migration) -> None:
        path = object_path(MIGRATION, migration.key, "status")
        answer = await self._server.patch(path, status_patch(migration, action.status))
        self._migrations.record(answer.decode(Migration))

    async def _create_pod(self, action: CreatePod, o: Observation) -> None:
        """Create the new pod, if the Migration is unchanged.

        It is read once more: a process that was suspended since the decision would otherwise
        create a pod of an attempt that others have given up.
        """
        body = action.body
        if action.copy_of is not None:
            body = await self._copy(action.copy_of, o)
        current = await self._server.get(object_path(MIGRATION, o.migration.key), Migration)
        if current.metadata.resource_version != o.migration.metadata.resource_version:
            self._migrations.record(current)
            raise Conflict("POST pods", f"Migration {o.migration.key} was changed meanwhile")
        path = collection_path(POD, o.migration.metadata.namespace)
        try:
            answer = await self._server.create(path, body)
        except AlreadyExists:
            self._pods.forget(f"{o.migration.metadata.namespace}/{body['metadata']['name']}")
            return
        self._pods.record(answer.decode(MovingPod))

    async def _copy(self, pod: MovingPod, o: Observation) -> dict[str, Any]:
        raw = await self._server.get(object_path(POD, pod.key), msgspec.Raw)
        return gated_copy(o.migration, without_nulls(msgspec.json.decode(raw)), pod, o.now)

    async def _create_budget(self, action: CreateBudget) -> None:
        namespace = action.body["metadata"]["namespace"]
        try:
            await self._server.create(collection_path(BUDGET, namespace), action.body)
        except AlreadyExists:
            return
