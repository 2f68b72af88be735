"""Who pods belong to: the owner that keeps them running, and how many of them it wants.

A file may hold nodes and pods and nothing else. Owners of a kind that is not listed at all are
taken on trust, and their replicas are counted.
"""

from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from typing import NamedTuple

import numpy as np

from rescheduler.model.objects import (
    Deployment,
    Job,
    OwnerReference,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from rescheduler.model.rules.immovable_pods import is_job
from rescheduler.model.snapshot import Snapshot

_Owner = ReplicaSet | ReplicationController | StatefulSet | Job


class _Listed(NamedTuple):
    """The owners of one kind that a snapshot has."""

    api_group: str
    by_key: Mapping[str, _Owner]


_NONE_LISTED = _Listed("", {})


class WorkloadOwners:
    """The owners of the pods of a snapshot, asked for by template."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._listed: dict[str, _Listed] = {
            "ReplicaSet": _Listed("apps/", snapshot.replica_sets),
            "StatefulSet": _Listed("apps/", snapshot.stateful_sets),
            "ReplicationController": _Listed("v1", snapshot.replication_controllers),
            "Job": _Listed("batch/", snapshot.jobs),
        }

    @cached_property
    def names(self) -> list[str]:
        """`ReplicaSet/shop/web` for each template; empty for that of bare pods."""
        return [
            "" if pod.owner is None else f"{pod.owner.kind}/{pod.namespace}/{pod.owner.name}"
            for pod in self._snapshot.templates
        ]

    @cached_property
    def workloads(self) -> list[str]:
        """`Deployment/shop/web` for each template: its owner, or what a ReplicaSet belongs to."""
        above = [
            owner.metadata.controller if isinstance(owner, ReplicaSet) else None
            for owner in self._owners
        ]
        return [
            name if owner is None else f"{owner.kind}/{pod.namespace}/{owner.name}"
            for name, owner, pod in zip(self.names, above, self._snapshot.templates, strict=True)
        ]

    def is_job(self, template: int) -> bool:
        """Whether such pods belong to a Job of Kubernetes; custom resources have that name too."""
        owner = self._snapshot.templates[template].owner
        return owner is not None and is_job(owner.kind, owner.api_version)

    @cached_property
    def replicas(self) -> list[int]:
        """How many pods the owner of each template wants or, if that is not known, has."""
        return [
            owner.spec.replicas
            if owner is not None and not isinstance(owner, Job) and owner.spec.replicas is not None
            else self._count(template)
            for template, owner in enumerate(self._owners)
        ]

    def ending(self, template: int) -> str:
        """Why the owner of such pods would not replace one; empty if it would.

        An owner that is being deleted creates no more pods. Nor does a ReplicaSet for long whose
        Deployment is gone; without a Deployment in its references it is like any other.
        """
        reference = self._snapshot.templates[template].owner
        if reference is None:
            return ""
        owner = self._owners[template]
        name = f"{reference.kind} {reference.name}"
        if is_missing(reference, owner, self._listed_with(reference)):
            return f"its owner {name} is gone"
        if owner is not None and owner.metadata.deletion_timestamp is not None:
            return f"its owner {name} is being deleted"
        return self._ending_of_deployment(owner) if isinstance(owner, ReplicaSet) else ""

    def _ending_of_deployment(self, replica_set: ReplicaSet) -> str:
        above, deployments = replica_set.metadata.controller, self._snapshot.deployments
        # Custom resources may have that name, too.
        if above is None or above.kind != "Deployment" or not above.api_version.startswith("apps/"):
            return ""
        deployment = deployments.get(f"{replica_set.metadata.namespace}/{above.name}")
        if is_missing(above, deployment, deployments):
            return f"its Deployment {above.name} is gone"
        if deployment is not None and deployment.metadata.deletion_timestamp is not None:
            return f"its Deployment {above.name} is being deleted"
        return ""

    def deployment(self, template: int) -> str:
        """The key of the Deployment behind the ReplicaSet of such pods; empty if there is none."""
        owner = self._owners[template]
        above = owner.metadata.controller if isinstance(owner, ReplicaSet) else None
        if owner is None or above is None or above.kind != "Deployment":
            return ""
        return f"{owner.metadata.namespace}/{above.name}"

    @cached_property
    def _owners(self) -> list[_Owner | None]:
        """The owner of each template, if it has one that is listed."""
        return [
            None
            if pod.owner is None
            else self._listed_with(pod.owner).get(f"{pod.namespace}/{pod.owner.name}")
            for pod in self._snapshot.templates
        ]

    def _listed_with(self, owner: OwnerReference) -> Mapping[str, _Owner]:
        """The owners among which this one would be; none for custom kinds."""
        api_group, by_key = self._listed.get(owner.kind, _NONE_LISTED)
        is_ours = not owner.api_version or owner.api_version.startswith(api_group)
        return by_key if is_ours else {}

    def _count(self, template: int) -> int:
        if self._snapshot.templates[template].owner is None:
            return 1
        return self._pods_of[self._identities[template]]

    @cached_property
    def _pods_of(self) -> Counter[str]:
        """How many pods each owner has that are neither finished nor being deleted."""
        pods = self._snapshot.pods
        alive = ~(pods.finished | pods.deleting)
        per_template = np.bincount(pods.template[alive], minlength=len(self._snapshot.templates))
        counts: Counter[str] = Counter()
        for identity, count in zip(self._identities, per_template.tolist(), strict=True):
            counts[identity] += count
        return counts

    @cached_property
    def _identities(self) -> list[str]:
        """The owner of each template by its uid or, as files may leave those out, by its name.

        Always in the namespace of its pods: in another one, anyone may name it as an owner.
        """
        return [
            f"{pod.namespace}/{pod.owner.uid}" if pod.owner is not None and pod.owner.uid else name
            for pod, name in zip(self._snapshot.templates, self.names, strict=True)
        ]


def is_missing(
    reference: OwnerReference, found: _Owner | Deployment | None, listed: Mapping[str, object]
) -> bool:
    """Whether an owner should be there and is not, given all that are listed of its kind."""
    if found is None:
        return bool(listed)
    # Another one of the same name does not know these pods.
    return reference.uid != found.metadata.uid and bool(reference.uid and found.metadata.uid)
