"""NodeVolumeLimits: a storage driver can attach only so many volumes to a node, if it runs there.

The node's CSINode says how many for each driver; without it, or without a number, there is no
limit. A volume counts once, however many pods on the node use it, and so does an in-tree volume
whose driver a CSI driver has replaced. A claim without a volume counts for the driver that will
make one.

A CSIDriver may ask that its pods stay off nodes where it is not installed
(`preventPodSchedulingIfMissing`). Kubernetes before 1.37 has no such field by default, so that no
CSIDriver there asks for it.

The scheduler also counts volumes that are still attached though no pod on the node uses them any
more. They go away by themselves within seconds, and are not counted here.
"""

from collections import defaultdict
from typing import NamedTuple

import numpy as np

from rescheduler.model.objects import PersistentVolumeClaim
from rescheduler.model.pod_templates import PodTemplate
from rescheduler.model.snapshot import Bools, Int64s, Snapshot
from rescheduler.planning.feasibility.csi_translation import (
    REPLACED_BY,
    replacing_driver,
    translated_handle,
)
from rescheduler.planning.feasibility.filter_plugin import SharedLister
from rescheduler.planning.feasibility.volume_claims import (
    NO_CLAIM,
    NO_CLAIM_YET,
    add_to,
    claim_keys,
    class_of_claim,
    ephemeral_volumes,
)

_UNLIMITED = 2**31
# In-tree drivers whose volumes the scheduler counts neither for them nor for their replacements.
_NEVER_COUNTED = ("kubernetes.io/azure-file", "kubernetes.io/vsphere-volume")


class CsiVolume(NamedTuple):
    """A volume as its driver knows it."""

    driver: str
    handle: str


class ClaimedVolume(NamedTuple):
    """The volume of a claim."""

    volume: CsiVolume
    is_in_tree: bool = False


class VolumeUse(NamedTuple):
    """The volumes that a pod has attached to its node."""

    volumes: frozenset[CsiVolume] = frozenset()
    unclear: str = ""
    """What cannot be counted, if anything: it keeps every further volume from the node."""
    native_drivers: frozenset[str] = frozenset()
    """Drivers of volumes that are not in-tree ones. A node without a CSINode lacks only these: the
    scheduler does not translate in-tree volumes for it."""

    @property
    def drivers(self) -> frozenset[str]:
        """The drivers that attach the volumes."""
        return frozenset(volume.driver for volume in self.volumes)


class NodeVolumeLimits:
    """Refuses nodes that cannot take another volume of a driver."""

    name = "NodeVolumeLimits"

    def __init__(self, lister: SharedLister) -> None:
        self._lister = lister
        self._finder = VolumeUseFinder(lister.snapshot)
        self._uses: dict[int, VolumeUse] = {}
        self._own_uses = self._finder.of_own_claims()
        self._obstacles: dict[int, str] = {}
        for template in range(len(lister.snapshot.templates)):
            self.add_template(template)
        nodes = lister.snapshot.nodes
        self._everywhere: Bools = np.ones(len(nodes), bool)
        self._with_csi_node: Bools = np.array(
            [name in lister.snapshot.csi_nodes for name in nodes.names], bool
        )
        self._installed = _nodes_with_required_drivers(lister.snapshot)
        self._limits = _limits_by_driver(lister.snapshot)
        self._limited: Bools = np.zeros(len(nodes), bool)
        for limit in self._limits.values():
            self._limited |= limit < _UNLIMITED
        # How many placed pods use a volume, by node; and how many volumes that are, by driver.
        self._users: dict[CsiVolume, dict[int, int]] = defaultdict(dict)
        self._attached: dict[str, Int64s] = {
            driver: np.zeros(len(nodes), np.int64) for driver in self._limits
        }
        self._unclear: dict[int, int] = {}
        self._with_own_claims: dict[tuple[int, int], int] = {}

    def add_template(self, template: int) -> None:
        """Prepare for a template that was not there before."""
        newcomer = self._lister.snapshot.templates[template]
        use = self._finder.of_template(newcomer)
        if use != VolumeUse():
            self._uses[template] = use
        obstacle = obstacle_to(newcomer, self._lister.snapshot)
        if obstacle is not None:
            self._obstacles[template] = obstacle

    def refused(self, template: int) -> Bools | None:
        if template in self._obstacles:
            return self._everywhere
        use = self._uses.get(template)
        if use is None:
            return None
        refused = self._with_csi_node.copy() if use.unclear else np.zeros_like(self._limited)
        for driver in use.drivers & self._installed.keys():
            refused |= self._lacks(use, driver)
        for driver in use.drivers & self._limits.keys():
            needed = self._needed(use, driver)
            refused |= (needed > 0) & (self._attached[driver] + needed > self._limits[driver])
        if self._unclear:
            unclear = list(self._unclear)
            refused[unclear] |= self._limited[unclear]
        return refused

    def reason(self, template: int, node: int) -> str:
        if template in self._obstacles:
            return self._obstacles[template]
        use = self._uses[template]
        if use.unclear:
            return use.unclear
        for driver in sorted(use.drivers & self._installed.keys()):
            if self._lacks(use, driver)[node]:
                return f"the node does not have the CSI driver {driver}"
        for driver, limit in self._limits.items():
            needed, attached = self._needed(use, driver)[node], self._attached[driver][node]
            if needed > 0 and attached + needed > limit[node]:
                return (
                    f"{driver} can attach {limit[node]} volumes to the node: {attached} are "
                    f"attached, and the pod needs {needed} more"
                )
        return "it is unclear how many volumes are attached to the node"

    def count_pods(self, template: int, node: int, count: int, terminating: bool) -> None:
        """Pods of this template came to the node, or left it if `count` is negative."""
        if template in self._uses:
            self._count(self._uses[template], node, count)
        own = self._own_uses.get((template, node))
        if own is not None:
            # Which of the pods went is not said; those of one template have equal volumes.
            after = add_to(self._with_own_claims, (template, node), count)
            for use in own[after - count : after] if count > 0 else own[after : after - count]:
                self._count(use, node, 1 if count > 0 else -1)

    def _count(self, use: VolumeUse, node: int, count: int) -> None:
        if use.unclear:
            add_to(self._unclear, node, count)
        for volume in use.volumes:
            if volume.driver in self._limits:
                users = self._users[volume]
                was_attached = node in users
                is_attached = add_to(users, node, count) > 0
                self._attached[volume.driver][node] += is_attached - was_attached

    def _lacks(self, use: VolumeUse, driver: str) -> Bools:
        """The nodes that would need the driver and do not have it."""
        lacking = ~self._installed[driver]
        return lacking if driver in use.native_drivers else lacking & self._with_csi_node

    def _needed(self, use: VolumeUse, driver: str) -> Int64s:
        """How many volumes would have to be attached to each node."""
        volumes = [volume for volume in use.volumes if volume.driver == driver]
        needed = np.full(len(self._lister.snapshot.nodes), len(volumes), np.int64)
        for volume in volumes:
            needed[list(self._users.get(volume, ()))] -= 1
        return needed


class VolumeUseFinder:
    """Finds out which volumes of CSI drivers a pod uses."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._volume_of_claim: dict[str, ClaimedVolume | None] = {}

    def of_template(self, template: PodTemplate) -> VolumeUse:
        """The volumes that all pods of the template use. A claim that is missing uses none."""
        found = [claimed for key in claim_keys(template) if (claimed := self._of_claim(key))]
        volumes = {claimed.volume for claimed in found}
        native = {claimed.volume.driver for claimed in found if not claimed.is_in_tree}
        unclear = ""
        for inline in template.volumes:
            driver = replacing_driver(inline)
            if driver is not None:
                handle = translated_handle(inline, labels={})
                if handle is None:
                    unclear = f"{driver.name} does not know what to make of volume {inline.name}"
                else:
                    volumes.add(CsiVolume(driver.name, handle))
        return VolumeUse(frozenset(volumes), unclear, frozenset(native))

    def of_own_claims(self) -> dict[tuple[int, int], list[VolumeUse]]:
        """What each placed pod uses through claims of its own, by template and node."""
        templates = self._snapshot.templates
        with_own = np.array([bool(ephemeral_volumes(template)) for template in templates], bool)
        pods = self._snapshot.pods
        uses: dict[tuple[int, int], list[VolumeUse]] = defaultdict(list)
        for pod in np.flatnonzero(pods.placed & with_own[pods.template]).tolist():
            template, node = int(pods.template[pod]), int(pods.node[pod])
            uses[template, node].append(self._of_own_claims(pod, templates[template]))
        return uses

    def _of_own_claims(self, pod: int, template: PodTemplate) -> VolumeUse:
        volumes: set[CsiVolume] = set()
        unclear = ""
        for name in ephemeral_volumes(template):
            key = f"{self._snapshot.pods.keys[pod]}-{name}"
            claim = self._snapshot.claims.get(key)
            if claim is not None:
                owner = claim.metadata.controller
                if owner is None or owner.uid != self._snapshot.pods.uids[pod]:
                    unclear = f"claim {key} belongs to someone else"
                elif (claimed := self._of_claim(key)) is not None:
                    volumes.add(claimed.volume)
        return VolumeUse(frozenset(volumes), unclear)

    def _of_claim(self, key: str) -> ClaimedVolume | None:
        if key not in self._volume_of_claim:
            claim = self._snapshot.claims.get(key)
            found = self._look_up(claim) if claim is not None else None
            counts = found is not None and found.volume.driver and found.volume.handle
            self._volume_of_claim[key] = found if counts else None
        return self._volume_of_claim[key]

    def _look_up(self, claim: PersistentVolumeClaim) -> ClaimedVolume | None:
        volume = self._snapshot.volumes.get(claim.spec.volume_name)
        if volume is None:
            return self._yet_to_be_made(claim)
        if volume.spec.csi is not None:
            return ClaimedVolume(CsiVolume(volume.spec.csi.driver, volume.spec.csi.volume_handle))
        driver = replacing_driver(volume.spec)
        if driver is None:
            return None
        handle = translated_handle(volume.spec, volume.metadata.labels)
        if handle is None:
            return None
        return ClaimedVolume(CsiVolume(driver.name, handle), is_in_tree=True)

    def _yet_to_be_made(self, claim: PersistentVolumeClaim) -> ClaimedVolume | None:
        storage_class = self._snapshot.storage_classes.get(class_of_claim(claim))
        if storage_class is None or storage_class.provisioner in _NEVER_COUNTED:
            return None
        replacing = REPLACED_BY.get(storage_class.provisioner)
        driver = replacing.name if replacing is not None else storage_class.provisioner
        # No driver gives a volume such a name, so it is a volume apart from all others.
        volume = CsiVolume(driver, f"(to be made for claim {claim.metadata.key})")
        return ClaimedVolume(volume, is_in_tree=replacing is not None)


def obstacle_to(template: PodTemplate, snapshot: Snapshot) -> str | None:
    """What keeps the template's pods from every node: a claim that is not there."""
    for name in ephemeral_volumes(template):
        return NO_CLAIM_YET.format(name)
    for key in claim_keys(template):
        if key not in snapshot.claims:
            return NO_CLAIM.format(key)
    return None


def _nodes_with_required_drivers(snapshot: Snapshot) -> dict[str, Bools]:
    """By driver that pods must not miss: the nodes on which it is installed.

    Every kubelet creates a CSINode. If there are none, we may not list them, and know nothing.
    """
    if not snapshot.csi_nodes:
        return {}
    installed = [
        {driver.name for driver in snapshot.csi_nodes[name].spec.drivers}
        if name in snapshot.csi_nodes
        else set()
        for name in snapshot.nodes.names
    ]
    return {
        name: np.array([name in drivers for drivers in installed], bool)
        for name, driver in snapshot.csi_drivers.items()
        if driver.spec.prevent_pod_scheduling_if_missing
    }


def _limits_by_driver(snapshot: Snapshot) -> dict[str, Int64s]:
    limits: dict[str, Int64s] = {}
    for node, name in enumerate(snapshot.nodes.names):
        csi_node = snapshot.csi_nodes.get(name)
        for driver in csi_node.spec.drivers if csi_node is not None else ():
            if driver.allocatable is not None and driver.allocatable.count is not None:
                if driver.name not in limits:
                    limits[driver.name] = np.full(len(snapshot.nodes), _UNLIMITED, np.int64)
                limits[driver.name][node] = driver.allocatable.count
    return limits
