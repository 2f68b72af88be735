"""VolumeBinding: the node must reach the pod's volumes, or be one where they can be provisioned.

A claim that is bound has a volume, and the volume's node affinity says which nodes reach it. A
claim that waits for its first pod must find a free volume that the node reaches, or else a driver
that can provision one there. Any other claim without a volume keeps its pod from every node, and so
does one that is missing, lost or being deleted.

How much room a driver has left for new volumes is not known here. One that keeps account of it
counts as full, so nothing is promised that it could not hold.
"""

from collections.abc import Iterable, Iterator

import numpy as np

from rescheduler.model.objects import (
    LabelSelector,
    NodeSelectorTerm,
    PersistentVolumeClaim,
    Requirement,
)
from rescheduler.model.snapshot import Bools, Snapshot
from rescheduler.planning.feasibility.filter_plugin import SharedLister
from rescheduler.planning.feasibility.free_volumes import FreeVolumes, storage_nanos
from rescheduler.planning.feasibility.label_columns import is_well_formed
from rescheduler.planning.feasibility.volume_claims import (
    NO_CLAIM,
    NO_CLAIM_YET,
    VolumeReach,
    claim_keys,
    class_of_claim,
    ephemeral_volumes,
)

_WAITS = "WaitForFirstConsumer"
_NO_PROVISIONER = ("", "kubernetes.io/no-provisioner")


class VolumeBinding:
    """Refuses nodes from which the pod's volumes cannot be reached or provisioned."""

    name = "VolumeBinding"

    def __init__(self, lister: SharedLister) -> None:
        self._lister = lister
        self._reach = VolumeReach(lister)
        self._free = FreeVolumes(lister.snapshot, self._reach)
        self._everywhere: Bools = np.ones(len(lister.snapshot.nodes), bool)
        self._claims: dict[int, list[PersistentVolumeClaim]] = {}
        self._obstacles: dict[int, str] = {}
        for template in range(len(lister.snapshot.templates)):
            self.add_template(template)

    def add_template(self, template: int) -> None:
        """Prepare for a template that was not there before."""
        snapshot = self._lister.snapshot
        keys = claim_keys(snapshot.templates[template])
        obstacle = _obstacle(keys, ephemeral_volumes(snapshot.templates[template]), snapshot)
        if obstacle is not None:
            self._obstacles[template] = obstacle
        elif keys:
            self._claims[template] = [snapshot.claims[key] for key in keys]

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
        return ~self._reach.of(self._lister.snapshot.volumes[claim.spec.volume_name])

    def _unobtainable(
        self, claims: Iterable[PersistentVolumeClaim]
    ) -> Iterator[tuple[PersistentVolumeClaim, Bools]]:
        """Each claim that waits for its first pod, and the nodes where it gets no volume."""
        choosing = []
        for claim in claims:
            if has_node_selected(claim):
                yield claim, ~(self._provisionable(claim) & self._selected_node(claim))
            elif not is_bound(claim):
                choosing.append(claim)
        # The smallest chooses first; claims of one size in the order of the pod's volumes.
        choosing.sort(key=lambda claim: storage_nanos(claim.spec.resources.requests))
        for claim, found in zip(choosing, self._free.allocated(choosing), strict=True):
            yield claim, ~(found | self._provisionable(claim))

    def _provisionable(self, claim: PersistentVolumeClaim) -> Bools:
        """Nodes for which the driver of the claim's class can provision a volume."""
        storage_class = self._lister.snapshot.storage_classes[class_of_claim(claim)]
        driver = self._lister.snapshot.csi_drivers.get(storage_class.provisioner)
        asks_for_room = "storage" in claim.spec.resources.requests
        counts_as_full = driver is not None and driver.spec.storage_capacity and asks_for_room
        if storage_class.provisioner in _NO_PROVISIONER or counts_as_full:
            return ~self._everywhere
        if not storage_class.allowed_topologies:
            return self._everywhere
        return self._reach.by_terms(
            tuple(
                NodeSelectorTerm(
                    tuple(
                        Requirement(expression.key, "In", expression.values)
                        for expression in term.match_label_expressions
                    )
                )
                for term in storage_class.allowed_topologies
            )
        )

    def _selected_node(self, claim: PersistentVolumeClaim) -> Bools:
        selected = claim.metadata.annotations.selected_node
        return np.array([name == selected for name in self._lister.snapshot.nodes.names], bool)


def is_bound(claim: PersistentVolumeClaim) -> bool:
    """Whether the claim has its volume for good. Until then a volume's name is only a request."""
    return bool(claim.spec.volume_name) and claim.metadata.annotations.bind_completed is not None


def has_node_selected(claim: PersistentVolumeClaim) -> bool:
    """Whether the claim's volume is being provisioned for a node already."""
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
    expressions = selector.match_expressions
    return not all(map(is_well_formed, (*pairs, *expressions))) or any(
        expression.operator in ("Gt", "Lt") for expression in expressions
    )
