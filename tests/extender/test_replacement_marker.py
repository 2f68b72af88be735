"""Marks are written only to pods that the API server has as replacements."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import msgspec

from rescheduler.extender.replacement_marker import ReplacementMarker
from rescheduler.labels import MIGRATION_ID, MIGRATION_STATUS
from rescheduler.migration.migration_object import (
    Migration,
    MigrationMeta,
    MigrationSpec,
    MigrationStatus,
    Phase,
    PodReference,
    Step,
    WorkloadReference,
)
from rescheduler.migration.moving_pod import PodMeta
from rescheduler.model.moves import Mode
from testcluster.builders import owner_reference, pod
from testcluster.client import JsonObject
from tests.migration.support import Sandbox, client_for


class Marking:
    """A migration that waits for a pod of a workload, and pods that nobody schedules."""

    def __init__(self, sandbox: Sandbox, marker: ReplacementMarker) -> None:
        self.sandbox = sandbox
        self.marker = marker
        self.target, self.other = sandbox.add_nodes("target", "other", managed=False)
        self.owner = self.workload("web")
        workload = WorkloadReference("CloneSet", "web", self.owner["uid"])
        status = MigrationStatus(
            phase=Phase.IN_PROGRESS, step=Step.LANDING, mode=Mode.EVICT, workload=workload
        )
        self.migration = Migration(
            MigrationMeta(name="move", namespace=sandbox.namespace, uid="uid-of-move"),
            MigrationSpec(PodReference("old", "uid-of-old"), self.target),
            status,
        )

    def workload(self, name: str) -> JsonObject:
        """The owner reference of a custom resource, whose controller does nothing."""
        metadata = {"name": name, "uid": f"uid-of-{name}-in-{self.sandbox.namespace}"}
        owner = {"apiVersion": "example.com/v1", "kind": "CloneSet", "metadata": metadata}
        return owner_reference(owner)

    def pod(self, name: str, *owners: JsonObject, **options: Any) -> JsonObject:
        """A pod as the server has it."""
        body = pod(f"{self.sandbox.namespace}/{name}", schedulerName="nobody", **options)
        body["metadata"]["ownerReferences"] = list(owners)
        return self.sandbox.outside.create(self.sandbox.path("pods"), body)

    def ask_for(self, body: JsonObject, **claims: Any) -> None:
        """The scheduler asks about a pod, and says this of its metadata."""
        metadata = {**body["metadata"], "ownerReferences": [self.owner], **claims}
        self.marker.mark(msgspec.convert(metadata, PodMeta), self.migration)

    async def until_marked(self, name: str) -> None:
        await self.sandbox.until(lambda: self.mark_of(name), f"{name} is marked")

    def mark_of(self, name: str) -> dict[str, str]:
        found = self.sandbox.pod(name)
        assert found is not None
        labels = found["metadata"].get("labels", {})
        return {key: labels[key] for key in (MIGRATION_ID, MIGRATION_STATUS) if key in labels}


@asynccontextmanager
async def marking_in(sandbox: Sandbox) -> AsyncIterator[Marking]:
    async with client_for(sandbox.cluster) as client:
        marker = ReplacementMarker(client, lambda: datetime.now(UTC))
        running = asyncio.create_task(marker.run())
        try:
            yield Marking(sandbox, marker)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def test_only_a_pod_of_the_workload_is_marked(sandbox: Sandbox) -> None:
    """Whatever a request says: marks are written in turn, so the last one shows that all are."""
    async with marking_in(sandbox) as marking:
        bare = marking.pod("bare")
        others = marking.pod("others", marking.workload("another"))
        elsewhere = marking.pod("elsewhere", marking.owner, on=marking.other)
        recreated = marking.pod("recreated", marking.owner)
        for body in (bare, others, elsewhere):
            marking.ask_for(body)
        marking.ask_for(recreated, uid="uid-of-an-earlier-one")
        marking.ask_for(marking.pod("replacement", marking.owner))
        await marking.until_marked("replacement")
        for body in (bare, others, elsewhere, recreated):
            assert not marking.mark_of(body["metadata"]["name"])


async def test_a_replacement_that_is_bound_to_the_target_meanwhile_is_marked(
    sandbox: Sandbox,
) -> None:
    async with marking_in(sandbox) as marking:
        marking.ask_for(marking.pod("replacement", marking.owner, on=marking.target))
        await marking.until_marked("replacement")
