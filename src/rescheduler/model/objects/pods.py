# mypy: disable-error-code="misc"
# (mypy does not see that structs inherit being frozen)
"""Pods: what they ask for, where they want to be, and how they do."""

import msgspec

from rescheduler.model.objects.parts import (
    Condition,
    Int32,
    Labels,
    LabelSelector,
    NodeSelector,
    NodeSelectorTerm,
    ObjectMeta,
    Part,
    ResourceList,
    ResourceRequirements,
)
from rescheduler.model.objects.volumes import Volume


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


class PreferredNodeTerm(Part):
    """A preferred node selector term, with its weight."""

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
    """A preferred pod affinity term, with its weight."""

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


class PodResourceClaim(Part):
    """A claim for a device, which another part of the scheduler judges."""

    name: str = ""


class SchedulingGate(Part):
    """Keeps the scheduler from placing the pod, until whoever has added it removes it."""

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
    priority: Int32 = 0
    priority_class_name: str = ""
    host_network: bool = False
    host_users: bool | None = None
    restart_policy: str = ""
    scheduling_gates: tuple[SchedulingGate, ...] = ()


class ContainerStatus(Part):
    """What a running container was given. It differs from the spec during an in-place resize."""

    name: str = ""
    resources: ResourceRequirements | None = None
    allocated_resources: ResourceList = {}


class PodStatus(Part):
    """How a pod is doing."""

    phase: str = ""
    nominated_node_name: str = ""
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    resources: ResourceRequirements | None = None
    allocated_resources: ResourceList = {}


class Pod(Part):
    """A pod as the API server describes it."""

    metadata: ObjectMeta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()
