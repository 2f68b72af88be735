# mypy: disable-error-code="misc"
# (mypy does not see that structs inherit being frozen)
"""Pods of migrations, with all their labels and annotations.

Snapshots leave most labels and all annotations out, because there are so many pods. These are
few: the pods that are being moved, and the new pods that replace them.
"""

from datetime import timedelta
from typing import Any

from rescheduler.labels import CREATED_BY_US, MIGRATION_STATUS, PLACING_GATE
from rescheduler.model.kinds import Kind
from rescheduler.model.objects import Identity, Labels, Part, SchedulingGate, Volume
from rescheduler.model.objects.parts import Int32, Int64, Timestamp

LEFT_SERVICES = "LeftServices"
"""The reason of the condition `Ready` by which a migration takes a pod out of its Services."""


class PodMeta(Identity):
    """A pod's metadata with all labels and annotations."""

    generate_name: str = ""
    creation_timestamp: Timestamp | None = None
    deletion_grace_period_seconds: Int64 | None = None
    labels: Labels = {}
    annotations: dict[str, str] = {}


class PodCondition(Part):
    """A condition in a pod's status."""

    type: str
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: Timestamp | None = None


class ContainerWaiting(Part):
    """Why a container is not running."""

    reason: str = ""
    message: str = ""


class ContainerTerminated(Part):
    """How a container has ended."""

    reason: str = ""
    exit_code: Int32 = 0


class ContainerState(Part):
    """The state of a container; it is not read whether it is running."""

    waiting: ContainerWaiting | None = None
    terminated: ContainerTerminated | None = None


class MovingContainerStatus(Part):
    """The status of one container."""

    name: str = ""
    restart_count: Int32 = 0
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()
    """How it ended before its last restart."""


class MovingPodStatus(Part):
    """The status of a pod, with the conditions and container states that explain a failure."""

    phase: str = ""
    nominated_node_name: str = ""
    reason: str = ""
    message: str = ""
    conditions: tuple[PodCondition, ...] = ()
    container_statuses: tuple[MovingContainerStatus, ...] = ()
    init_container_statuses: tuple[MovingContainerStatus, ...] = ()


class Lifecycle(Part):
    """What a container does when it starts and stops."""

    pre_stop: dict[str, Any] | None = None


class MovingContainer(Part):
    """A container, with its resources as JSON: they may be copied to the new pod."""

    name: str = ""
    resources: dict[str, Any] = {}
    lifecycle: Lifecycle = Lifecycle()


class ReadinessGate(Part):
    """A condition without which a pod is not Ready."""

    condition_type: str = ""


class MovingPodSpec(Part):
    """The part of a pod's spec that a migration depends on."""

    node_name: str = ""
    scheduler_name: str = ""
    scheduling_gates: tuple[SchedulingGate, ...] = ()
    containers: tuple[MovingContainer, ...] = ()
    init_containers: tuple[MovingContainer, ...] = ()
    resources: dict[str, Any] = {}
    """What the pod as a whole asks for, beside its containers."""
    restart_policy: str = ""
    termination_grace_period_seconds: Int64 | None = None
    readiness_gates: tuple[ReadinessGate, ...] = ()
    volumes: tuple[Volume, ...] = ()
    affinity: dict[str, Any] | None = None
    topology_spread_constraints: tuple[dict[str, Any], ...] = ()
    """As JSON, like the affinity: the server has added to both what a new pod needs, too."""


class MovingPod(Part):
    """A pod that is being moved, or the new pod that replaces it."""

    metadata: PodMeta
    spec: MovingPodSpec = MovingPodSpec()
    status: MovingPodStatus = MovingPodStatus()

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return self.metadata.key

    @property
    def uid(self) -> str:
        """The uid, which tells it from another pod of the same name."""
        return self.metadata.uid

    @property
    def node(self) -> str:
        """The node it is bound to, or an empty string."""
        return self.spec.node_name

    @property
    def is_gated_by_us(self) -> bool:
        """Whether its target is not nominated for good yet: the scheduler waits for us."""
        return any(gate.name == PLACING_GATE for gate in self.spec.scheduling_gates)

    @property
    def is_marked_as_created(self) -> bool:
        """Whether a migration has written into its status that it has created it."""
        mark = self.condition(CREATED_BY_US)
        return mark is not None and mark.status == "True"

    @property
    def is_ours(self) -> bool:
        """Whether a migration has provably created it, and no workload has adopted it since.

        Labels and annotations prove nothing, for whoever may patch pods may write them. But nobody
        can add a gate to a pod that exists, and the status of pods is another right.
        """
        return self.is_gated_by_us or self.is_marked_as_created

    @property
    def foreign_gates(self) -> list[str]:
        """The gates that somebody else has put on it, and has to remove."""
        names = [gate.name for gate in self.spec.scheduling_gates]
        return [name for name in names if name != PLACING_GATE]

    @property
    def is_deleting(self) -> bool:
        """Whether it has been deleted and is terminating."""
        return self.metadata.deletion_timestamp is not None

    @property
    def deleted_at(self) -> Timestamp | None:
        """When it was deleted, by the server's clock; its deletion time is when it must end."""
        deadline = self.metadata.deletion_timestamp
        if deadline is None:
            return None
        return deadline - timedelta(seconds=self.metadata.deletion_grace_period_seconds or 0)

    @property
    def is_finished(self) -> bool:
        """Whether its containers have terminated for good."""
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def has_failed(self) -> bool:
        """Whether it ended with an error, was not admitted by its kubelet, or was evicted by it."""
        return self.status.phase == "Failed"

    @property
    def ready_since(self) -> Timestamp | None:
        """The time since which it is Ready; None if it is not, or is terminating."""
        ready = self.condition("Ready")
        if ready is None or ready.status != "True" or self.is_deleting:
            return None
        return ready.last_transition_time

    @property
    def is_ready(self) -> bool:
        """Whether it is Ready and not terminating."""
        ready = self.condition("Ready")
        return ready is not None and ready.status == "True" and not self.is_deleting

    @property
    def has_left_services(self) -> bool:
        """Whether a migration has taken it out of its Services, and nobody has put it back."""
        ready = self.condition("Ready")
        return ready is not None and ready.status == "False" and ready.reason == LEFT_SERVICES

    @property
    def left_services_at(self) -> Timestamp | None:
        """When a migration took it out of its Services, in whole seconds; None if none did."""
        ready = self.condition("Ready")
        return ready.last_transition_time if ready is not None and self.has_left_services else None

    @property
    def is_healthy(self) -> bool:
        """Whether it would be Ready if no migration had taken it out of its Services."""
        gates = [gate.condition_type for gate in self.spec.readiness_gates]
        found = [self.condition(type) for type in ("ContainersReady", *gates)]
        return all(condition is not None and condition.status == "True" for condition in found)

    @property
    def has_pre_stop_hooks(self) -> bool:
        """Whether all its containers do something before they are stopped."""
        containers = self.spec.containers
        return all(container.lifecycle.pre_stop is not None for container in containers)

    def condition(self, type: str) -> PodCondition | None:
        """The condition of this type, if it has been set."""
        conditions = self.status.conditions
        return next((condition for condition in conditions if condition.type == type), None)


LABELLED_POD = Kind(
    "Pod", "v1", "pods", True, MovingPod, selector=f"{MIGRATION_STATUS} in (in-progress)"
)
"""Pods labelled with a migration that may still be rolled back. Each of them either belongs to a
Migration that is in progress, or is a leftover."""
