"""How the moves of a drain ended, and which pods are tried again."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from rescheduler.errors import ApiError
from rescheduler.migration.crd import WAITING
from rescheduler.migration.migration_object import (
    NEW_POD_READY,
    OLD_POD_ENDED,
    Migration,
    Phase,
)
from rescheduler.model.moves import Mode, Outcome

MAX_ATTEMPTS = 3
NOT_MOVED = "was not moved: "
DELETED = f"{NOT_MOVED}its Migration was deleted before it finished"


@dataclass(frozen=True)
class HeldUp:
    """A Migration that could not start for so long that nobody waits for it any more."""

    migration: Migration
    seconds: float
    """How long it was waited for."""
    is_withdrawn: bool
    """Whether it was deleted. One that was there before is left to whoever created it, and the
    server may forbid to delete it."""

    @property
    def text(self) -> str:
        """What it waits for."""
        reason = self.migration.status.message.removeprefix(WAITING)
        waited = f"not started within {self.seconds:g}s: {reason}"
        left = f". Its Migration {self.migration.key} waits on"
        return waited if self.is_withdrawn else waited + left


Ending = Migration | HeldUp | ApiError | None
"""What became of a Migration: how it ended, or how it is now if it is not followed. An error: the
server refused to create it. None: it was deleted before it finished."""


class DrainOutcomes:
    """How the moves of a drain ended."""

    def __init__(self) -> None:
        self.failed: dict[str, str] = {}
        """The pods that were not moved, and why, as the rest of a sentence about the pod."""
        self.returning: set[str] = set()
        """By uid: workloads of which a replacement came back to the node. No other pod of theirs is
        evicted: it would come back, too, and be evicted again for ever."""
        self._attempts: Counter[str] = Counter()
        self._refused_by: defaultdict[str, set[str]] = defaultdict(set)
        """By pod: nodes where its new pod did not start."""

    @property
    def may_go_elsewhere(self) -> dict[str, set[str]]:
        """The pods that may be tried once more on other nodes, and the nodes that did not do."""
        return {
            pod: nodes
            for pod, nodes in self._refused_by.items()
            if pod in self.failed and self._attempts[pod] < MAX_ATTEMPTS
        }

    def add(self, pods: Sequence[str], endings: Sequence[Ending]) -> None:
        """Take note of what became of the Migrations of one round, by their pods."""
        self._attempts.update(set(pods))
        # A pod with several Migrations is moved by one of them, and the others are cancelled.
        moved = {pod for pod, ending in zip(pods, endings, strict=True) if has_left(ending)}
        for pod, ending in zip(pods, endings, strict=True):
            if pod in moved:
                self.failed.pop(pod, None)
            elif ending is None:
                self.failed[pod] = DELETED
            elif isinstance(ending, HeldUp):
                self.failed[pod] = f"{NOT_MOVED}{ending.text}"
            elif isinstance(ending, ApiError):
                self.failed[pod] = f"{NOT_MOVED}{ending.answer}"
            elif ending.is_finished:
                self._add_failure(pod, ending)

    def _add_failure(self, pod: str, ending: Migration) -> None:
        if not may_retry(ending, self._attempts[pod]):
            self.failed[pod] = failure_of(ending)
        if has_failed_on_target(ending):
            self._refused_by[pod].add(ending.spec.target_node)
        if ending.status.outcome == Outcome.CAME_BACK and ending.status.workload is not None:
            self.returning.add(ending.status.workload.uid)


def is_held_up(migration: Migration) -> bool:
    """Whether a Migration cannot start, and says why: it may take for ever."""
    is_waiting = migration.spec.paused or migration.status.message.startswith(WAITING)
    return migration.is_pending and is_waiting


def may_retry(migration: Migration, attempts: int) -> bool:
    """Whether it was only cancelled, because of another change to the workload."""
    return migration.status.phase == Phase.CANCELLED and attempts < MAX_ATTEMPTS


def has_failed_on_target(migration: Migration) -> bool:
    """Whether no attempt brought a new pod to work on the target; another node may do better."""
    status = migration.status
    is_failure = status.phase == Phase.FAILED and status.failures > 0
    return is_failure and status.mode != Mode.EVICT and migration.condition(NEW_POD_READY) is None


def failure_of(migration: Migration) -> str:
    """What became of a pod that was not moved, as the rest of a sentence about it."""
    status = migration.status
    was_evicted = status.evicted_at is not None or migration.condition(OLD_POD_ENDED) is not None
    return f"was evicted, but {status.message}" if was_evicted else f"{NOT_MOVED}{status.message}"


def has_left(ending: Ending) -> bool:
    """Whether the pod was moved to another node."""
    if not isinstance(ending, Migration):
        return False
    status = ending.status
    return status.phase == Phase.COMPLETED and status.new_node != status.source_node
