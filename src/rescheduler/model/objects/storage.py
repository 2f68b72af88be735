# mypy: disable-error-code="misc"
# (mypy does not see that structs inherit being frozen)
"""Storage: volumes, the claims on them, and what nodes can attach."""

import msgspec

from rescheduler.model.objects.parts import (
    Int32,
    LabelSelector,
    NodeSelector,
    ObjectMeta,
    Part,
    ResourceList,
    ResourceRequirements,
)
from rescheduler.model.objects.volumes import (
    AwsElasticBlockStore,
    AzureDisk,
    CinderVolume,
    GcePersistentDisk,
    PortworxVolume,
)


class VolumeNodeAffinity(Part):
    """From which nodes a volume can be reached."""

    required: NodeSelector | None = None


class CsiSource(Part):
    """The driver and the driver's name for a volume."""

    driver: str = ""
    volume_handle: str = ""


class ClaimReference(Part):
    """The claim that a volume is bound to."""

    namespace: str = ""
    name: str = ""
    uid: str = ""


class PersistentVolumeSpec(Part):
    """What a volume is and who may use it."""

    capacity: ResourceList = {}
    access_modes: tuple[str, ...] = ()
    storage_class_name: str = ""
    volume_mode: str = ""
    claim_ref: ClaimReference | None = None
    node_affinity: VolumeNodeAffinity | None = None
    csi: CsiSource | None = None
    gce_persistent_disk: GcePersistentDisk | None = None
    aws_elastic_block_store: AwsElasticBlockStore | None = None
    azure_disk: AzureDisk | None = None
    cinder: CinderVolume | None = None
    portworx_volume: PortworxVolume | None = None
    volume_attributes_class_name: str = ""


class PhaseStatus(Part):
    """The phase a volume or a claim is in."""

    phase: str = ""


class PersistentVolume(Part):
    """A piece of storage."""

    metadata: ObjectMeta
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PhaseStatus = PhaseStatus()


class ClaimSpec(Part):
    """What a claim asks for, and the volume it got."""

    access_modes: tuple[str, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()
    storage_class_name: str | None = None
    volume_name: str = ""
    volume_mode: str = ""
    selector: LabelSelector | None = None
    volume_attributes_class_name: str = ""


class PersistentVolumeClaim(Part):
    """A request for storage, by which pods name it."""

    metadata: ObjectMeta
    spec: ClaimSpec = ClaimSpec()
    status: PhaseStatus = PhaseStatus()


class TopologyRequirement(Part):
    """A label, and the values of it where volumes can be provisioned."""

    key: str
    values: tuple[str, ...] = ()


class TopologySelectorTerm(Part):
    """All of its label requirements together."""

    match_label_expressions: tuple[TopologyRequirement, ...] = ()


class StorageClass(Part):
    """How volumes are provisioned, and when they are bound."""

    metadata: ObjectMeta
    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()


class DriverLimit(Part):
    """How many volumes of a driver a node can hold."""

    count: Int32 | None = None


class CsiNodeDriver(Part):
    """A storage driver that runs on a node."""

    name: str
    node_id: str = msgspec.field(default="", name="nodeID")
    topology_keys: tuple[str, ...] = ()
    allocatable: DriverLimit | None = None


class CsiNodeSpec(Part):
    """The storage drivers on a node."""

    drivers: tuple[CsiNodeDriver, ...] = ()


class CsiNode(Part):
    """What a node's storage drivers can do; it has the node's name."""

    metadata: ObjectMeta
    spec: CsiNodeSpec = CsiNodeSpec()


class CsiDriverSpec(Part):
    """How a storage driver wants to be treated."""

    storage_capacity: bool = False
    prevent_pod_scheduling_if_missing: bool = False


class CsiDriver(Part):
    """A storage driver of the cluster."""

    metadata: ObjectMeta
    spec: CsiDriverSpec = CsiDriverSpec()
