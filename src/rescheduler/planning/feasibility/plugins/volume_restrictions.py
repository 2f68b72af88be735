"""VolumeRestrictions: a disk that cannot be shared must not be in use.

Two things are looked at. A claim with the access mode ReadWriteOncePod may be used by one pod in
the whole cluster, so while one uses it there is no node for another. And some disks named in the
pod itself, without a claim, may not be mounted twice on one node: an EBS disk never, a GCE disk,
an iSCSI disk or a Ceph image only if everyone just reads it.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from rescheduler.model.objects import Volume
from rescheduler.model.pod_templates import PodTemplate
from rescheduler.model.snapshot import Bools, Snapshot
from rescheduler.planning.feasibility.filter_plugin import SharedLister
from rescheduler.planning.feasibility.volume_claims import NO_CLAIM, add_to, claim_keys


class Mount(NamedTuple):
    """A disk that a pod names, and whether it only reads it."""

    disk: str
    read_only: bool


class VolumeRestrictions:
    """Refuses nodes where a disk is in use, and all nodes while a claim for one pod is."""

    name = "VolumeRestrictions"

    def __init__(self, lister: SharedLister) -> None:
        self._lister = lister
        self._everywhere: Bools = np.ones(len(lister.snapshot.nodes), bool)
        self._mounts: list[tuple[Mount, ...]] = []
        self._claims: list[tuple[str, ...]] = []
        self._exclusive: list[tuple[str, ...]] = []
        # How many placed pods use a claim, and a disk by node and by how they mount it.
        self._claim_users: dict[str, int] = {}
        self._disk_users: dict[str, dict[tuple[int, bool], int]] = defaultdict(dict)
        for template in range(len(lister.snapshot.templates)):
            self.add_template(template)

    def add_template(self, template: int) -> None:
        """Prepare for a template that was not there before."""
        snapshot = self._lister.snapshot
        claims = claim_keys(snapshot.templates[template])
        self._mounts.append(mounts(snapshot.templates[template]))
        self._claims.append(claims)
        self._exclusive.append(exclusive_claims(snapshot, claims))

    def refused(self, template: int) -> Bools | None:
        if self._obstacle(template) is not None:
            return self._everywhere
        taken = [
            node for mount in self._mounts[template] for node in self._nodes_in_conflict(mount)
        ]
        if not taken:
            return None
        refused = np.zeros(len(self._lister.snapshot.nodes), bool)
        refused[taken] = True
        return refused

    def reason(self, template: int, node: int) -> str:
        obstacle = self._obstacle(template)
        if obstacle is not None:
            return obstacle
        for mount in self._mounts[template]:
            if node in self._nodes_in_conflict(mount):
                return f"{mount.disk} is in use by another pod on the node"
        raise AssertionError("asked why of a node that is not refused")

    def count_pods(self, template: int, node: int, count: int, terminating: bool) -> None:
        """Pods of this template came to the node, or left it if `count` is negative."""
        for claim in self._exclusive[template]:
            add_to(self._claim_users, claim, count)
        for mount in self._mounts[template]:
            add_to(self._disk_users[mount.disk], (node, mount.read_only), count)

    def _obstacle(self, template: int) -> str | None:
        """What keeps the pod from every node."""
        for claim in self._claims[template]:
            if claim not in self._lister.snapshot.claims:
                return NO_CLAIM.format(claim)
        for claim in self._exclusive[template]:
            if claim in self._claim_users:
                return f"claim {claim} is for one pod at a time, and another pod uses it"
        return None

    def _nodes_in_conflict(self, mount: Mount) -> list[int]:
        users = self._disk_users.get(mount.disk, {})
        return [node for node, read_only in users if not (read_only and mount.read_only)]


def exclusive_claims(snapshot: Snapshot, keys: Iterable[str]) -> tuple[str, ...]:
    """Those of the claims that one pod at a time may use."""
    return tuple(
        key
        for key in keys
        if key in snapshot.claims and "ReadWriteOncePod" in snapshot.claims[key].spec.access_modes
    )


def mounts(template: PodTemplate) -> tuple[Mount, ...]:
    """Disks that the template names itself and that cannot be freely shared."""
    return tuple(mount for volume in template.volumes for mount in _mounts(volume))


def _mounts(volume: Volume) -> Iterator[Mount]:
    if (gce := volume.gce_persistent_disk) is not None:
        yield Mount(f"GCE disk {gce.pd_name}", gce.read_only)
    if (ebs := volume.aws_elastic_block_store) is not None:
        yield Mount(f"EBS volume {ebs.volume_id}", read_only=False)
    if (iscsi := volume.iscsi) is not None:
        yield Mount(f"iSCSI disk {iscsi.iqn}", iscsi.read_only)
    if (rbd := volume.rbd) is not None:
        # Images are the same if they share a monitor, so each monitor has its own entry.
        for monitor in rbd.monitors:
            yield Mount(f"Ceph image {rbd.pool}/{rbd.image} at {monitor}", rbd.read_only)
