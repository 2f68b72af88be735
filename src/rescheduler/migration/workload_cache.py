"""Workloads with their pod templates. A template is read from the server only when it changes."""

from typing import Any

import msgspec

from rescheduler.errors import NotFound
from rescheduler.kube.api_server import ApiServer, object_path
from rescheduler.kube.watch_events import decoder_of
from rescheduler.migration.migration_object import WorkloadReference
from rescheduler.migration.workload_objects import (
    LabelMapSelector,
    ObservedWorkload,
    RawPodTemplate,
    WorkloadObject,
)
from rescheduler.model.kinds import (
    DEPLOYMENT,
    JOB,
    REPLICA_SET,
    REPLICATION_CONTROLLER,
    STATEFUL_SET,
    Kind,
)
from rescheduler.model.objects import Deployment, Identity, LabelSelector, OwnerReference
from rescheduler.model.tables.cluster_tables import ClusterTables

ADOPTING_KINDS: dict[str, Kind[Any]] = {
    "ReplicaSet": REPLICA_SET,
    "ReplicationController": REPLICATION_CONTROLLER,
}
REPLACING_KINDS: dict[str, Kind[Any]] = {**ADOPTING_KINDS, "StatefulSet": STATEFUL_SET, "Job": JOB}
MAX_TEMPLATES = 1000

Owner = OwnerReference | WorkloadReference
"""The controller of a pod: as the pod names it, or as a Migration remembers it."""


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
        if workload is not None and workload.metadata.uid != uid:
            # An earlier one of that name proves nothing: the watch may lag behind.
            workload = None
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
        deployment, lost = None, ""
        # Custom resources may have that name, too.
        if owner is not None and owner.kind == "Deployment" and is_of_apps(owner.api_version):
            deployment = await self._deployment(f"{namespace}/{owner.name}", owner.uid)
            lost = owner.name if deployment is None else ""
        return ObservedWorkload(kind, workload, selector, template, deployment, lost)

    def ending(self, namespace: str, owner: Owner, observed: ObservedWorkload | None) -> str:
        """Why a pod's controller would not replace it; empty if it would, or nobody knows.

        One that is being deleted creates no more pods, and its own are deleted soon. Or it leaves
        them behind: then they change, and have no controller any more.
        """
        if observed is not None:
            return observed.ending
        kind = REPLACING_KINDS.get(owner.kind)
        # Custom resources may have the same name.
        if kind is None or owner.api_version != kind.api_version:
            return ""
        key = f"{namespace}/{owner.name}"
        if kind in ADOPTING_KINDS.values():
            # The server was asked for it.
            return f"{owner.kind} {owner.name} no longer exists"
        found = self._tables.of(kind).get(key)
        if found is None or found.metadata.uid != owner.uid:
            return ""
        is_deleting = found.metadata.deletion_timestamp is not None
        return f"{owner.kind} {owner.name} is being deleted" if is_deleting else ""

    async def _deployment(self, key: str, uid: str) -> Deployment | None:
        found: Deployment | None = self._tables.of(DEPLOYMENT).get(key)
        # An earlier one of that name proves nothing: the watch may lag behind.
        if found is None or found.metadata.uid != uid:
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
