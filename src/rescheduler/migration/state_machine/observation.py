"""What the state machine knows of the cluster when it decides on the next action."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from rescheduler.migration.migration_labels import (
    has_as_low_a_deletion_cost,
    has_lowered_deletion_cost,
    is_labelled_for,
)
from rescheduler.migration.migration_object import Migration
from rescheduler.migration.moving_pod import MovingPod
from rescheduler.migration.workload_objects import ObservedWorkload
from rescheduler.model.objects import Node, PodDisruptionBudget, Service
from rescheduler.model.rules.network_policies import PolicyLabels
from rescheduler.settings import MigrationOptions


@dataclass(frozen=True)
class EvictionAnswer:
    """The server's answer to a dry-run eviction of the old pod."""

    is_allowed: bool
    by_budget: bool = False
    """Whether a disruption budget is the reason for the refusal."""
    text: str = ""


@dataclass(frozen=True)
class TargetAnswer:
    """Whether the scheduler would place the new pod on its target now, as far as watches show."""

    is_known: bool
    """False until the watches show the new pod."""
    refusal: str = ""
    """Why the target does not take the new pod; empty if it does."""


PUT_BACK_PERIOD = timedelta(seconds=10)
"""How often a kubelet compares the status of its pods with its own opinion."""

PUT_BACK_MARGIN = timedelta(seconds=1)
"""How exactly that moment is known, and how long a workload may take to delete a pod."""

MAX_LATENESS = timedelta(seconds=4)
"""Later than this, the kubelet was restarted rather than slow."""


@dataclass(frozen=True)
class KubeletRhythm:
    """When the kubelet of a node puts back the status of its pods."""

    put_back_at: datetime | None = None
    """When it was seen to begin with that; it does every `PUT_BACK_PERIOD`."""
    lateness: timedelta = timedelta(0)
    """How long after it began it was seen to put back a pod: it takes one after the other."""
    is_silent: bool = False
    """Whether it was seen not to: it is no real kubelet."""

    def seen_again(self, now: datetime) -> "KubeletRhythm":
        """What is known after a pod was put back just now.

        The kubelet begins by a timer that does not drift. So a pod that was put back at another
        time was late, or those that were seen before were.
        """
        if self.put_back_at is None:
            return KubeletRhythm(put_back_at=now)
        late = (now - self.put_back_at) % PUT_BACK_PERIOD
        early = PUT_BACK_PERIOD - late
        if early < late:
            return KubeletRhythm(now, min(self.lateness + early, MAX_LATENESS))
        # What was once slow, on a busy node, is so no more after a while.
        return KubeletRhythm(now - late, min(max(self.lateness / 2, late), MAX_LATENESS))


@dataclass(frozen=True)
class Departure:
    """How far a pod is out of its Services."""

    serving: frozenset[str] = frozenset()
    """The Services that send traffic to it."""
    unlisted: frozenset[str] = frozenset()
    """Services that select it, and do not send traffic to it, or not yet: EndpointSlices lag behind
    a pod that has become Ready. Only those that it may leave, because they have another pod."""
    lonely: frozenset[str] = frozenset()
    """Those of them that do not send it to the pod that takes its place; or to any other, if there
    is no such pod yet."""
    starting: frozenset[str] = frozenset()
    """Those of the lonely ones in which another pod is about to be ready."""
    forsaken: frozenset[str] = frozenset()
    """Those of them that will have no pod: they do not select the one that takes its place."""
    rivals: tuple[str, ...] = ()
    """Pods that leave the same Services, or are protected by the same budgets, and go first."""
    left_since: datetime | None = None
    """When it was first seen marked as not Ready."""
    gone_since: datetime | None = None
    """When it was first seen in none of the EndpointSlices."""
    rhythm: KubeletRhythm = KubeletRhythm()
    is_rhythm_recorded: bool = True
    """Whether a Migration says what is known of it, or nothing is."""


class PodId(NamedTuple):
    """A pod of the workload, by uid and name."""

    uid: str
    name: str


@dataclass(frozen=True)
class WorkloadPods:
    """What decisions depend on among the pods of a workload, of which there may be thousands.

    Pods that have finished are left out: the workload does not count them.
    """

    active: int = 0
    terminating: int = 0
    """Besides the active ones: pods that are being deleted."""
    not_ready: tuple[PodId, ...] = ()
    retiring: tuple[PodId, ...] = ()
    """Those that got the lowest deletion cost from a migration."""
    newest: datetime | None = None
    """When the newest of the active ones was created."""
    expendable: tuple[PodId, ...] = ()
    """Those that got a deletion cost as low from somebody else."""
    unrestored: tuple[PodId, ...] = ()
    """Those that carry labels of a migration that no longer takes care of them."""

    @property
    def ready(self) -> int:
        """How many of them are Ready."""
        return self.active - len(self.not_ready)

    def with_page(self, pods: Iterable[MovingPod]) -> "WorkloadPods":
        """These pods and those of one more page of the list."""
        unfinished = [pod for pod in pods if not pod.is_finished]
        active = [pod for pod in unfinished if not pod.is_deleting]
        not_ready = [id_of(pod) for pod in active if not is_in_order(pod)]
        retiring = [id_of(pod) for pod in active if has_lowered_deletion_cost(pod)]
        expendable = [id_of(pod) for pod in active if has_as_low_a_deletion_cost(pod)]
        created = [self.newest, *(pod.metadata.creation_timestamp for pod in active)]
        return WorkloadPods(
            self.active + len(active),
            self.terminating + len(unfinished) - len(active),
            (*self.not_ready, *not_ready),
            (*self.retiring, *retiring),
            max((moment for moment in created if moment is not None), default=None),
            (*self.expendable, *expendable),
        )


def is_in_order(pod: MovingPod) -> bool:
    """Whether a pod is Ready, or would be if it were not about to be replaced."""
    return pod.is_ready or (pod.has_left_services and pod.is_healthy)


def id_of(pod: MovingPod) -> PodId:
    """The uid and the name of a pod."""
    return PodId(pod.uid, pod.metadata.name)


@dataclass(frozen=True)
class QuestionAnswers:
    """The server's answers to questions, for this one decision: a watch may lag behind."""

    siblings: WorkloadPods | None = None
    eviction: EvictionAnswer | None = None
    services: tuple[Service, ...] | None = None
    """The Services of the pod's namespace."""
    policies: PolicyLabels | None = None
    """By which labels policies select pods."""
    candidates: tuple[MovingPod, ...] | None = None
    """The pods of the old pod's controller."""
    target: TargetAnswer | None = None
    old_departure: Departure | None = None
    new_departure: Departure | None = None


class ReplicaCounts(NamedTuple):
    """How many pods a workload wants, and how many of them it reports as Ready."""

    desired: int
    ready: int


@dataclass(frozen=True)
class Refusal:
    """A write that the server refused for good."""

    uid: str
    """Of the object that was to be changed; empty if it was to be created."""
    text: str
    """Which write it was, and the server's words."""


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
    workload_ending: str = ""
    """Why the controller of the old pod would not replace it: it is being deleted, or is gone."""
    replicas: ReplicaCounts | None = None
    """What the workload says about its number of pods, if it is of a kind that we know."""
    unreplaced_from: int = 0
    """How many pods the workload had before one was evicted that was not replaced; 0 if all were.
    It matters for workloads of unknown kinds, of which nobody knows how many pods they want."""
    placing_blocker: str = ""
    """Why no new pod of this workload can be placed on a chosen node; empty if one can."""
    target: Node | None = None
    budgets: tuple[PodDisruptionBudget, ...] = ()
    """The disruption budgets that protect the old pod, except our temporary one."""
    own_budget: PodDisruptionBudget | None = None
    """The temporary disruption budget of this migration."""
    has_single_node_volume: bool = False
    reached_limit: str = ""
    """The limit on migrations in flight that keeps it from starting, as a message."""
    answers: QuestionAnswers = QuestionAnswers()
    refusals: tuple[Refusal, ...] = ()
    """The writes of this rollback that the server has refused."""

    @property
    def timeout(self) -> timedelta:
        """How long a step may take. Whoever creates a Migration cannot extend it."""
        most = self.options.timeout_seconds
        requested = self.migration.spec.timeout_seconds
        return timedelta(seconds=most if requested is None else min(requested, most))

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
