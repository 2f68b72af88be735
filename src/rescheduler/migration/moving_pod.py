# mypy: disable-error-code="misc"
# (mypy does not see that structs inherit being frozen)
"""Pods of migrations, with all that is written on them.

Snapshots leave most labels and all annotations out, because there are so many pods. These are
few: those that are being moved, and their successors.
"""

from rescheduler.labels import MIGRATION_STATUS
from rescheduler.model.kinds import Kind
from rescheduler.model.objects import Identity, Labels, Part, Volume
from rescheduler.model.objects.parts import Int32, Int64, Timestamp


class PodMeta(Identity):
    """A pod's metadata with everything that is written on it."""

    creation_timestamp: Timestamp | None = None
    labels: Labels = {}
    annotations: dict[str, str] = {}


class PodCondition(Part):
    """One aspect of a pod's state, since when, and why."""

    type: str
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: Timestamp | None = None


class Waiting(Part):
    """Why a container does not run."""

    reason: str = ""
    message: str = ""


class ContainerState(Part):
    """What a container does; only waiting is of interest."""

    waiting: Waiting | None = None


class ContainerProgress(Part):
    """How a container gets along."""

    name: str = ""
    restart_count: Int32 = 0
    state: ContainerState = ContainerState()


class PodProgress(Part):
    """How a pod gets along."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: tuple[PodCondition, ...] = ()
    container_statuses: tuple[ContainerProgress, ...] = ()
    init_container_statuses: tuple[ContainerProgress, ...] = ()


class PlacedSpec(Part):
    """Where a pod is, and how it wants to end."""

    node_name: str = ""
    restart_policy: str = ""
    termination_grace_period_seconds: Int64 | None = None
    volumes: tuple[Volume, ...] = ()


class MovingPod(Part):
    """A pod of a migration."""

    metadata: PodMeta
    spec: PlacedSpec = PlacedSpec()
    status: PodProgress = PodProgress()

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return self.metadata.key

    @property
    def uid(self) -> str:
        """Which very pod it is."""
        return self.metadata.uid

    @property
    def node(self) -> str:
        """Where it runs, or nothing."""
        return self.spec.node_name

    @property
    def is_deleting(self) -> bool:
        """Whether it is on its way out."""
        return self.metadata.deletion_timestamp is not None

    @property
    def is_over(self) -> bool:
        """Whether its containers have ended for good."""
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def ready_since(self) -> Timestamp | None:
        """Since when it is Ready; None if it is not."""
        ready = self.condition("Ready")
        if ready is None or ready.status != "True" or self.is_deleting:
            return None
        return ready.last_transition_time

    @property
    def is_ready(self) -> bool:
        """Whether it serves, and is not about to stop."""
        ready = self.condition("Ready")
        return ready is not None and ready.status == "True" and not self.is_deleting

    def condition(self, type: str) -> PodCondition | None:
        """One of its conditions, if it has been judged."""
        return next((each for each in self.status.conditions if each.type == type), None)


MARKED_POD = Kind(
    "Pod", "v1", "pods", True, MovingPod, selector=f"{MIGRATION_STATUS} in (in-progress)"
)
"""Pods of migrations that may still have to be undone. Whatever else happens, each of these is
either part of a living Migration or a leftover."""
