# mypy: disable-error-code="misc"
# (mypy does not see that structs inherit being frozen)
"""Volumes as pods name them, with the sources that have a say in where a pod may run."""

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
    """A volume, with the sources that have a say in where the pod may run."""

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

    @property
    def matters(self) -> bool:
        """Whether it has a source that is read at all; config maps and the like have none."""
        return self != Volume(self.name)
