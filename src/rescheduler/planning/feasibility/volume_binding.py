"""VolumeBinding: the node must reach the pod's volumes, or be a place where they can be had.

A claim that is bound has a volume, and the volume's node affinity says which nodes reach it. A
claim that waits for its first pod must find a free volume that the node reaches, or else a driver
that can make one there. Any other claim without a volume keeps its pod from every node, and so
does one that is missing, lost or being deleted.

How much room a driver has left for new volumes is not known here. One that keeps account of it
counts as full, so nothing is promised that it could not hold.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rescheduler.model.objects import (
    LabelSelector,
    NodeSelectorTerm,
    PersistentVolume,
    PersistentVolumeClaim,
    Requirement,
    ResourceList,
)
from rescheduler.model.quantities import nanos
from rescheduler.model.selectors import matches
from rescheduler.model.snapshot import Bools, Snapshot
from rescheduler.planning.feasibility.label_columns import is_well_formed
from rescheduler.planning.feasibility.rule import ClusterView, key_of
from rescheduler.planning.feasibility.volumes import (
    NO_CLAIM,
    NO_CLAIM_YET,
    Reach,
    claim_keys,
    class_of_claim,
    class_of_volume,
    ephemeral_volumes,
    required_terms,
)

_WAITS = "WaitForFirstConsumer"
_FILESYSTEM = "Filesystem"
_MAKES_NOTHING = ("", "kubernetes.io/no-provisioner")


class VolumeBinding:
    """Refuses nodes from which the pod's volumes cannot be reached or had."""

    name = "VolumeBinding"

    def __init__(self, view: ClusterView) -> None:
        snapshot = self._snapshot = view.snapshot
        self._reach = Reach(view)
        self._free = FreeVolumes(snapshot, self._reach)
        self._everywhere: Bools = np.ones(len(snapshot.nodes), bool)
        self._claims: dict[int, list[PersistentVolumeClaim]] = {}
        self._obstacles: dict[int, str] = {}
        for number, template in enumerate(snapshot.templates):
            keys = claim_keys(template)
            obstacle = _obstacle(keys, ephemeral_volumes(template), snapshot)
            if obstacle is not None:
                self._obstacles[number] = obstacle
            elif keys:
                self._claims[number] = [snapshot.claims[key] for key in keys]

    def refused(self, template: int) -> Bools | None:
        if template in self._obstacles:
            return self._everywhere
        if template not in self._claims:
            return None
        claims = self._claims[template]
        refused = ~self._everywhere
        for claim in claims:
            if is_bound(claim):
                refused |= self._out_of_reach(claim)
        for _, unobtainable in self._unobtainable(claims):
            refused |= unobtainable
        return refused

    def reason(self, template: int, node: int) -> str:
        if template in self._obstacles:
            return self._obstacles[template]
        claims = self._claims[template]
        for claim in claims:
            if is_bound(claim) and self._out_of_reach(claim)[node]:
                volume = claim.spec.volume_name
                return f"the node does not reach volume {volume} of claim {claim.metadata.key}"
        for claim, unobtainable in self._unobtainable(claims):
            if unobtainable[node]:
                return f"there is no volume to be had on the node for claim {claim.metadata.key}"
        raise AssertionError("asked why of a node that is not refused")

    def _out_of_reach(self, claim: PersistentVolumeClaim) -> Bools:
        """Nodes that do not reach the volume of a bound claim."""
        return ~self._reach.of(self._snapshot.volumes[claim.spec.volume_name])

    def _unobtainable(
        self, claims: Iterable[PersistentVolumeClaim]
    ) -> Iterator[tuple[PersistentVolumeClaim, Bools]]:
        """Each claim that waits for its first pod, and the nodes where it gets no volume."""
        choosing = []
        for claim in claims:
            if has_node_selected(claim):
                yield claim, ~(self._makeable(claim) & self._selected_node(claim))
            elif not is_bound(claim):
                choosing.append(claim)
        # The smallest chooses first; claims of one size in the order of the pod's volumes.
        choosing.sort(key=lambda claim: _storage(claim.spec.resources.requests))
        for claim, found in zip(choosing, self._free.handed_out(choosing), strict=True):
            yield claim, ~(found | self._makeable(claim))

    def _makeable(self, claim: PersistentVolumeClaim) -> Bools:
        """Nodes for which the driver of the claim's class can make a volume."""
        storage_class = self._snapshot.storage_classes[class_of_claim(claim)]
        driver = self._snapshot.csi_drivers.get(storage_class.provisioner)
        asks_for_room = "storage" in claim.spec.resources.requests
        counts_as_full = driver is not None and driver.spec.storage_capacity and asks_for_room
        if storage_class.provisioner in _MAKES_NOTHING or counts_as_full:
            return ~self._everywhere
        if not storage_class.allowed_topologies:
            return self._everywhere
        return self._reach.by_terms(
            tuple(
                NodeSelectorTerm(
                    tuple(
                        Requirement(each.key, "In", each.values)
                        for each in term.match_label_expressions
                    )
                )
                for term in storage_class.allowed_topologies
            )
        )

    def _selected_node(self, claim: PersistentVolumeClaim) -> Bools:
        selected = claim.metadata.annotations.selected_node
        return np.array([name == selected for name in self._snapshot.nodes.names], bool)


def is_bound(claim: PersistentVolumeClaim) -> bool:
    """Whether the claim has its volume for good. Until then a volume's name is but a wish."""
    return bool(claim.spec.volume_name) and claim.metadata.annotations.bind_completed is not None


def has_node_selected(claim: PersistentVolumeClaim) -> bool:
    """Whether the claim's volume is being made for a node already."""
    return not is_bound(claim) and claim.metadata.annotations.selected_node is not None


def _obstacle(keys: Iterable[str], own_claims: Iterable[str], snapshot: Snapshot) -> str | None:
    """What keeps a pod with these claims from every node."""
    for name in own_claims:
        return NO_CLAIM_YET.format(name)
    return next(filter(None, (_trouble_with(key, snapshot) for key in keys)), None)


def _trouble_with(key: str, snapshot: Snapshot) -> str | None:
    claim = snapshot.claims.get(key)
    if claim is None:
        return NO_CLAIM.format(key)
    volume = claim.spec.volume_name
    if claim.status.phase == "Lost":
        return f"claim {key} has lost its volume {volume}"
    if claim.metadata.deletion_timestamp is not None:
        return f"claim {key} is being deleted"
    if is_bound(claim):
        return None if volume in snapshot.volumes else f"volume {volume} of claim {key} is missing"
    storage_class = snapshot.storage_classes.get(class_of_claim(claim))
    waits = storage_class is not None and storage_class.volume_binding_mode == _WAITS
    if volume or not waits:
        return f"claim {key} is not bound to a volume"
    if not has_node_selected(claim) and _is_malformed(claim.spec.selector):
        return f"the selector of claim {key} is malformed"
    return None


def _is_malformed(selector: LabelSelector | None) -> bool:
    if selector is None:
        return False
    pairs = [Requirement(key, "In", (value,)) for key, value in selector.match_labels.items()]
    return not all(is_well_formed(each) for each in (*pairs, *selector.match_expressions)) or any(
        each.operator in ("Gt", "Lt") for each in selector.match_expressions
    )


# ---------------------------------------------------------------- free volumes


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
            self.size_nanos >= _storage(claim.spec.resources.requests)
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
        _storage(volume.spec.capacity),
        volume.spec.volume_mode or _FILESYSTEM,
        volume.spec.volume_attributes_class_name,
        frozenset(volume.spec.access_modes),
        frozenset(volume.metadata.labels.items()),
    )


def _storage(resources: ResourceList) -> int:
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
