"""Is a workload whole: are all its pods Ready, and none missing?

A workload that lacks a pod must not lose another one, whether or not a disruption budget says so.
All ReplicaSets of a Deployment, or of a custom resource such as a Rollout, are one workload.

Pods of a Job are left out. Each does its own part of the work, and serves nobody: whether the
others are Ready says nothing about it, and those that are missing may have finished.
"""

from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from typing import NamedTuple

import numpy as np

from rescheduler.model.objects import (
    Deployment,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from rescheduler.model.snapshot import UNKNOWN_NODE, Bools, Snapshot
from rescheduler.planning.movability.workload_owners import WorkloadOwners

_Scalable = Deployment | ReplicaSet | ReplicationController | StatefulSet


class _PodCounts(NamedTuple):
    """By workload."""

    active: Counter[str]
    """Pods that are neither finished nor being deleted."""
    ready: Counter[str]
    """Those of them that are Ready."""
    terminating: Counter[str]
    """Pods that are being deleted and have not finished."""


class WorkloadHealth:
    """Whether the workloads of a snapshot are whole, asked for by template."""

    def __init__(
        self, snapshot: Snapshot, owners: WorkloadOwners, unreplaced_from: Mapping[str, int]
    ) -> None:
        """`unreplaced_from`: how many pods workloads had before one was not replaced."""
        self._snapshot = snapshot
        self._owners = owners
        self._unreplaced_from = unreplaced_from
        self._listed: dict[str, Mapping[str, _Scalable]] = {
            "Deployment": snapshot.deployments,
            "ReplicaSet": snapshot.replica_sets,
            "ReplicationController": snapshot.replication_controllers,
            "StatefulSet": snapshot.stateful_sets,
        }

    def shortage(self, template: int) -> str | None:
        """What the workload of such pods lacks, or None if it is whole or has none to lack.

        Of a custom resource only the pods are known, not how many it wants. So those that are being
        deleted count, and those that were not replaced after an eviction.
        """
        workload = self._owners.workloads[template]
        if not workload or self._owners.is_job(template):
            return None
        ready, active = self._counts.ready[workload], self._counts.active[workload]
        kind, _, key = workload.partition("/")
        expected = max(self._desired(workload), active)
        if kind not in self._listed and not self._desired(workload):
            with_terminating = active + self._counts.terminating[workload]
            expected = max(with_terminating, self._unreplaced_from.get(workload, 0))
        if ready >= expected:
            return None
        return f"{kind} {key} has {ready} of {expected} pods Ready"

    @cached_property
    def _counts(self) -> _PodCounts:
        pods = self._snapshot.pods
        active = ~(pods.finished | pods.deleting)
        terminating = pods.deleting & ~pods.finished
        # What a pod last said of itself does not count once its node is gone.
        ready = active & pods.ready & (pods.node != UNKNOWN_NODE)
        return _PodCounts(self._count(active), self._count(ready), self._count(terminating))

    def _count(self, chosen: Bools) -> Counter[str]:
        templates = self._snapshot.pods.template[chosen]
        per_template = np.bincount(templates, minlength=len(self._snapshot.templates))
        counts: Counter[str] = Counter()
        for workload, count in zip(self._owners.workloads, per_template.tolist(), strict=True):
            counts[workload] += count
        return counts

    def _desired(self, workload: str) -> int:
        """How many pods a workload wants; 0 if that is not known."""
        kind, _, key = workload.partition("/")
        owner = self._listed.get(kind, {}).get(key)
        if owner is not None and owner.spec.replicas is not None:
            return owner.spec.replicas
        return self._desired_by_replica_sets[workload]

    @cached_property
    def _desired_by_replica_sets(self) -> Counter[str]:
        """What the ReplicaSets of a custom resource want together; nobody lists the resource."""
        desired: Counter[str] = Counter()
        for replica_set in self._snapshot.replica_sets.values():
            above = replica_set.metadata.controller
            if above is not None and replica_set.spec.replicas:
                name = f"{above.kind}/{replica_set.metadata.namespace}/{above.name}"
                desired[name] += replica_set.spec.replicas
        return desired
