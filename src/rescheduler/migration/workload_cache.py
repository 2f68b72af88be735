"""Workloads with their pod templates. A template is read from the server only when it changes."""

from typing import Any

import msgspec

from rescheduler.errors import NotFound
from rescheduler.kube.api_server import ApiServer, object_path
from rescheduler.kube.watch_events import decoder_of
from rescheduler.migration.workload_objects import (
    LabelMapSelector,
    ObservedWorkload,
    RawPodTemplate,
    WorkloadObject,
)
from rescheduler.model.kinds import DEPLOYMENT, REPLICA_SET, REPLICATION_CONTROLLER, Kind
from rescheduler.model.objects import Deployment, Identity, LabelSelector
from rescheduler.model.tables.cluster_tables import ClusterTables

ADOPTING_KINDS: dict[str, Kind[Any]] = {
    "ReplicaSet": REPLICA_SET,
    "ReplicationController": REPLICATION_CONTROLLER,
}
MAX_TEMPLATES = 1000


class WorkloadCache:
    """Finds the workload of a pod. Tables hold no templates, so these are read and cached."""

    def __init__(self, server: ApiServer, tables: ClusterTables) -> None:
        self._server = server
        self._tables = tables
        self._templates: dict[tuple[str, int], tuple[RawPodTemplate, LabelSelector]] = {}

    async def get(self, namespace: str, kind: str, name: str, uid: str) -> ObservedWorkload | None:
        """The workload; None if it does not exist or is of a kind that adopts no pods."""
        if kind not in ADOPTING_KINDS:
            return None
        key = f"{namespace}/{name}"
        workload = self._tables.of(ADOPTING_KINDS[kind]).get(key)
        if workload is None or template_version(workload.metadata) not in self._templates:
            raw = await self._read(ADOPTING_KINDS[kind], key)
            if raw is None:
                return None
            workload = decoder_of(ADOPTING_KINDS[kind].type).decode(raw)
            self._cache_template(kind, raw)
        if workload.metadata.uid != uid:
            return None
        template, selector = self._templates[template_version(workload.metadata)]
        owner = workload.metadata.controller
        deployment = None
        # Custom resources may have that name, too.
        if owner is not None and owner.kind == "Deployment" and is_of_apps(owner.api_version):
            deployment = await self._deployment(f"{namespace}/{owner.name}", owner.uid)
            if deployment is None:
                return None
        return ObservedWorkload(kind, workload, selector, template, deployment)

    async def _deployment(self, key: str, uid: str) -> Deployment | None:
        found: Deployment | None = self._tables.of(DEPLOYMENT).get(key)
        if found is None:
            raw = await self._read(DEPLOYMENT, key)
            found = decoder_of(Deployment).decode(raw) if raw is not None else None
        return found if found is not None and found.metadata.uid == uid else None

    async def _read(self, kind: Kind[Any], key: str) -> msgspec.Raw | None:
        try:
            return await self._server.get(object_path(kind, key), msgspec.Raw)
        except NotFound:
            return None

    def _cache_template(self, kind: str, raw: msgspec.Raw) -> None:
        workload = decoder_of(WorkloadObject).decode(raw)
        selector = workload.spec.selector or LabelSelector()
        if kind == "ReplicationController":
            label_map = decoder_of(LabelMapSelector).decode(raw)
            selector = LabelSelector(match_labels=label_map.spec.selector)
        if len(self._templates) >= MAX_TEMPLATES:
            self._templates.clear()
        template = workload.spec.template
        # A copy of the spec, or it would keep the whole object in memory.
        template = msgspec.structs.replace(template, spec=template.spec.copy())
        self._templates[template_version(workload.metadata)] = template, selector


def is_of_apps(api_version: str) -> bool:
    """Whether an owner is of the API group of Deployments."""
    return api_version.startswith("apps/")


def template_version(metadata: Identity) -> tuple[str, int]:
    """A value that changes whenever the template of a workload changes."""
    return metadata.uid, metadata.generation
