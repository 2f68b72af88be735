"""What the state machine knows of the cluster when it decides on the next action."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from rescheduler.migration.migration_labels import is_labelled_for
from rescheduler.migration.migration_object import Migration
from rescheduler.migration.moving_pod import MovingPod
from rescheduler.migration.workload_objects import ObservedWorkload
from rescheduler.model.objects import Node, PodDisruptionBudget, Service
from rescheduler.settings import MigrationOptions


@dataclass(frozen=True)
class EvictionAnswer:
    """The server's answer to a dry-run eviction of the old pod."""

    is_allowed: bool
    by_budget: bool = False
    """Whether a disruption budget is the reason for the refusal."""
    text: str = ""


@dataclass(frozen=True)
class QuestionAnswers:
    """The server's answers to questions, for this one decision: a watch may lag behind."""

    siblings: tuple[MovingPod, ...] | None = None
    """Every pod that the workload's selector matches."""
    eviction: EvictionAnswer | None = None
    services: tuple[Service, ...] | None = None
    """The Services of the pod's namespace."""
    candidates: tuple[MovingPod, ...] | None = None
    """The pods of the old pod's controller."""


@dataclass(frozen=True)
class Observation:
    """Everything that a decision may depend on."""

    now: datetime
    migration: Migration
    options: MigrationOptions
    allow_bare_pods: bool = False
    """Whether pods without a controller may be moved."""
    old: MovingPod | None = None
    """The pod to move; None if it no longer exists."""
    new: MovingPod | None = None
    """The pod with the name of this attempt's new pod, whoever created it."""
    workload: ObservedWorkload | None = None
    target: Node | None = None
    budgets: tuple[PodDisruptionBudget, ...] = ()
    """The disruption budgets that protect the old pod, except our temporary one."""
    own_budget: PodDisruptionBudget | None = None
    """The temporary disruption budget of this migration."""
    has_single_node_volume: bool = False
    reached_limit: str = ""
    """The limit on migrations in flight that keeps it from starting, as a message."""
    answers: QuestionAnswers = QuestionAnswers()

    @property
    def timeout(self) -> timedelta:
        """How long a step may take."""
        requested = self.migration.spec.timeout_seconds
        return timedelta(seconds=self.options.timeout_seconds if requested is None else requested)

    @property
    def step_deadline(self) -> datetime:
        """When the current step has taken too long."""
        started = self.migration.status.step_started_at
        return (self.now if started is None else started) + self.timeout

    @property
    def is_old_running(self) -> bool:
        """Whether the old pod exists, and is neither terminating nor finished."""
        return self.old is not None and not self.old.is_deleting and not self.old.is_finished

    @property
    def is_new_ours(self) -> bool:
        """Whether this migration has created the new pod."""
        return self.new is not None and is_labelled_for(self.new, self.migration)
