# mypy: disable-error-code="misc"
# (mypy does not see that structs inherit being frozen)
"""The Migration, and the parts of other objects that carrying it out needs to see.

Pods are read here with all their labels and annotations, which snapshots leave out, because few
are looked at: those of migrations under way.
"""

from enum import StrEnum

import msgspec

from rescheduler.labels import MIGRATION_STATUS
from rescheduler.model.kinds import Kind
from rescheduler.model.objects import Identity, Labels, LabelSelector, Part, Strategy, Volume
from rescheduler.model.objects.parts import Int32, Int64, Timestamp

API_VERSION = "rescheduler.dev/v1alpha1"


class Mode(StrEnum):
    """How a pod is asked to be moved."""

    AUTO = "Auto"
    """The gentlest way that fits."""
    HANDOFF = "Handoff"
    EVICT = "Evict"
    RECREATE = "Recreate"


class Phase(StrEnum):
    """How far a migration is."""

    PENDING = "Pending"
    IN_PROGRESS = "InProgress"
    COMPLETED = "Completed"
    FAILED = "Failed"
    CANCELLED = "Cancelled"


FINISHED = (Phase.COMPLETED, Phase.FAILED, Phase.CANCELLED)


class Step(StrEnum):
    """What a migration in progress is doing."""

    NONE = ""
    STARTING = "Starting"
    """The new pod is made, or awaited until it is Ready."""
    HANDING_OVER = "HandingOver"
    """The new pod is given to the workload, or the old one evicted beside it."""
    EVICTING = "Evicting"
    """The old pod is asked to go."""
    LANDING = "Landing"
    """The old pod is gone, and its replacement is awaited."""
    UNDOING = "Undoing"
    """Everything is put back as it was."""


class Outcome(StrEnum):
    """Where the move ended, for the planner's memory."""

    NONE = ""
    LANDED = "Landed"
    ELSEWHERE = "Elsewhere"
    CAME_BACK = "CameBack"
    FAILED = "Failed"


class PodReference(Part):
    """The very pod that is meant: another of the same name is none of the migration's business."""

    name: str
    uid: str = ""


class WorkloadReference(Part):
    """Whose pod it is, as it was when the migration began."""

    kind: str
    name: str
    uid: str = ""
    replicas: Int32 | None = None
    template_hash: str = ""


class MigrationSpec(Part):
    """What is asked for."""

    pod: PodReference
    target_node: str
    mode: Mode = Mode.AUTO
    reason: str = ""
    strategy: str = ""
    timeout_seconds: Int32 | None = None
    paused: bool = False
    ttl_seconds_after_finished: Int32 | None = None


class MigrationCondition(Part):
    """A thing that happened, and when."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: Timestamp | None = None


class MigrationStatus(Part):
    """How it goes. Written by controllers only."""

    phase: Phase = Phase.PENDING
    step: Step = Step.NONE
    mode: Mode | None = None
    """The way that was chosen; `Auto` is none."""
    attempts: Int32 = 0
    failures: Int32 = 0
    source_node: str = ""
    new_pod: str = ""
    new_node: str = ""
    workload: WorkloadReference | None = None
    outcome: Outcome = Outcome.NONE
    message: str = ""
    after_undoing: Phase | None = None
    step_started_at: Timestamp | None = None
    retry_at: Timestamp | None = None
    finished_at: Timestamp | None = None
    conditions: tuple[MigrationCondition, ...] = ()


class MigrationMeta(Identity):
    """Which Migration it is, and since when."""

    creation_timestamp: Timestamp | None = None
    labels: Labels = {}


class Migration(Part):
    """A move being carried out."""

    metadata: MigrationMeta
    spec: MigrationSpec
    status: MigrationStatus = MigrationStatus()

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return self.metadata.key

    @property
    def pod_key(self) -> str:
        """`namespace/name` of the pod to be moved."""
        return f"{self.metadata.namespace}/{self.spec.pod.name}"

    @property
    def is_finished(self) -> bool:
        """Whether nothing more will happen to it."""
        return self.status.phase in FINISHED

    @property
    def is_in_progress(self) -> bool:
        """Whether it takes up a place in flight."""
        return self.status.phase == Phase.IN_PROGRESS


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


class OwnerMeta(Identity):
    """A workload's metadata with its annotations."""

    annotations: dict[str, str] = {}


class TemplateMeta(Part):
    """What a template writes on its pods."""

    labels: Labels = {}
    annotations: dict[str, str] = {}
    finalizers: tuple[str, ...] = ()


class PodTemplate(Part):
    """What a workload makes its pods from. The spec is kept as it came: all of it is copied."""

    metadata: TemplateMeta = TemplateMeta()
    spec: msgspec.Raw = msgspec.Raw(b"{}")


class OwnerSpec(Part):
    """What a workload wants. A ReplicationController's selector is plain labels."""

    replicas: Int32 | None = None
    selector: LabelSelector | None = None
    min_ready_seconds: Int32 = 0
    strategy: Strategy = Strategy()
    template: PodTemplate = PodTemplate()


class OwnerStatus(Part):
    """How far a workload is."""

    observed_generation: Int64 = 0
    replicas: Int32 = 0
    updated_replicas: Int32 = 0


class Owner(Part):
    """A ReplicaSet, ReplicationController or Deployment, with the template of its pods."""

    metadata: OwnerMeta
    spec: OwnerSpec = OwnerSpec()
    status: OwnerStatus = OwnerStatus()


class PlainSelectorSpec(Part):
    """The one thing in which a ReplicationController differs."""

    selector: Labels = {}


class PlainSelector(Part):
    """A ReplicationController, as far as it differs."""

    spec: PlainSelectorSpec = PlainSelectorSpec()


class Service(Part):
    """Who sends traffic to pods with certain labels."""

    metadata: Identity
    spec: PlainSelectorSpec = PlainSelectorSpec()


MIGRATION = Kind("Migration", API_VERSION, "migrations", True, Migration)

MARKED_POD = Kind(
    "Pod", "v1", "pods", True, MovingPod, selector=f"{MIGRATION_STATUS} in (in-progress)"
)
"""Pods of migrations that may still have to be undone. Whatever else happens, each of these is
either part of a living Migration or a leftover."""
