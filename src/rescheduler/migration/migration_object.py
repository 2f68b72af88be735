# mypy: disable-error-code="misc"
# (mypy does not see that structs inherit being frozen)
"""The Migration: a move being carried out, and all that is known about how it goes."""

from enum import StrEnum

from rescheduler.model.kinds import Kind
from rescheduler.model.moves import Mode, Outcome
from rescheduler.model.objects import Identity, Labels, Part
from rescheduler.model.objects.parts import Int32, Timestamp

API_VERSION = "rescheduler.dev/v1alpha1"


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
    steered: bool | None = None
    """Whether the scheduler was told where an evicted pod's replacement should go."""
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


MIGRATION = Kind("Migration", API_VERSION, "migrations", True, Migration)
