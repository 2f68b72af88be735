# mypy: disable-error-code="misc"
# (mypy does not see that structs inherit being frozen)
"""The parts of Kubernetes objects that we read.

Every struct names only the fields that something here uses; decoding skips the rest, which is
most of an object. They are frozen, compared by value and invisible to the garbage collector,
so a hundred thousand of them cost no pauses.

JSON names are camelCase, ours snake_case. A field that may be absent has a default that means
what Kubernetes means by its absence.
"""

from datetime import datetime
from typing import Annotated, Generic, TypeVar

import msgspec
from msgspec import Meta

from rescheduler.model.quantities import Quantity

T = TypeVar("T")

ResourceList = dict[str, Quantity]
Labels = dict[str, str]
Timestamp = Annotated[datetime, Meta(tz=True)]
Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]


class Part(
    msgspec.Struct,
    frozen=True,
    gc=False,
    rename="camel",
    omit_defaults=True,
    repr_omit_defaults=True,
):
    """A part of an object. Absent fields stay absent when it is written back as JSON."""


# ---------------------------------------------------------------- metadata and selectors


class OwnerReference(Part):
    """Who an object belongs to. At most one owner is the controller."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    controller: bool = False


class Annotations(Part):
    """The annotations that change what we do. All others are skipped while decoding."""

    safe_to_evict: str = msgspec.field(
        default="", name="cluster-autoscaler.kubernetes.io/safe-to-evict"
    )
    do_not_disrupt: str = msgspec.field(default="", name="karpenter.sh/do-not-disrupt")
    mirror: str = msgspec.field(default="", name="kubernetes.io/config.mirror")
    deletion_cost: str = msgspec.field(
        default="", name="controller.kubernetes.io/pod-deletion-cost"
    )
    handoff: str = msgspec.field(default="", name="rescheduler.dev/handoff")
    move_cost: str = msgspec.field(default="", name="rescheduler.dev/move-cost")
    node_cost: str = msgspec.field(default="", name="rescheduler.dev/node-cost")
    default_storage_class: str = msgspec.field(
        default="", name="storageclass.kubernetes.io/is-default-class"
    )
    # The storage ones count by being there, whatever they say.
    selected_node: str | None = msgspec.field(
        default=None, name="volume.kubernetes.io/selected-node"
    )
    bind_completed: str | None = msgspec.field(default=None, name="pv.kubernetes.io/bind-completed")
    storage_class: str | None = msgspec.field(
        default=None, name="volume.beta.kubernetes.io/storage-class"
    )
    migrated_plugins: str = msgspec.field(
        default="", name="storage.alpha.kubernetes.io/migrated-plugins"
    )


class Identity(Part):
    """Which object it is, in which version, and whose. Enough for workloads."""

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: Int64 = 0
    deletion_timestamp: Timestamp | None = None
    owner_references: tuple[OwnerReference, ...] = ()

    @property
    def key(self) -> str:
        """`namespace/name`, or the name alone for what has no namespace."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def controller(self) -> OwnerReference | None:
        """The one owner that makes and removes this object, if any."""
        for owner in self.owner_references:
            if owner.controller:
                return owner
        return None


class ObjectMeta(Identity):
    """What objects have whose labels, annotations or age mean something to us."""

    creation_timestamp: Timestamp | None = None
    labels: Labels = {}
    annotations: Annotations = Annotations()


class Requirement(Part):
    """One expression of a selector: key, operator, values."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class LabelSelector(Part):
    """Matches labels: all of its pairs and all of its expressions."""

    match_labels: Labels = {}
    match_expressions: tuple[Requirement, ...] = ()


class NodeSelectorTerm(Part):
    """Matches nodes by labels and by fields; a term with neither matches nothing."""

    match_expressions: tuple[Requirement, ...] = ()
    match_fields: tuple[Requirement, ...] = ()


class NodeSelector(Part):
    """Terms of which one must match."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


# ---------------------------------------------------------------- nodes


class Taint(Part):
    """Keeps pods away that do not tolerate it."""

    key: str
    value: str = ""
    effect: str = ""


class NodeSpec(Part):
    """What a person or a controller wants of the node."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    provider_id: str = msgspec.field(default="", name="providerID")


class Condition(Part):
    """One aspect of an object's state, and since when it has been so."""

    type: str
    status: str = ""
    reason: str = ""
    last_transition_time: Timestamp | None = None


class NodeStatus(Part):
    """What the node has to give, and how it is."""

    allocatable: ResourceList = {}
    conditions: tuple[Condition, ...] = ()
    declared_features: tuple[str, ...] = ()


class Node(Part):
    """A machine that pods run on."""

    metadata: ObjectMeta
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


# ---------------------------------------------------------------- pods


class ResourceRequirements(Part):
    """What a container, or a whole pod, asks for."""

    requests: ResourceList = {}


class ContainerPort(Part):
    """A port; only those with a host port are a matter for scheduling."""

    host_port: Int32 = 0
    protocol: str = "TCP"
    host_ip: str = msgspec.field(default="", name="hostIP")


class RestartRule(Part):
    """What happens when a container exits in a certain way."""

    action: str = ""


class Container(Part):
    """A container's demands. Its image, command and environment are none of our business."""

    name: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str = ""
    restart_policy_rules: tuple[RestartRule, ...] = ()


class Toleration(Part):
    """Lets a pod onto nodes with matching taints. An empty key tolerates every taint."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: Int64 | None = None


class PreferredNodeTerm(Part):
    """A wish about nodes, with its weight."""

    weight: Int32 = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Part):
    """Which nodes a pod needs and which it would like."""

    required: NodeSelector | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: tuple[PreferredNodeTerm, ...] = msgspec.field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class PodAffinityTerm(Part):
    """Other pods, and the topology within which to be near them or apart from them."""

    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(Part):
    """A wish about neighbours, with its weight."""

    weight: Int32 = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(Part):
    """Terms about neighbours: which are needed and which would be liked."""

    required: tuple[PodAffinityTerm, ...] = msgspec.field(
        default=(), name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: tuple[WeightedPodAffinityTerm, ...] = msgspec.field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(Part):
    """What a pod says about its place."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(Part):
    """How evenly matching pods must lie over the domains of a topology key."""

    max_skew: Int32 = 1
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: Int32 | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] = ()


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


class PodResourceClaim(Part):
    """A claim for a device, which another part of the scheduler judges."""

    name: str = ""


class SchedulingGate(Part):
    """Something that holds a pod back from being scheduled."""

    name: str = ""


class PodSpec(Part):
    """What a pod asks for."""

    node_name: str = ""
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    overhead: ResourceList = {}
    resources: ResourceRequirements | None = None
    node_selector: Labels = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    volumes: tuple[Volume, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()
    scheduling_gates: tuple[SchedulingGate, ...] = ()
    priority: Int32 = 0
    priority_class_name: str = ""
    scheduler_name: str = ""
    host_network: bool = False
    host_users: bool | None = None
    termination_grace_period_seconds: Int64 = 30


class ContainerStatus(Part):
    """What a running container was given, which a resize in place may make differ from its spec."""

    name: str = ""
    resources: ResourceRequirements | None = None
    allocated_resources: ResourceList = {}


class PodStatus(Part):
    """How a pod is doing."""

    phase: str = ""
    conditions: tuple[Condition, ...] = ()
    nominated_node_name: str = ""
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    resources: ResourceRequirements | None = None
    allocated_resources: ResourceList = {}


class Pod(Part):
    """A pod as the API server describes it."""

    metadata: ObjectMeta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


# ---------------------------------------------------------------- workloads and budgets


class Namespace(Part):
    """A namespace; its labels are what selectors ask about."""

    metadata: ObjectMeta


class BudgetSpec(Part):
    """How many pods must stay up, or how many may be down: a number or a percentage."""

    selector: LabelSelector | None = None
    min_available: Int32 | str | None = None
    max_unavailable: Int32 | str | None = None
    unhealthy_pod_eviction_policy: str = ""


class BudgetStatus(Part):
    """How much disruption the budget allows at the moment."""

    disruptions_allowed: Int32 = 0
    current_healthy: Int32 = 0
    desired_healthy: Int32 = 0
    expected_pods: Int32 = 0
    observed_generation: Int64 = 0


class PodDisruptionBudget(Part):
    """A promise about how many pods of an application stay up."""

    metadata: ObjectMeta
    spec: BudgetSpec = BudgetSpec()
    status: BudgetStatus = BudgetStatus()


class RollingUpdate(Part):
    """How a rollout may go over and under the desired count."""

    max_surge: Int32 | str | None = None
    max_unavailable: Int32 | str | None = None


class Strategy(Part):
    """How a workload replaces its pods."""

    type: str = ""
    rolling_update: RollingUpdate | None = None


class WorkloadSpec(Part):
    """What the workloads' specifications have in common, and the little in which they differ."""

    replicas: Int32 | None = None
    selector: LabelSelector | None = None
    strategy: Strategy = Strategy()
    min_ready_seconds: Int32 = 0
    paused: bool = False


class WorkloadStatus(Part):
    """How far a workload is."""

    observed_generation: Int64 = 0
    replicas: Int32 = 0
    ready_replicas: Int32 = 0
    available_replicas: Int32 = 0
    updated_replicas: Int32 = 0


class ReplicaSet(Part):
    """Keeps a number of equal pods running."""

    metadata: Identity
    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()


class Deployment(Part):
    """Keeps one ReplicaSet per version of an application."""

    metadata: Identity
    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()


class StatefulSet(Part):
    """Keeps pods with an identity."""

    metadata: Identity
    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()


class ReplicationControllerSpec(Part):
    """Like a ReplicaSet's, but its selector is plain labels."""

    replicas: Int32 | None = None
    selector: Labels = {}
    min_ready_seconds: Int32 = 0


class ReplicationController(Part):
    """The ReplicaSet's forerunner."""

    metadata: Identity
    spec: ReplicationControllerSpec = ReplicationControllerSpec()
    status: WorkloadStatus = WorkloadStatus()


class DaemonSet(Part):
    """Keeps a pod on each node."""

    metadata: Identity


class Job(Part):
    """Runs pods to their end."""

    metadata: Identity


class PriorityClass(Part):
    """A name for a priority."""

    metadata: ObjectMeta
    value: Int32 = 0
    global_default: bool = False


# ---------------------------------------------------------------- storage


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
    """A label and the values of it in which storage can be made."""

    key: str
    values: tuple[str, ...] = ()


class TopologySelectorTerm(Part):
    """All of its label requirements together."""

    match_label_expressions: tuple[TopologyRequirement, ...] = ()


class StorageClass(Part):
    """How storage is made, and when it is bound."""

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


# ---------------------------------------------------------------- lists


class ListMeta(Part):
    """Where a list was taken, and how to get its next page."""

    resource_version: str = ""
    continue_token: str = msgspec.field(default="", name="continue")


class Page(msgspec.Struct, Generic[T], frozen=True):
    """One page of a list."""

    items: list[T] = []
    metadata: ListMeta = ListMeta()
