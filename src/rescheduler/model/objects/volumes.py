# mypy: disable-error-code="misc"
# (mypy does not see that structs inherit being frozen)
"""Volumes as pods name them, with their sources."""

import msgspec

from rescheduler.model.objects.parts import Int32, Part


class ClaimVolume(Part):
    """A volume that is a claim by name."""

    claim_name: str = ""
    read_only: bool = False


class EmptySource(Part):
    """A volume source of which only its presence matters."""


class GcePersistentDisk(Part):
    """A disk that several pods may share only if all of them just read it."""

    pd_name: str = ""
    read_only: bool = False


class AwsElasticBlockStore(Part):
    """A disk that one pod may use at a time."""

    volume_id: str = msgspec.field(default="", name="volumeID")


class Iscsi(Part):
    """An iSCSI disk, known by its qualified name."""

    iqn: str = ""
    lun: Int32 = 0
    target_portal: str = ""
    read_only: bool = False


class Rbd(Part):
    """A Ceph image."""

    monitors: tuple[str, ...] = ()
    pool: str = ""
    image: str = ""
    read_only: bool = False


class AzureDisk(Part):
    """An Azure disk in the pod itself."""

    disk_name: str = ""
    disk_uri: str = msgspec.field(default="", name="diskURI")
    kind: str | None = None


class CinderVolume(Part):
    """An OpenStack volume in the pod itself."""

    volume_id: str = msgspec.field(default="", name="volumeID")


class PortworxVolume(Part):
    """A Portworx volume in the pod itself."""

    volume_id: str = msgspec.field(default="", name="volumeID")


class Volume(Part):
    """A volume with its source, as far as the source has a say in where a pod may run, or in
    whether two pods may use it at once.

    Every kind of source that is known has a field here. A volume with none of them is of a kind
    that we do not know.
    """

    name: str = ""
    persistent_volume_claim: ClaimVolume | None = None
    ephemeral: EmptySource | None = None
    empty_dir: EmptySource | None = None
    host_path: EmptySource | None = None
    gce_persistent_disk: GcePersistentDisk | None = None
    aws_elastic_block_store: AwsElasticBlockStore | None = None
    iscsi: Iscsi | None = None
    rbd: Rbd | None = None
    azure_disk: AzureDisk | None = None
    cinder: CinderVolume | None = None
    portworx_volume: PortworxVolume | None = None
    # Sources that any number of pods on any number of nodes may use.
    projected: EmptySource | None = None
    config_map: EmptySource | None = None
    secret: EmptySource | None = None
    downward_api: EmptySource | None = msgspec.field(default=None, name="downwardAPI")
    csi: EmptySource | None = None
    nfs: EmptySource | None = None
    cephfs: EmptySource | None = None
    glusterfs: EmptySource | None = None
    quobyte: EmptySource | None = None
    azure_file: EmptySource | None = None
    image: EmptySource | None = None
    git_repo: EmptySource | None = None

    @property
    def matters(self) -> bool:
        """Whether it has any say: config maps, network file systems and the like have none."""
        return (
            self.projected is None
            and self.config_map is None
            and self.secret is None
            and self.downward_api is None
            and self.csi is None
            and self.nfs is None
            and self.cephfs is None
            and self.glusterfs is None
            and self.quobyte is None
            and self.azure_file is None
            and self.image is None
            and self.git_repo is None
        )
