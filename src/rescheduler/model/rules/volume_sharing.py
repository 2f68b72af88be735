"""May pods on two nodes mount this volume at the same time?

For a short while a handoff runs two pods where there was one. A volume that only one node may
attach would leave the new pod waiting on its target.
"""

from collections.abc import Callable, Iterable

from rescheduler.model.objects import PersistentVolumeClaim, Volume

SINGLE_NODE_ACCESS_MODES = {"ReadWriteOnce", "ReadWriteOncePod"}


def has_single_node_volume(
    volumes: Iterable[Volume],
    namespace: str,
    claim_of: Callable[[str], PersistentVolumeClaim | None],
) -> bool:
    """Whether any of a pod's volumes may be mounted on one node only.

    A claim that `claim_of` does not know by its key may be anything, so it counts as such.
    """
    for volume in volumes:
        if volume.persistent_volume_claim is not None:
            claim = claim_of(f"{namespace}/{volume.persistent_volume_claim.claim_name}")
            if claim is None or SINGLE_NODE_ACCESS_MODES.intersection(claim.spec.access_modes):
                return True
    return False
