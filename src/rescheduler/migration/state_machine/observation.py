"""What a migration sees of the cluster, at the moment it decides what to do next."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from rescheduler.labels import MIGRATION_ID
from rescheduler.migration.migration_object import Migration
from rescheduler.migration.moving_pod import MovingPod
from rescheduler.migration.workload_objects import PodTemplate
from rescheduler.model.objects import Deployment, LabelSelector, Node, PodDisruptionBudget, Service
from rescheduler.model.objects.workloads import ReplicaSet, ReplicationController
from rescheduler.settings import MigrationOptions


@dataclass(frozen=True)
class ObservedWorkload:
    """A ReplicaSet or ReplicationController, and the Deployment above it if there is one."""

    kind: str
    owner: ReplicaSet | ReplicationController
    selector: LabelSelector
    template: PodTemplate
    deployment: Deployment | None = None

    @property
    def replicas(self) -> int:
        """How many pods it wants."""
        wanted = self.owner.spec.replicas
        return 1 if wanted is None else wanted

    @property
    def is_going(self) -> bool:
        """Whether someone is deleting it."""
        above = self.deployment.metadata.deletion_timestamp if self.deployment else None
        return self.owner.metadata.deletion_timestamp is not None or above is not None

    @property
    def name(self) -> str:
        """What people call it: the Deployment's name, if there is one."""
        if self.deployment is not None:
            return f"Deployment {self.deployment.metadata.name}"
        return f"{self.kind} {self.owner.metadata.name}"


@dataclass(frozen=True)
class EvictionAnswer:
    """What the server says to an eviction of the old pod, without carrying it out."""

    is_allowed: bool
    by_budget: bool = False
    """Whether a disruption budget refused it, rather than something else."""
    text: str = ""


@dataclass(frozen=True)
class Answers:
    """What was asked of the server for this one decision, because a watch may lag behind."""

    siblings: tuple[MovingPod, ...] | None = None
    """Every pod that the workload's selector matches, now."""
    eviction: EvictionAnswer | None = None
    services: tuple[Service, ...] | None = None
    """The Services of the pod's namespace."""
    candidates: tuple[MovingPod, ...] | None = None
    """Pods that the old pod's controller has, now."""


@dataclass(frozen=True)
class Observation:
    """All that a decision may be based on."""

    now: datetime
    migration: Migration
    options: MigrationOptions
    old: MovingPod | None = None
    """The very pod that is to be moved; None if it is gone."""
    new: MovingPod | None = None
    """The pod of this attempt, whoever made it."""
    workload: ObservedWorkload | None = None
    target: Node | None = None
    budgets: tuple[PodDisruptionBudget, ...] = ()
    """Those that protect the old pod, without our own."""
    own_budget: PodDisruptionBudget | None = None
    has_single_node_volume: bool = False
    no_place: str = ""
    """Why it may not start: a limit on how many are in flight."""
    answers: Answers = Answers()

    @property
    def timeout(self) -> timedelta:
        """How long a step may take."""
        asked = self.migration.spec.timeout_seconds
        return timedelta(seconds=self.options.timeout_seconds if asked is None else asked)

    @property
    def step_ends(self) -> datetime:
        """When the current step has taken too long."""
        began = self.migration.status.step_started_at
        return (self.now if began is None else began) + self.timeout

    @property
    def has_old(self) -> bool:
        """Whether the old pod is there to stay, unless we do something."""
        return self.old is not None and not self.old.is_deleting and not self.old.is_over

    @property
    def is_ours(self) -> bool:
        """Whether the new pod is one that this migration made."""
        return self.new is not None and is_marked(self.new, self.migration)


def is_marked(pod: MovingPod, migration: Migration) -> bool:
    """Whether a pod carries this migration's mark."""
    return pod.metadata.labels.get(MIGRATION_ID) == migration.metadata.uid
