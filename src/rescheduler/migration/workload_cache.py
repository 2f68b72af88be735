"""The workloads that pods belong to, with their templates, which are read only when they change."""

from typing import Any

import msgspec

from rescheduler.errors import NotFound
from rescheduler.kube.api_server import ApiServer, object_path
from rescheduler.migration.state_machine.observation import ObservedWorkload
from rescheduler.migration.workload_objects import PlainSelector, PodTemplate, WorkloadObject
from rescheduler.model.kinds import DEPLOYMENT, REPLICA_SET, REPLICATION_CONTROLLER, Kind
from rescheduler.model.objects import Deployment, Identity, LabelSelector
from rescheduler.model.tables.cluster_tables import ClusterTables

KINDS: dict[str, Kind[Any]] = {
    "ReplicaSet": REPLICA_SET,
    "ReplicationController": REPLICATION_CONTROLLER,
}
REMEMBERED = 1000


class WorkloadCache:
    """Finds workloads by reference. Tables have no templates, so these are asked for."""

    def __init__(self, server: ApiServer, tables: ClusterTables) -> None:
        self._server = server
        self._tables = tables
        self._templates: dict[tuple[str, int], tuple[PodTemplate, LabelSelector]] = {}

    async def get(self, namespace: str, kind: str, name: str, uid: str) -> ObservedWorkload | None:
        """The workload, or None if there is none or it is of a kind that adopts no pods."""
        if kind not in KINDS:
            return None
        key = f"{namespace}/{name}"
        owner = self._tables.of(KINDS[kind]).get(key)
        if owner is None or version(owner.metadata) not in self._templates:
            raw = await self._raw(KINDS[kind], key)
            if raw is None:
                return None
            owner = msgspec.json.decode(raw, type=KINDS[kind].type)
            self._remember(kind, raw)
        if owner.metadata.uid != uid:
            return None
        template, selector = self._templates[version(owner.metadata)]
        above = owner.metadata.controller
        deployment = None
        if above is not None and above.kind == "Deployment":
            deployment = await self._deployment(f"{namespace}/{above.name}", above.uid)
            if deployment is None:
                return None
        return ObservedWorkload(kind, owner, selector, template, deployment)

    async def _deployment(self, key: str, uid: str) -> Deployment | None:
        found: Deployment | None = self._tables.of(DEPLOYMENT).get(key)
        if found is None:
            raw = await self._raw(DEPLOYMENT, key)
            found = msgspec.json.decode(raw, type=Deployment) if raw is not None else None
        return found if found is not None and found.metadata.uid == uid else None

    async def _raw(self, kind: Kind[Any], key: str) -> msgspec.Raw | None:
        try:
            return await self._server.get(object_path(kind, key), msgspec.Raw)
        except NotFound:
            return None

    def _remember(self, kind: str, raw: msgspec.Raw) -> None:
        owner = msgspec.json.decode(raw, type=WorkloadObject)
        selector = owner.spec.selector or LabelSelector()
        if kind == "ReplicationController":
            plain = msgspec.json.decode(raw, type=PlainSelector)
            selector = LabelSelector(match_labels=plain.spec.selector)
        if len(self._templates) >= REMEMBERED:
            self._templates.clear()
        template = msgspec.structs.replace(
            owner.spec.template, spec=owner.spec.template.spec.copy()
        )
        self._templates[version(owner.metadata)] = template, selector


def version(metadata: Identity) -> tuple[str, int]:
    """What changes whenever a template does."""
    return metadata.uid, metadata.generation
