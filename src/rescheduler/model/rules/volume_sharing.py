"""May pods on two nodes use this volume at the same time?

For a short while a handoff runs two pods where there was one. A disk that only one node may attach
would leave the new pod waiting on its target; one that both can reach, but that is not made for
it, would be damaged. So only what is known to be safe counts as shared:

- what each pod gets for itself: emptyDir, ephemeral claims, and what a kubelet writes (configMap,
  secret, projected, downwardAPI, image, gitRepo). Inline `csi` volumes are of this sort, whatever
  their driver: the volume is made for one pod on its node and is never attached, so it can be no
  disk that another node holds;
- network file systems: nfs, cephfs, glusterfs, quobyte, azureFile;
- claims whose access modes are all for many nodes.

A hostPath is of one node: beside the old pod, the new one would start without its data. A disk
named in the pod, also one mounted read-only, and any kind that we do not know is not shared.
"""

from collections.abc import Callable, Iterable

from rescheduler.model.objects import PersistentVolumeClaim, Volume

MANY_NODES_ACCESS_MODES = {"ReadWriteMany", "ReadOnlyMany"}

ClaimOf = Callable[[str], PersistentVolumeClaim | None]
"""Looks a claim up by its key."""


def has_single_node_volume(volumes: Iterable[Volume], namespace: str, claim_of: ClaimOf) -> bool:
    """Whether any of a pod's volumes is not known to be safe for pods on two nodes."""
    return not all(_may_be_shared(volume, namespace, claim_of) for volume in volumes)


def _may_be_shared(volume: Volume, namespace: str, claim_of: ClaimOf) -> bool:
    if volume.persistent_volume_claim is not None:
        claim = claim_of(f"{namespace}/{volume.persistent_volume_claim.claim_name}")
        return claim is not None and is_for_many_nodes(claim)
    return volume.empty_dir is not None or volume.ephemeral is not None or not volume.matters


def is_for_many_nodes(claim: PersistentVolumeClaim) -> bool:
    """Whether every access mode of a claim is for many nodes.

    One that also asks for a single node may have got a volume that can do no more.
    """
    modes = claim.spec.access_modes
    return bool(modes) and MANY_NODES_ACCESS_MODES.issuperset(modes)
