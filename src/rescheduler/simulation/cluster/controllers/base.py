"""What all controllers share: a queue of keys to reconcile, and timers."""

import asyncio
from abc import ABC, abstractmethod
from dataclasses import dataclass
from random import Random

from rescheduler.errors import Conflict, NotFound
from rescheduler.simulation.cluster.indexes import Indexes
from rescheduler.simulation.cluster.json_objects import Json, is_deleting
from rescheduler.simulation.cluster.object_store import ObjectChange, ObjectStore
from rescheduler.simulation.cluster.registry import Registry
from rescheduler.simulation.cluster.timings import Timings
from rescheduler.simulation.simulated_time import SimulatedClock

RETRY_SECONDS = 1.0


@dataclass(frozen=True)
class ControllerContext:
    """What every controller needs."""

    store: ObjectStore
    indexes: Indexes
    registry: Registry
    clock: SimulatedClock
    timings: Timings
    chance: Random


class Controller(ABC):
    """Reconciles queued keys; a key that is queued several times is reconciled once."""

    def __init__(self, context: ControllerContext) -> None:
        self.context = context
        self.store = context.store
        self.indexes = context.indexes
        self.registry = context.registry
        self.clock = context.clock
        self._queue: dict[str, None] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._work_timer: asyncio.TimerHandle | None = None
        self._is_running = False

    @abstractmethod
    def start_watching(self) -> None:
        """Listen to the kinds that matter, and queue the objects that exist."""

    @abstractmethod
    def reconcile(self, key: str) -> None:
        """Bring one object closer to its spec."""

    def pod_changed(self, owner: str, change: ObjectChange) -> None:
        """A pod that the object `owner` controls was created, changed or deleted."""
        self.enqueue(owner)

    def orphan_changed(self, pod: Json) -> None:
        """A pod without a controller was created or changed. Most controllers ignore it."""
        return

    def start(self) -> None:
        """Start watching and reconciling."""
        self._is_running = True
        self.start_watching()

    def stop(self) -> None:
        """Reconcile nothing more."""
        self._is_running = False
        for timer in (*self._timers.values(), self._work_timer):
            if timer is not None:
                timer.cancel()
        self._timers.clear()

    def enqueue(self, key: str) -> None:
        """Reconcile a key after the reaction time; before `start`, do nothing."""
        if not self._is_running:
            return
        self._queue[key] = None
        if self._work_timer is None:
            loop = asyncio.get_running_loop()
            self._work_timer = loop.call_later(self.context.timings.reaction, self._process_queue)

    def enqueue_after(self, key: str, seconds: float) -> None:
        """Queue a key later; of two times, the earlier one counts."""
        loop = asyncio.get_running_loop()
        timer = self._timers.get(key)
        if timer is not None:
            if timer.when() <= loop.time() + seconds:
                return
            timer.cancel()
        self._timers[key] = loop.call_later(seconds, self._timer_fired, key)

    def cancel_timer(self, key: str) -> None:
        """Undo `enqueue_after`."""
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()

    def _timer_fired(self, key: str) -> None:
        self._timers.pop(key, None)
        self.enqueue(key)

    def _process_queue(self) -> None:
        queue, self._queue, self._work_timer = self._queue, {}, None
        for key in queue:
            try:
                self.reconcile(key)
            except (Conflict, NotFound):
                self.enqueue_after(key, RETRY_SECONDS)

    def watch(self, kind: str, *, with_status: bool = False) -> None:
        """Queue the objects of a kind when they change, and all that exist.

        Most controllers ignore changes of the status, which they write themselves.
        """
        self.store.listen(kind, self._changed if with_status else self._spec_changed)
        for key in self.store.all(kind):
            self.enqueue(key)

    def _changed(self, change: ObjectChange) -> None:
        self.enqueue(change.key)

    def _spec_changed(self, change: ObjectChange) -> None:
        old, new = change.old, change.new
        is_same = (
            old is not None
            and new is not None
            and old["spec"] is new["spec"]
            and is_deleting(old) == is_deleting(new)
        )
        if not is_same:
            self.enqueue(change.key)


def replicas_of(workload: Json) -> int:
    """`spec.replicas`, which is 1 if it is absent."""
    replicas = workload["spec"].get("replicas")
    return 1 if replicas is None else int(replicas)
