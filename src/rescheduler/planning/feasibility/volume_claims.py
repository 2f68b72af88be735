"""What the volume plugins share: claims, storage classes, and in-tree volumes as CSI volumes.

Kubernetes once had drivers of its own for the disks of the big clouds ("in-tree"). CSI drivers
have replaced them, but old volumes still name the old driver, and the scheduler translates: the
driver's name, its name for the volume, and the labels that say in which zone the volume is.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple, TypeVar

import numpy as np

from rescheduler.labels import OLD_REGION, OLD_ZONE, REGION, ZONE
from rescheduler.model.objects import (
    NodeSelectorTerm,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
    Requirement,
    Volume,
)
from rescheduler.model.pod_templates import PodTemplate
from rescheduler.model.snapshot import Bools, Snapshot
from rescheduler.planning.feasibility.filter_plugin import SharedLister, key_of

K = TypeVar("K")
Terms = tuple[NodeSelectorTerm, ...]

ZONE_DELIMITER = "__"

NO_CLAIM_YET = "the claim for its volume {} is made only after the pod"
NO_CLAIM = "claim {} does not exist"


class CsiDriverOf(NamedTuple):
    """The CSI driver that replaced an in-tree one."""

    in_tree: str
    name: str
    zone_label: str = ""
    """What the driver calls a zone; empty if its volumes keep the labels they have."""


GCE = CsiDriverOf("kubernetes.io/gce-pd", "pd.csi.storage.gke.io", "topology.gke.io/zone")
EBS = CsiDriverOf("kubernetes.io/aws-ebs", "ebs.csi.aws.com", "topology.ebs.csi.aws.com/zone")
CINDER = CsiDriverOf(
    "kubernetes.io/cinder", "cinder.csi.openstack.org", "topology.cinder.csi.openstack.org/zone"
)
AZURE = CsiDriverOf("kubernetes.io/azure-disk", "disk.csi.azure.com")
PORTWORX = CsiDriverOf("kubernetes.io/portworx-volume", "pxd.portworx.com")

REPLACED_BY = {driver.in_tree: driver for driver in (GCE, EBS, CINDER, AZURE, PORTWORX)}


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


def replacing_driver(source: Volume | PersistentVolumeSpec) -> CsiDriverOf | None:
    """The CSI driver that takes over this volume of an in-tree driver; None for any other."""
    if source.gce_persistent_disk is not None:
        return GCE
    if source.aws_elastic_block_store is not None:
        return EBS
    if source.cinder is not None:
        return CINDER
    if source.azure_disk is not None:
        return AZURE
    if source.portworx_volume is not None:
        return PORTWORX
    return None


def translated_handle(
    source: Volume | PersistentVolumeSpec, labels: Mapping[str, str]
) -> str | None:
    """The CSI driver's name for an in-tree volume; None if it cannot be translated."""
    if source.gce_persistent_disk is not None:
        return _gce_handle(source.gce_persistent_disk.pd_name, labels)
    if source.aws_elastic_block_store is not None:
        return _ebs_handle(source.aws_elastic_block_store.volume_id)
    if source.cinder is not None:
        return source.cinder.volume_id
    if source.azure_disk is not None:
        kind = source.azure_disk.kind
        is_managed = kind is None or kind.lower() == "managed"
        return source.azure_disk.disk_uri if is_managed else None
    assert source.portworx_volume is not None, "asked to translate what is not in-tree"
    return source.portworx_volume.volume_id


def _gce_handle(disk: str, labels: Mapping[str, str]) -> str | None:
    zones = (labels.get(OLD_ZONE) or labels.get(ZONE) or "").split(ZONE_DELIMITER)
    if len(zones) == 1:
        return f"projects/UNSPECIFIED/zones/{zones[0] or 'UNSPECIFIED'}/disks/{disk}"
    # A disk in several zones belongs to their region: "europe-west1" of "europe-west1-b".
    parts = [zone.split("-") for zone in zones]
    regions = {"-".join(part[:2]) for part in parts}
    if len(regions) > 1 or any(len(part) != 3 for part in parts):
        return None
    return f"projects/UNSPECIFIED/regions/{regions.pop()}/disks/{disk}"


def _ebs_handle(volume_id: str) -> str | None:
    """`vol-1`, which may be written as `aws://zone/vol-1`."""
    if not volume_id.startswith("aws://"):
        return volume_id
    match = re.fullmatch(r"aws://[^/]*/+(vol-[^/]*)/*", volume_id)
    return match[1] if match else None


def required_terms(volume: PersistentVolume) -> Terms | None:
    """Terms of which a node must match one to reach the volume; None if every node reaches it."""
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return None
    return affinity.required.node_selector_terms


def translated_terms(volume: PersistentVolume, driver: CsiDriverOf) -> Terms | None:
    """The same in the labels of the CSI driver that replaced the volume's in-tree one."""
    terms = required_terms(volume)
    if not driver.zone_label:
        return terms
    zone_label, region_label = _zone_and_region_labels(volume, terms or ())
    if _values(terms or (), zone_label):
        terms = _renamed(terms or (), zone_label, driver.zone_label)
    else:
        written = volume.metadata.labels.get(zone_label, "").split(ZONE_DELIMITER)
        zones = sorted({zone.strip() for zone in written} - {""})
        if zones:
            terms = _narrowed(terms or (), Requirement(driver.zone_label, "In", tuple(zones)))
    if region_label == OLD_REGION and _values(terms or (), OLD_REGION):
        terms = _renamed(terms or (), OLD_REGION, REGION)
    return terms


def _zone_and_region_labels(volume: PersistentVolume, terms: Terms) -> tuple[str, str]:
    """Whether a volume speaks of zones in today's labels or those of old."""
    in_terms = {expression.key for term in terms for expression in term.match_expressions}
    for present in (in_terms, volume.metadata.labels):
        if ZONE in present:
            return ZONE, REGION
        if OLD_ZONE in present:
            return OLD_ZONE, OLD_REGION
    return ZONE, REGION


def _values(terms: Terms, key: str) -> set[str]:
    return {
        value
        for term in terms
        for expression in term.match_expressions
        if expression.key == key
        for value in expression.values
    }


def _renamed(terms: Terms, old: str, new: str) -> Terms:
    return tuple(
        NodeSelectorTerm(
            tuple(
                Requirement(new, expression.operator, expression.values)
                if expression.key == old
                else expression
                for expression in term.match_expressions
            ),
            term.match_fields,
        )
        for term in terms
    )


def _narrowed(terms: Terms, requirement: Requirement) -> Terms:
    return tuple(
        NodeSelectorTerm((*term.match_expressions, requirement), term.match_fields)
        for term in terms or (NodeSelectorTerm(),)
    )


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
