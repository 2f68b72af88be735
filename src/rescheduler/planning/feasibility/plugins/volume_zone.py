"""VolumeZone: a node must be in the zone and region that the labels of the pod's volumes name.

Old cloud volumes say where they are in labels, `a__b` for several zones at once; newer ones have
a node affinity, which VolumeBinding looks at. A node that names no zone and no region is taken to
be in a cluster without them, and refuses nothing.
"""

from typing import NamedTuple

import numpy as np

from rescheduler.labels import OLD_REGION, OLD_ZONE, REGION, ZONE
from rescheduler.model.objects import PersistentVolume, PersistentVolumeClaim, Requirement
from rescheduler.model.snapshot import Bools
from rescheduler.planning.feasibility.csi_translation import ZONE_DELIMITER
from rescheduler.planning.feasibility.filter_plugin import SharedLister
from rescheduler.planning.feasibility.volume_claims import NO_CLAIM, claim_keys, class_of_claim

_LABELS = (OLD_ZONE, OLD_REGION, ZONE, REGION)
_TODAYS_LABEL = {OLD_ZONE: ZONE, OLD_REGION: REGION}


class ZoneRequirement(NamedTuple):
    """A label that a node must have, with one of these values."""

    label: str
    values: tuple[str, ...]


class VolumeZone:
    """Refuses nodes outside of the zones and regions of the pod's volumes."""

    name = "VolumeZone"

    def __init__(self, lister: SharedLister) -> None:
        self._lister = lister
        self._labels = lister.node_labels
        self._everywhere: Bools = np.ones(len(lister.snapshot.nodes), bool)
        self._claims = [claim_keys(template) for template in lister.snapshot.templates]
        self._outside_of: dict[tuple[ZoneRequirement, ...], Bools] = {}

    def add_template(self, template: int) -> None:
        """Prepare for a template that was not there before."""
        self._claims.append(claim_keys(self._lister.snapshot.templates[template]))

    def refused(self, template: int) -> Bools | None:
        if not self._claims[template]:
            return None
        if self._obstacle(template) is not None:
            return self._everywhere
        required = tuple(
            zone for volume in self._volumes(template) for zone in zone_requirements(volume)
        )
        return self._outside(required) if required else None

    def reason(self, template: int, node: int) -> str:
        obstacle = self._obstacle(template)
        if obstacle is not None:
            return obstacle
        for volume in self._volumes(template):
            for zone in zone_requirements(volume):
                if self._outside((zone,))[node]:
                    return (
                        f"volume {volume.metadata.name} is in {zone.label}="
                        f"{' or '.join(zone.values)}, and the node is not"
                    )
        raise AssertionError("asked why of a node that is not refused")

    def _obstacle(self, template: int) -> str | None:
        """What keeps the pod from every node."""
        for key in self._claims[template]:
            claim = self._lister.snapshot.claims.get(key)
            if claim is None:
                return NO_CLAIM.format(key)
            volume = claim.spec.volume_name
            if volume and volume not in self._lister.snapshot.volumes:
                return f"volume {volume} of claim {key} does not exist"
            if not volume and not self._gets_a_volume_later(claim):
                return f"claim {key} is not bound to a volume"
        return None

    def _gets_a_volume_later(self, claim: PersistentVolumeClaim) -> bool:
        storage_class = self._lister.snapshot.storage_classes.get(class_of_claim(claim))
        return (
            storage_class is not None
            and storage_class.volume_binding_mode == "WaitForFirstConsumer"
        )

    def _volumes(self, template: int) -> list[PersistentVolume]:
        claims = [self._lister.snapshot.claims[key] for key in self._claims[template]]
        names = [claim.spec.volume_name for claim in claims if claim.spec.volume_name]
        return [self._lister.snapshot.volumes[name] for name in names]

    def _outside(self, required: tuple[ZoneRequirement, ...]) -> Bools:
        """Nodes that name a zone or a region and are not in all of these zones."""
        outside = self._outside_of.get(required)
        if outside is None:
            inside = np.ones(len(self._lister.snapshot.nodes), bool)
            for zone in required:
                inside &= self._satisfying(zone)
            outside = self._outside_of[required] = ~inside & self._naming_a_zone()
        return outside

    def _satisfying(self, zone: ZoneRequirement) -> Bools:
        """Nodes in the zone. Where a node lacks the beta label, today's is looked at instead."""
        here = self._labels.satisfying(Requirement(zone.label, "In", zone.values))
        today = _TODAYS_LABEL.get(zone.label)
        if today is None:
            return here
        lacking = self._labels.satisfying(Requirement(zone.label, "DoesNotExist"))
        return here | lacking & self._labels.satisfying(Requirement(today, "In", zone.values))

    def _naming_a_zone(self) -> Bools:
        named = [self._labels.satisfying(Requirement(label, "Exists")) for label in _LABELS]
        return np.asarray(np.logical_or.reduce(named))


def zone_requirements(volume: PersistentVolume) -> list[ZoneRequirement]:
    """Where the volume's labels say that it is. A label with an empty zone says nothing."""
    required = []
    for label in _LABELS:
        if label in volume.metadata.labels:
            zones = [name.strip() for name in volume.metadata.labels[label].split(ZONE_DELIMITER)]
            if all(zones):
                required.append(ZoneRequirement(label, tuple(zones)))
    return required
