"""What the volume plugins share: claims, storage classes, and which nodes reach a volume."""

from typing import TypeVar

import numpy as np

from rescheduler.model.objects import (
    NodeSelectorTerm,
    PersistentVolume,
    PersistentVolumeClaim,
)
from rescheduler.model.pod_templates import PodTemplate
from rescheduler.model.snapshot import Bools, Snapshot
from rescheduler.planning.feasibility.csi_translation import (
    Terms,
    replacing_driver,
    required_terms,
    translated_handle,
    translated_terms,
)
from rescheduler.planning.feasibility.filter_plugin import SharedLister, key_of

K = TypeVar("K")

NO_CLAIM_YET = "the claim for its volume {} is made only after the pod"
NO_CLAIM = "claim {} does not exist"


def add_to(counts: dict[K, int], key: K, count: int) -> int:
    """Count `key` up or down, forgetting it at zero; what it is now."""
    total = counts.get(key, 0) + count
    if total:
        counts[key] = total
    else:
        del counts[key]
    return total


def claim_keys(template: PodTemplate) -> tuple[str, ...]:
    """The claims that the template names, one per volume: the same one may come twice."""
    return tuple(
        f"{template.namespace}/{volume.persistent_volume_claim.claim_name}"
        for volume in template.volumes
        if volume.persistent_volume_claim is not None
    )


def ephemeral_volumes(template: PodTemplate) -> tuple[str, ...]:
    """Names of the volumes for which each pod gets a claim of its own."""
    return tuple(
        volume.name
        for volume in template.volumes
        if volume.ephemeral is not None and volume.persistent_volume_claim is None
    )


def class_of_claim(claim: PersistentVolumeClaim) -> str:
    """The claim's storage class, or nothing. The old annotation comes first."""
    annotated = claim.metadata.annotations.storage_class
    return annotated if annotated is not None else claim.spec.storage_class_name or ""


def class_of_volume(volume: PersistentVolume) -> str:
    """The volume's storage class, or nothing. The old annotation comes first."""
    annotated = volume.metadata.annotations.storage_class
    return annotated if annotated is not None else volume.spec.storage_class_name


class VolumeReach:
    """Which nodes reach a volume."""

    def __init__(self, lister: SharedLister) -> None:
        self._labels = lister.node_labels
        self._everywhere: Bools = np.ones(len(lister.snapshot.nodes), bool)
        self._replaced_on = _nodes_by_replaced_driver(lister.snapshot)
        self._by_terms: dict[bytes, Bools] = {}
        self._reached_from: dict[str, Bools] = {}

    def by_terms(self, terms: Terms | None) -> Bools:
        """Nodes that match one of the terms by their labels; all if there are no terms at all.

        The scheduler does not look at the fields that a volume's terms name, so they always
        match, unless they are malformed.
        """
        if terms is None:
            return self._everywhere
        key = key_of(*terms)
        nodes = self._by_terms.get(key)
        if nodes is None:
            well_formed = [term for term in terms if _has_good_fields(term)]
            nodes = self._labels.matching_any(
                [NodeSelectorTerm(term.match_expressions) for term in well_formed]
            )
            if any(term.match_fields and not term.match_expressions for term in well_formed):
                nodes = self._everywhere
            self._by_terms[key] = nodes
        return nodes

    def of(self, volume: PersistentVolume) -> Bools:
        """Nodes that reach a bound volume."""
        name = volume.metadata.name
        if name not in self._reached_from:
            self._reached_from[name] = self._find_out(volume)
        return self._reached_from[name]

    def _find_out(self, volume: PersistentVolume) -> Bools:
        reached = self.by_terms(required_terms(volume))
        driver = replacing_driver(volume.spec)
        if driver is None or driver.in_tree not in self._replaced_on:
            return reached
        # Nodes that have replaced the volume's driver go by the labels of the new one.
        replaced = self._replaced_on[driver.in_tree]
        if translated_handle(volume.spec, volume.metadata.labels) is None:
            return reached & ~replaced
        return np.where(replaced, self.by_terms(translated_terms(volume, driver)), reached)


def _nodes_by_replaced_driver(snapshot: Snapshot) -> dict[str, Bools]:
    """For each in-tree driver, the nodes that say they have replaced it."""
    nodes: dict[str, Bools] = {}
    for row, name in enumerate(snapshot.nodes.names):
        csi_node = snapshot.csi_nodes.get(name)
        if csi_node is not None:
            for driver in csi_node.metadata.annotations.migrated_plugins.split(","):
                if driver not in nodes:
                    nodes[driver] = np.zeros(len(snapshot.nodes), bool)
                nodes[driver][row] = True
    return nodes


def _has_good_fields(term: NodeSelectorTerm) -> bool:
    return all(
        field.operator in ("In", "NotIn") and len(field.values) == 1 for field in term.match_fields
    )
