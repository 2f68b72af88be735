# mypy: disable-error-code="misc"
# (mypy does not see that structs inherit being frozen)
"""Pods of migrations, with all their labels and annotations.

Snapshots leave most labels and all annotations out, because there are so many pods. These are
few: the pods that are being moved, and the new pods that replace them.
"""

from rescheduler.labels import MIGRATION_STATUS
from rescheduler.model.kinds import Kind
from rescheduler.model.objects import Identity, Labels, Part, Volume
from rescheduler.model.objects.parts import Int32, Int64, Timestamp


class PodMeta(Identity):
    """A pod's metadata with all labels and annotations."""

    creation_timestamp: Timestamp | None = None
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


class ContainerState(Part):
    """The state of a container; only `waiting` is read."""

    waiting: ContainerWaiting | None = None


class MovingContainerStatus(Part):
    """The status of one container."""

    name: str = ""
    restart_count: Int32 = 0
    state: ContainerState = ContainerState()


class MovingPodStatus(Part):
    """The status of a pod, with the conditions and container states that explain a failure."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: tuple[PodCondition, ...] = ()
    container_statuses: tuple[MovingContainerStatus, ...] = ()
    init_container_statuses: tuple[MovingContainerStatus, ...] = ()


class MovingPodSpec(Part):
    """The part of a pod's spec that a migration depends on."""

    node_name: str = ""
    restart_policy: str = ""
    termination_grace_period_seconds: Int64 | None = None
    volumes: tuple[Volume, ...] = ()


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
    def is_deleting(self) -> bool:
        """Whether it has been deleted and is terminating."""
        return self.metadata.deletion_timestamp is not None

    @property
    def is_finished(self) -> bool:
        """Whether its containers have terminated for good."""
        return self.status.phase in ("Succeeded", "Failed")

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

    def condition(self, type: str) -> PodCondition | None:
        """The condition of this type, if it has been set."""
        conditions = self.status.conditions
        return next((condition for condition in conditions if condition.type == type), None)


LABELLED_POD = Kind(
    "Pod", "v1", "pods", True, MovingPod, selector=f"{MIGRATION_STATUS} in (in-progress)"
)
"""Pods labelled with a migration that may still be rolled back. Each of them either belongs to a
Migration that is in progress, or is a leftover."""
