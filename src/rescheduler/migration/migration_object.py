# mypy: disable-error-code="misc"
# (mypy does not see that structs inherit being frozen)
"""The Migration object: a move being carried out, and its status."""

from datetime import datetime
from enum import StrEnum

from rescheduler.model.kinds import Kind
from rescheduler.model.moves import Mode, Outcome
from rescheduler.model.objects import Identity, Labels, Part
from rescheduler.model.objects.parts import Int32, Timestamp

API_VERSION = "rescheduler.dev/v1alpha1"


class Phase(StrEnum):
    """The phase of a migration."""

    PENDING = "Pending"
    IN_PROGRESS = "InProgress"
    COMPLETED = "Completed"
    FAILED = "Failed"
    CANCELLED = "Cancelled"


FINISHED = (Phase.COMPLETED, Phase.FAILED, Phase.CANCELLED)


class Step(StrEnum):
    """The step of a migration in progress."""

    NONE = ""
    STARTING = "Starting"
    """The new pod is created and must become Ready."""
    HANDING_OVER = "HandingOver"
    """The new pod is Ready: the workload adopts it, or the old pod is evicted."""
    EVICTING = "Evicting"
    """The old pod is to be evicted."""
    LANDING = "Landing"
    """The old pod was evicted, and its replacement must become Ready."""
    UNDOING = "Undoing"
    """The attempt is being rolled back."""


STARTED, NEW_POD_READY, RETIRING = "Started", "NewPodReady", "Retiring"
FINISHED_CONDITION, FITS_BESIDE_OLD_POD = "Finished", "FitsBesideOldPod"
"""The types of a Migration's conditions."""


class PodReference(Part):
    """The pod to move. The uid tells it from another pod of the same name."""

    name: str
    uid: str = ""


class WorkloadReference(Part):
    """The controller of the pod, as it was when the migration started."""

    kind: str
    name: str
    uid: str = ""
    replicas: Int32 | None = None
    template_hash: str = ""


class MigrationSpec(Part):
    """The requested move."""

    pod: PodReference
    target_node: str
    mode: Mode = Mode.AUTO
    reason: str = ""
    strategy: str = ""
    timeout_seconds: Int32 | None = None
    paused: bool = False
    ttl_seconds_after_finished: Int32 | None = None


class MigrationCondition(Part):
    """A condition in a Migration's status."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: Timestamp | None = None


class MigrationStatus(Part):
    """The progress of a migration. Only controllers write it."""

    phase: Phase = Phase.PENDING
    step: Step = Step.NONE
    mode: Mode | None = None
    """The mode that was selected, never `Auto`."""
    attempts: Int32 = 0
    failures: Int32 = 0
    source_node: str = ""
    new_pod: str = ""
    new_node: str = ""
    workload: WorkloadReference | None = None
    outcome: Outcome = Outcome.NONE
    steered: bool | None = None
    """Whether an evicted pod's replacement was steered to the target."""
    message: str = ""
    after_undoing: Phase | None = None
    """The phase that follows a rollback."""
    step_started_at: Timestamp | None = None
    retry_at: Timestamp | None = None
    finished_at: Timestamp | None = None
    conditions: tuple[MigrationCondition, ...] = ()


class MigrationMeta(Identity):
    """The metadata of a Migration."""

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
        """`namespace/name` of the pod to move."""
        return f"{self.metadata.namespace}/{self.spec.pod.name}"

    @property
    def is_finished(self) -> bool:
        """Whether it has reached a final phase."""
        return self.status.phase in FINISHED

    @property
    def is_in_progress(self) -> bool:
        """Whether it counts as a migration in flight."""
        return self.status.phase == Phase.IN_PROGRESS

    @property
    def started_at(self) -> datetime | None:
        """When the current attempt started, if there has been one."""
        for condition in self.status.conditions:
            if condition.type == STARTED:
                return condition.last_transition_time
        return None


MIGRATION = Kind("Migration", API_VERSION, "migrations", True, Migration)
