"""VolumeZone: a node must be in the zone and region that the labels of the pod's volumes name.

Old cloud volumes say where they are in labels, `a__b` for several zones at once; newer ones have
a node affinity, which VolumeBinding looks at. A node that names no zone and no region is taken to
be in a cluster without them, and refuses nothing.
"""

from typing import NamedTuple

import numpy as np

from rescheduler.model.objects import PersistentVolume, PersistentVolumeClaim, Requirement
from rescheduler.model.snapshot import Bools
from rescheduler.planning.feasibility.filter_plugin import ClusterView
from rescheduler.planning.feasibility.volume_claims import (
    BETA_REGION,
    BETA_ZONE,
    NO_CLAIM,
    REGION,
    ZONE,
    ZONE_DELIMITER,
    claim_keys,
    class_of_claim,
)

_LABELS = (BETA_ZONE, BETA_REGION, ZONE, REGION)
_TODAYS_LABEL = {BETA_ZONE: ZONE, BETA_REGION: REGION}


class Place(NamedTuple):
    """A label that a node must have, with one of these values."""

    label: str
    values: tuple[str, ...]


class VolumeZone:
    """Refuses nodes outside of the zones and regions of the pod's volumes."""

    name = "VolumeZone"

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self._labels = view.node_labels
        self._everywhere: Bools = np.ones(len(view.snapshot.nodes), bool)
        self._claims = [claim_keys(template) for template in view.snapshot.templates]
        self._outside_of: dict[tuple[Place, ...], Bools] = {}

    def know(self, template: int) -> None:
        """Prepare for a template that was not there before."""
        self._claims.append(claim_keys(self._view.snapshot.templates[template]))

    def refused(self, template: int) -> Bools | None:
        if not self._claims[template]:
            return None
        if self._obstacle(template) is not None:
            return self._everywhere
        places = tuple(place for volume in self._volumes(template) for place in places_of(volume))
        return self._outside(places) if places else None

    def reason(self, template: int, node: int) -> str:
        obstacle = self._obstacle(template)
        if obstacle is not None:
            return obstacle
        for volume in self._volumes(template):
            for place in places_of(volume):
                if self._outside((place,))[node]:
                    return (
                        f"volume {volume.metadata.name} is in {place.label}="
                        f"{' or '.join(place.values)}, and the node is not"
                    )
        raise AssertionError("asked why of a node that is not refused")

    def _obstacle(self, template: int) -> str | None:
        """What keeps the pod from every node."""
        for key in self._claims[template]:
            claim = self._view.snapshot.claims.get(key)
            if claim is None:
                return NO_CLAIM.format(key)
            volume = claim.spec.volume_name
            if volume and volume not in self._view.snapshot.volumes:
                return f"volume {volume} of claim {key} does not exist"
            if not volume and not self._gets_a_volume_later(claim):
                return f"claim {key} is not bound to a volume"
        return None

    def _gets_a_volume_later(self, claim: PersistentVolumeClaim) -> bool:
        storage_class = self._view.snapshot.storage_classes.get(class_of_claim(claim))
        return (
            storage_class is not None
            and storage_class.volume_binding_mode == "WaitForFirstConsumer"
        )

    def _volumes(self, template: int) -> list[PersistentVolume]:
        claims = [self._view.snapshot.claims[key] for key in self._claims[template]]
        names = [claim.spec.volume_name for claim in claims if claim.spec.volume_name]
        return [self._view.snapshot.volumes[name] for name in names]

    def _outside(self, places: tuple[Place, ...]) -> Bools:
        """Nodes that name a zone or a region and are not in all of these places."""
        outside = self._outside_of.get(places)
        if outside is None:
            inside = np.ones(len(self._view.snapshot.nodes), bool)
            for place in places:
                inside &= self._in_place(place)
            outside = self._outside_of[places] = ~inside & self._names_a_place()
        return outside

    def _in_place(self, place: Place) -> Bools:
        """Nodes in a place. Where a node lacks a label of old, today's is looked at instead."""
        here = self._labels.satisfying(Requirement(place.label, "In", place.values))
        today = _TODAYS_LABEL.get(place.label)
        if today is None:
            return here
        lacking = self._labels.satisfying(Requirement(place.label, "DoesNotExist"))
        return here | lacking & self._labels.satisfying(Requirement(today, "In", place.values))

    def _names_a_place(self) -> Bools:
        named = [self._labels.satisfying(Requirement(label, "Exists")) for label in _LABELS]
        return np.asarray(np.logical_or.reduce(named))


def places_of(volume: PersistentVolume) -> list[Place]:
    """Where the volume's labels say that it is. A label with an empty zone says nothing."""
    places = []
    for label in _LABELS:
        if label in volume.metadata.labels:
            zones = [zone.strip() for zone in volume.metadata.labels[label].split(ZONE_DELIMITER)]
            if all(zones):
                places.append(Place(label, tuple(zones)))
    return places
