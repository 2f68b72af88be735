"""Volumes that nobody uses yet, and which claim would get which of them.

A claim takes the smallest volume that will do. The claims of one pod choose one after the other,
and what one has taken is gone for the next.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rescheduler.model.objects import (
    PersistentVolume,
    PersistentVolumeClaim,
    ResourceList,
)
from rescheduler.model.quantities import nanos
from rescheduler.model.selectors import matches
from rescheduler.model.snapshot import Bools, Snapshot
from rescheduler.planning.feasibility.csi_translation import required_terms
from rescheduler.planning.feasibility.filter_plugin import key_of
from rescheduler.planning.feasibility.volume_claims import (
    VolumeReach,
    class_of_claim,
    class_of_volume,
)

_FILESYSTEM = "Filesystem"


class VolumeTraits(NamedTuple):
    """What a claim can want of a volume. Volumes with equal traits are interchangeable."""

    size_nanos: int
    mode: str
    attributes_class: str
    access_modes: frozenset[str]
    labels: frozenset[tuple[str, str]]

    def is_enough_for(self, claim: PersistentVolumeClaim) -> bool:
        """Whether the claim may have such a volume if it is reserved for it."""
        return (
            self.size_nanos >= storage_nanos(claim.spec.resources.requests)
            and self.mode == (claim.spec.volume_mode or _FILESYSTEM)
            and self.attributes_class == claim.spec.volume_attributes_class_name
        )

    def suits(self, claim: PersistentVolumeClaim) -> bool:
        """Whether the claim would choose such a volume."""
        selector = claim.spec.selector
        return (
            self.is_enough_for(claim)
            and self.access_modes.issuperset(claim.spec.access_modes)
            and (selector is None or matches(selector, dict(self.labels)))
        )


def _traits_of(volume: PersistentVolume) -> VolumeTraits:
    return VolumeTraits(
        storage_nanos(volume.spec.capacity),
        volume.spec.volume_mode or _FILESYSTEM,
        volume.spec.volume_attributes_class_name,
        frozenset(volume.spec.access_modes),
        frozenset(volume.metadata.labels.items()),
    )


def storage_nanos(resources: ResourceList) -> int:
    """How much storage a list names, in billionths of a byte."""
    return nanos(resources.get("storage", 0))


def _size(traits: VolumeTraits) -> int:
    return traits.size_nanos


@dataclass(frozen=True, eq=False)
class FreeVolumePool:
    """Free volumes with equal traits: the nodes that reach any, and how many each reaches."""

    traits: VolumeTraits
    nodes: npt.NDArray[np.int64]
    count: npt.NDArray[np.int64]


class ReservedVolume(NamedTuple):
    """A volume that waits for one claim, and the nodes that reach it."""

    name: str
    reached: Bools


class FreeVolumes:
    """Volumes that nobody uses, and the claims to which they would be handed out."""

    def __init__(self, snapshot: Snapshot, reach: VolumeReach) -> None:
        self._snapshot = snapshot
        self._reach = reach
        self._pools: dict[str, list[FreeVolumePool]] = {}
        self._allocated: dict[bytes, list[Bools]] = {}

    def allocated(self, claims: Sequence[PersistentVolumeClaim]) -> list[Bools]:
        """For each claim of a pod, the nodes on which it finds a volume.

        The claims choose one after the other, each the smallest volume that will do and that no
        claim before it has taken. Among volumes of the same size the scheduler takes any.
        """
        reserved = [list(self._reserved_for(claim)) for claim in claims]
        if any(reserved):
            return self._allocate(claims, reserved)
        # Replicas have claims of their own that all want the same.
        wanted = key_of(*((class_of_claim(claim), claim.spec) for claim in claims))
        if wanted not in self._allocated:
            self._allocated[wanted] = self._allocate(claims, reserved)
        return self._allocated[wanted]

    def _allocate(
        self, claims: Sequence[PersistentVolumeClaim], reserved: Sequence[list[ReservedVolume]]
    ) -> list[Bools]:
        allocation = VolumeAllocation(len(self._snapshot.nodes))
        return [
            allocation.allocate(volumes, self._suiting(claim))
            for volumes, claim in zip(reserved, claims, strict=True)
        ]

    def _reserved_for(self, claim: PersistentVolumeClaim) -> Iterator[ReservedVolume]:
        """Volumes that wait for this very claim."""
        for volume in self._reserved.get((class_of_claim(claim), claim.metadata.key), ()):
            reference = volume.spec.claim_ref
            is_meant = reference is not None and reference.uid in ("", claim.metadata.uid)
            if is_meant and _traits_of(volume).is_enough_for(claim):
                reached = self._reach.by_terms(required_terms(volume))
                yield ReservedVolume(volume.metadata.name, reached)

    def _suiting(self, claim: PersistentVolumeClaim) -> Iterator[FreeVolumePool]:
        """Stocks that would do for the claim, those of the smallest volumes first."""
        name = class_of_claim(claim)
        if name not in self._pools:
            self._pools[name] = self._pools_of(self._available.get(name, ()))
        return (pool for pool in self._pools[name] if pool.traits.suits(claim))

    def _pools_of(self, volumes: Iterable[PersistentVolume]) -> list[FreeVolumePool]:
        by_traits: dict[VolumeTraits, list[PersistentVolume]] = defaultdict(list)
        for volume in volumes:
            by_traits[_traits_of(volume)].append(volume)
        return [self._pool(traits, by_traits[traits]) for traits in sorted(by_traits, key=_size)]

    def _pool(self, traits: VolumeTraits, volumes: Iterable[PersistentVolume]) -> FreeVolumePool:
        count = np.zeros(len(self._snapshot.nodes), np.int64)
        for volume in volumes:
            count += self._reach.by_terms(required_terms(volume))
        nodes = np.flatnonzero(count)
        return FreeVolumePool(traits, nodes, count[nodes])

    @cached_property
    def _available(self) -> dict[str, list[PersistentVolume]]:
        """Volumes that any claim may have, by storage class."""
        available = defaultdict(list)
        for volume in self._usable:
            if volume.spec.claim_ref is None and volume.status.phase == "Available":
                available[class_of_volume(volume)].append(volume)
        return available

    @cached_property
    def _reserved(self) -> dict[tuple[str, str], list[PersistentVolume]]:
        """Volumes that name a claim, by storage class and that claim."""
        reserved = defaultdict(list)
        for volume in self._usable:
            if (claim := volume.spec.claim_ref) is not None:
                key = f"{claim.namespace}/{claim.name}"
                reserved[class_of_volume(volume), key].append(volume)
        return reserved

    @property
    def _usable(self) -> Iterator[PersistentVolume]:
        volumes = self._snapshot.volumes.values()
        return (volume for volume in volumes if volume.metadata.deletion_timestamp is None)


class VolumeAllocation:
    """Free volumes in the hands of one pod's claims: what is taken and what is left, per node."""

    def __init__(self, nodes: int) -> None:
        self._nowhere: Bools = np.zeros(nodes, bool)
        self._taken: dict[str, Bools] = {}
        self._left: dict[FreeVolumePool, npt.NDArray[np.int64]] = {}

    def allocate(
        self, reserved: Iterable[ReservedVolume], pools: Iterable[FreeVolumePool]
    ) -> Bools:
        """The next claim takes a volume on each node where there is one; returns these nodes."""
        found, looking = self._nowhere.copy(), ~self._nowhere
        for volume in reserved:
            taken = self._taken.get(volume.name, self._nowhere)
            gets = looking & ~taken & volume.reached
            self._taken[volume.name] = taken | gets
            found |= gets
            # A volume that is reserved for the claim is the only one for it, even out of reach.
            looking &= taken
        for pool in pools:
            if not looking.any():
                break
            left = self._left.setdefault(pool, pool.count.copy())
            gets = looking[pool.nodes] & (left > 0)
            left[gets] -= 1
            found[pool.nodes[gets]] = True
            looking[pool.nodes[gets]] = False
        return found
