# mypy: disable-error-code="misc"
# (mypy does not see that structs inherit being frozen)
"""The Migration object: a move being carried out, and its status."""

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
OLD_POD_ENDED, PLACED_AS_NOMINATED = "OldPodEnded", "PlacedAsNominated"
PUT_BACK_BY_KUBELET = "PutBackByKubelet"
"""The types of a Migration's conditions."""

NOMINATION_IGNORED = "NominationIgnored"
"""The reason why a pod was placed elsewhere twice: its scheduler does not look at nominations."""


class PodReference(Part):
    """The pod to move. The uid tells it from another pod of the same name."""

    name: str
    uid: str = ""


class WorkloadReference(Part):
    """The controller of the pod, as it was when the migration started."""

    kind: str
    name: str
    uid: str = ""
    api_version: str = ""
    replicas: Int32 | None = None
    """How many pods it wanted; of an unknown kind, how many it had."""
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
    evicted_at: Timestamp | None = None
    """When the old pod was evicted, by the server's clock: its replacement is not older."""
    newest_sibling_at: Timestamp | None = None
    """When the newest sibling of the old pod was created, if that was after this Migration: the
    replacement is newer."""
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
    def is_pending(self) -> bool:
        """Whether no attempt is in progress: it has changed nothing, or all of it was restored."""
        return self.status.phase == Phase.PENDING

    @property
    def is_in_progress(self) -> bool:
        """Whether it counts as a migration in flight."""
        return self.status.phase == Phase.IN_PROGRESS

    @property
    def is_unreplaced(self) -> bool:
        """Whether its pod was evicted, and no replacement became Ready in time."""
        return self.status.phase == Phase.FAILED and self.condition(RETIRING) is not None

    @property
    def has_ignored_nomination(self) -> bool:
        """Whether the scheduler of its pod was found not to look at nominations."""
        found = self.condition(PLACED_AS_NOMINATED)
        return found is not None and found.reason == NOMINATION_IGNORED

    def condition(self, type: str) -> MigrationCondition | None:
        """The condition of this type, if it has been set."""
        conditions = self.status.conditions
        return next((condition for condition in conditions if condition.type == type), None)


MIGRATION = Kind("Migration", API_VERSION, "migrations", True, Migration)
