"""Limits how many migrations are in flight: in all, per node, per namespace, per workload.

Of one workload, one pod is evicted at a time, whatever the policy says: two migrations that start
in the same moment would both find the workload whole.

Only migrations in progress count. One that waits takes up no slot, or they would wait for each
other for ever. Nor does one whose step takes longer than the timeout of the policy: it waits for a
pod that takes its time to stop or to become available, and its owner decides how long. It only
counts for its own workload.

Namespaces that want slots get them in turn.
"""

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from rescheduler.migration.migration_object import Migration
from rescheduler.migration.state_machine.mode_selection import CannotMove, select_mode
from rescheduler.migration.state_machine.observation import Observation
from rescheduler.model.moves import Mode
from rescheduler.settings import MigrationOptions


@dataclass(frozen=True)
class InFlightSlot:
    """What one migration in progress counts against."""

    namespace: str
    source: str
    target: str
    workload: str = ""
    """The uid of the pod's controller; empty if it has none."""
    replicas: int = 1
    evicts: bool = False
    """Whether the workload has a pod less for a while."""
    step_started_at: datetime | None = None
    is_overdue: bool = False
    """Whether its step takes so long that it holds up nobody but its workload."""

    @property
    def nodes(self) -> tuple[str, str]:
        """The nodes whose limit it counts against."""
        return self.source, self.target


class InFlightLimiter:
    """Keeps migrations within the limits. A slot is reserved just before a migration starts."""

    def __init__(self, options: MigrationOptions) -> None:
        self.options = options
        self._in_flight: dict[str, InFlightSlot] = {}
        self._waiting: dict[str, InFlightSlot] = {}
        self._offered: set[str] = set()
        """Those that waited for a slot and may start now; the others wait for what they do."""

    def __len__(self) -> int:
        return len(self._in_flight)

    def check(self, o: Observation) -> str:
        """The limit that keeps a migration from starting now, if any; it waits for a slot then."""
        key, slot = o.migration.key, slot_to_start(o)
        limit = self._limit_for(key, slot)
        if limit:
            self._waiting.setdefault(key, slot)
        else:
            self._waiting.pop(key, None)
        return limit

    def reserve(self, o: Observation) -> str:
        """Reserve a slot for a migration that starts now; the limit that forbids it, if any.

        One that may yet wait for something else must not reserve: others would find the limit
        reached, then not, for as long as it is looked at.
        """
        limit = self.check(o)
        if not limit:
            self._in_flight[o.migration.key] = slot_to_start(o)
        return limit

    def must_still_wait(self, key: str) -> bool:
        """Whether there is still no slot for a waiting migration; if there is, it is offered."""
        if key not in self._waiting:
            return False
        if self._limit_for(key, self._waiting[key]):
            return True
        del self._waiting[key]
        self._offered.add(key)
        return False

    def update(self, key: str, migration: Migration | None) -> list[str]:
        """Take note of a migration's phase; the keys of those that may start because of it."""
        was_offered = key in self._offered
        self._offered.discard(key)
        if migration is not None and migration.is_in_progress:
            self._in_flight[key] = slot_of(migration)
            self._waiting.pop(key, None)
            return []
        if migration is None or migration.is_finished:
            self._waiting.pop(key, None)
        was_in_flight = self._in_flight.pop(key, None) is not None
        return self.startable() if was_in_flight or was_offered else []

    def release_overdue(self, now: datetime) -> list[str]:
        """Let those whose step takes too long give way; the keys of those that may start then."""
        began_before = now - timedelta(seconds=self.options.timeout_seconds)
        overdue = {
            key: replace(slot, is_overdue=True)
            for key, slot in self._in_flight.items()
            if slot.step_started_at is not None
            and slot.step_started_at < began_before
            and not slot.is_overdue
        }
        self._in_flight |= overdue
        return self.startable() if overdue else []

    def startable(self) -> list[str]:
        """The keys of waiting migrations that may start now."""
        return startable(self._waiting, self._in_flight.values(), self.options)

    def _limit_for(self, key: str, slot: InFlightSlot) -> str:
        others = [taken for other, taken in self._in_flight.items() if other != key]
        return reached_limit(slot, others, self.options)


def slot_of(migration: Migration) -> InFlightSlot:
    """The slot of a migration in progress."""
    workload = migration.status.workload
    return InFlightSlot(
        namespace=migration.metadata.namespace,
        source=migration.status.source_node,
        target=migration.spec.target_node,
        workload=workload.uid if workload is not None else "",
        replicas=(workload.replicas or 1) if workload is not None else 1,
        evicts=migration.status.mode == Mode.EVICT,
        step_started_at=migration.status.step_started_at,
    )


def slot_to_start(o: Observation) -> InFlightSlot:
    """The slot that a pending migration needs to start."""
    owner = o.old.metadata.controller if o.old is not None else None
    return InFlightSlot(
        namespace=o.migration.metadata.namespace,
        source=o.old.node if o.old is not None else "",
        target=o.migration.spec.target_node,
        workload=owner.uid if owner is not None else "",
        replicas=o.workload.replicas if o.workload is not None else 1,
        evicts=will_evict(o),
    )


def will_evict(o: Observation) -> bool:
    """Whether a pending migration would evict its pod, and not hand it over."""
    if o.old is None:
        return False
    try:
        return select_mode(o) == Mode.EVICT
    except CannotMove:
        return False


def reached_limit(
    slot: InFlightSlot, in_flight: Iterable[InFlightSlot], options: MigrationOptions
) -> str:
    """The limit that forbids one more migration now, as a message; empty if none does."""
    in_flight = list(in_flight)
    others = [other for other in in_flight if not other.is_overdue]
    if len(others) >= options.max_in_flight:
        return f"{len(others)} of {options.max_in_flight} migrations are in flight"
    for node in slot.nodes:
        on_node = sum(node in other.nodes for other in others)
        if on_node >= options.max_per_node:
            return f"node {node} has {on_node} of {options.max_per_node} migrations"
    in_namespace = sum(other.namespace == slot.namespace for other in others)
    most = options.max_per_namespace.of(options.max_in_flight)
    if in_namespace >= most:
        return f"namespace {slot.namespace} has {in_namespace} of {most} migrations"
    return reached_workload_limit(slot, in_flight, options)


def reached_workload_limit(
    slot: InFlightSlot, in_flight: Iterable[InFlightSlot], options: MigrationOptions
) -> str:
    """The limit of the pod's workload that forbids one more migration now, as a message."""
    if not slot.workload:
        return ""
    # Anyone may write the uid of somebody else's workload into the owner references of a pod.
    workload = slot.namespace, slot.workload
    of_workload = [other for other in in_flight if (other.namespace, other.workload) == workload]
    if slot.evicts and any(other.evicts for other in of_workload):
        return "another pod of its workload is being evicted"
    most = options.max_per_workload.of(slot.replicas)
    if len(of_workload) >= most:
        return f"its workload has {len(of_workload)} of {most} migrations"
    return ""


def startable(
    waiting: Mapping[str, InFlightSlot],
    in_flight: Iterable[InFlightSlot],
    options: MigrationOptions,
) -> list[str]:
    """The keys of those that may start now, all together.

    The namespace with the fewest in flight is next; within it, they start in the order in which
    they came.
    """
    taken, chosen = list(in_flight), []
    numbers = Counter(slot.namespace for slot in taken if not slot.is_overdue)
    queues: dict[str, deque[str]] = {}
    for key, slot in waiting.items():
        queues.setdefault(slot.namespace, deque()).append(key)
    while queues and numbers.total() < options.max_in_flight:
        namespace = min(queues, key=lambda queued: numbers[queued])
        key = queues[namespace].popleft()
        if not queues[namespace]:
            del queues[namespace]
        if not reached_limit(waiting[key], taken, options):
            taken.append(waiting[key])
            numbers[namespace] += 1
            chosen.append(key)
    return chosen
