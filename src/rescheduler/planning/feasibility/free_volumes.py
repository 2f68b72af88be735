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
from rescheduler.planning.feasibility.filter_plugin import key_of
from rescheduler.planning.feasibility.volume_claims import (
    Reach,
    class_of_claim,
    class_of_volume,
    required_terms,
)

_FILESYSTEM = "Filesystem"


class Make(NamedTuple):
    """What a claim can want of a volume. Volumes of one make are as good as each other."""

    size_nanos: int
    mode: str
    attributes_class: str
    access_modes: frozenset[str]
    labels: frozenset[tuple[str, str]]

    def could_do(self, claim: PersistentVolumeClaim) -> bool:
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
            self.could_do(claim)
            and self.access_modes.issuperset(claim.spec.access_modes)
            and (selector is None or matches(selector, dict(self.labels)))
        )


def _make_of(volume: PersistentVolume) -> Make:
    return Make(
        storage_nanos(volume.spec.capacity),
        volume.spec.volume_mode or _FILESYSTEM,
        volume.spec.volume_attributes_class_name,
        frozenset(volume.spec.access_modes),
        frozenset(volume.metadata.labels.items()),
    )


def storage_nanos(resources: ResourceList) -> int:
    """How much storage a list names, in billionths of a byte."""
    return nanos(resources.get("storage", 0))


def _size(make: Make) -> int:
    return make.size_nanos


@dataclass(frozen=True, eq=False)
class Stock:
    """Free volumes of one make: the nodes that reach any, and how many each of them reaches."""

    make: Make
    nodes: npt.NDArray[np.int64]
    count: npt.NDArray[np.int64]


class Reserved(NamedTuple):
    """A volume that waits for one claim, and the nodes that reach it."""

    name: str
    reached: Bools


class FreeVolumes:
    """Volumes that nobody uses, and the claims to which they would be handed out."""

    def __init__(self, snapshot: Snapshot, reach: Reach) -> None:
        self._snapshot = snapshot
        self._reach = reach
        self._stocks: dict[str, list[Stock]] = {}
        self._handed_out: dict[bytes, list[Bools]] = {}

    def handed_out(self, claims: Sequence[PersistentVolumeClaim]) -> list[Bools]:
        """For each claim of a pod, the nodes on which it finds a volume.

        The claims choose one after the other, each the smallest volume that will do and that no
        claim before it has taken. Among volumes of the same size the scheduler takes any.
        """
        reserved = [list(self._reserved_for(claim)) for claim in claims]
        if any(reserved):
            return self._hand_out(claims, reserved)
        # Replicas have claims of their own that all want the same.
        wanted = key_of(*((class_of_claim(claim), claim.spec) for claim in claims))
        if wanted not in self._handed_out:
            self._handed_out[wanted] = self._hand_out(claims, reserved)
        return self._handed_out[wanted]

    def _hand_out(
        self, claims: Sequence[PersistentVolumeClaim], reserved: Sequence[list[Reserved]]
    ) -> list[Bools]:
        handout = Handout(len(self._snapshot.nodes))
        return [
            handout.to(volumes, self._suiting(claim))
            for volumes, claim in zip(reserved, claims, strict=True)
        ]

    def _reserved_for(self, claim: PersistentVolumeClaim) -> Iterator[Reserved]:
        """Volumes that wait for this very claim."""
        for volume in self._reserved.get((class_of_claim(claim), claim.metadata.key), ()):
            reference = volume.spec.claim_ref
            is_meant = reference is not None and reference.uid in ("", claim.metadata.uid)
            if is_meant and _make_of(volume).could_do(claim):
                reached = self._reach.by_terms(required_terms(volume))
                yield Reserved(volume.metadata.name, reached)

    def _suiting(self, claim: PersistentVolumeClaim) -> Iterator[Stock]:
        """Stocks that would do for the claim, those of the smallest volumes first."""
        name = class_of_claim(claim)
        if name not in self._stocks:
            self._stocks[name] = self._stocks_of(self._available.get(name, ()))
        return (stock for stock in self._stocks[name] if stock.make.suits(claim))

    def _stocks_of(self, volumes: Iterable[PersistentVolume]) -> list[Stock]:
        by_make: dict[Make, list[PersistentVolume]] = defaultdict(list)
        for volume in volumes:
            by_make[_make_of(volume)].append(volume)
        return [self._stock(make, by_make[make]) for make in sorted(by_make, key=_size)]

    def _stock(self, make: Make, volumes: Iterable[PersistentVolume]) -> Stock:
        count = np.zeros(len(self._snapshot.nodes), np.int64)
        for volume in volumes:
            count += self._reach.by_terms(required_terms(volume))
        nodes = np.flatnonzero(count)
        return Stock(make, nodes, count[nodes])

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
        return (each for each in volumes if each.metadata.deletion_timestamp is None)


class Handout:
    """Free volumes in the hands of one pod's claims: what is taken and what is left, per node."""

    def __init__(self, nodes: int) -> None:
        self._nowhere: Bools = np.zeros(nodes, bool)
        self._taken: dict[str, Bools] = {}
        self._left: dict[Stock, npt.NDArray[np.int64]] = {}

    def to(self, reserved: Iterable[Reserved], stocks: Iterable[Stock]) -> Bools:
        """The next claim takes a volume on each node where there is one; says on which."""
        found, looking = self._nowhere.copy(), ~self._nowhere
        for volume in reserved:
            taken = self._taken.get(volume.name, self._nowhere)
            gets = looking & ~taken & volume.reached
            self._taken[volume.name] = taken | gets
            found |= gets
            # A volume that is reserved for the claim is the only one for it, even out of reach.
            looking &= taken
        for stock in stocks:
            if not looking.any():
                break
            left = self._left.setdefault(stock, stock.count.copy())
            gets = looking[stock.nodes] & (left > 0)
            left[gets] -= 1
            found[stock.nodes[gets]] = True
            looking[stock.nodes[gets]] = False
        return found
