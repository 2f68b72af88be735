"""In-tree volumes as the CSI volumes that have replaced them.

Kubernetes once had drivers of its own for the disks of the big clouds ("in-tree"). CSI drivers
have replaced them, but old volumes still name the old driver, and the scheduler translates: the
driver's name, its name for the volume, and the labels that say in which zone the volume is.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from rescheduler.labels import OLD_REGION, OLD_ZONE, REGION, ZONE
from rescheduler.model.objects import (
    NodeSelectorTerm,
    PersistentVolume,
    PersistentVolumeSpec,
    Requirement,
    Volume,
)

Terms = tuple[NodeSelectorTerm, ...]

ZONE_DELIMITER = "__"


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
