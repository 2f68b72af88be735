"""Do what the machine says: one write for each action, and nothing else.

Each write is refused by the server unless the object is still as it was seen, so each may be
sent twice, late, or by two controllers. Errors are left to the caller, who looks again.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from rescheduler.errors import AlreadyExists, Conflict, NotFound
from rescheduler.kube.api_server import ApiServer, collection_path, object_path
from rescheduler.migration.migration_object import MIGRATION, Migration
from rescheduler.migration.moving_pod import MovingPod
from rescheduler.migration.new_pod import copy_of
from rescheduler.migration.read_your_writes import ReadYourWrites
from rescheduler.migration.state_machine.actions import (
    CreateBudget,
    CreatePod,
    DeleteBudget,
    DeletePod,
    EvictPod,
    Forget,
    PatchPod,
    Record,
    Write,
)
from rescheduler.migration.state_machine.observation import Observation
from rescheduler.migration.state_machine.status_transitions import status_patch
from rescheduler.model.kinds import BUDGET, POD

Reached = Callable[[str, str], None]


def ignore(point: str, migration: str) -> None:
    """Nobody wants to know how far we are."""


class Executor:
    """Carries out actions. `reached` is told before and after each write, by name."""

    def __init__(
        self,
        server: ApiServer,
        migrations: ReadYourWrites[Migration],
        pods: ReadYourWrites[MovingPod],
        reached: Reached = ignore,
    ) -> None:
        self._server = server
        self._migrations = migrations
        self._pods = pods
        self._reached = reached

    async def carry_out(self, action: Write, o: Observation) -> None:
        """Do one thing."""
        self._reached(f"before-{action.name}", o.migration.key)
        await self._do(action, o)
        self._reached(f"after-{action.name}", o.migration.key)

    async def _do(self, action: Write, o: Observation) -> None:
        match action:
            case Record():
                await self._record(action, o.migration)
            case PatchPod():
                await self.patch(action)
            case CreatePod():
                await self._create(action, o)
            case DeletePod():
                await self.delete(action)
            case EvictPod():
                await self._evict(action)
            case CreateBudget():
                await self._create_budget(action)
            case DeleteBudget():
                await self.delete_budget(action)
            case Forget():
                metadata = o.migration.metadata
                path = object_path(MIGRATION, metadata.key)
                await self._server.delete(path, uid=metadata.uid)
                self._migrations.forget(metadata.key)

    async def _evict(self, action: EvictPod) -> None:
        pod = action.pod
        version = pod.metadata.resource_version if action.only_as_seen else ""
        await self._server.evict(
            pod.key, uid=pod.uid, version=version, grace_seconds=action.grace_seconds
        )

    async def patch(self, action: PatchPod) -> None:
        """Change a pod's metadata."""
        metadata = action.pod.metadata
        version = {"resourceVersion": metadata.resource_version, "uid": metadata.uid}
        patch = {"metadata": {**action.patch["metadata"], **version}}
        answer = await self._server.patch(object_path(POD, metadata.key), patch)
        self._pods.see(answer.decode(MovingPod))

    async def delete(self, action: DeletePod) -> None:
        """Delete a pod that was made here."""
        metadata = action.pod.metadata
        self._pods.forget(metadata.key)
        await self._server.delete(
            object_path(POD, metadata.key), uid=metadata.uid, version=metadata.resource_version
        )

    async def delete_budget(self, action: DeleteBudget) -> None:
        """Delete a temporary budget."""
        try:
            await self._server.delete(object_path(BUDGET, action.key), uid=action.uid)
        except NotFound:
            return

    async def _record(self, action: Record, migration: Migration) -> None:
        path = object_path(MIGRATION, migration.key, "status")
        answer = await self._server.patch(path, status_patch(migration, action.status))
        self._migrations.see(answer.decode(Migration))

    async def _create(self, action: CreatePod, o: Observation) -> None:
        """Make the new pod.

        Only for the Migration as it is now: someone who has slept since the decision would bring
        back a pod of an attempt that others have given up.
        """
        body = action.body
        if action.copy_of is not None:
            body = await self._copied(action.copy_of, o)
        current = await self._server.get(object_path(MIGRATION, o.migration.key), Migration)
        if current.metadata.resource_version != o.migration.metadata.resource_version:
            self._migrations.see(current)
            raise Conflict("POST pods", f"Migration {o.migration.key} was changed meanwhile")
        path = collection_path(POD, o.migration.metadata.namespace)
        try:
            answer = await self._server.create(path, body)
        except AlreadyExists:
            self._pods.forget(f"{o.migration.metadata.namespace}/{body['metadata']['name']}")
            return
        self._pods.see(answer.decode(MovingPod))

    async def _copied(self, pod: MovingPod, o: Observation) -> dict[str, Any]:
        raw = await self._server.get(object_path(POD, pod.key), msgspec.Raw)
        return copy_of(o.migration, msgspec.json.decode(raw), pod, o.now)

    async def _create_budget(self, action: CreateBudget) -> None:
        namespace = action.body["metadata"]["namespace"]
        try:
            await self._server.create(collection_path(BUDGET, namespace), action.body)
        except AlreadyExists:
            return
