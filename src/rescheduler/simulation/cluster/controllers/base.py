"""What all controllers have in common: keys that want attention, and when."""

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
    """What every controller works with."""

    store: ObjectStore
    indexes: Indexes
    registry: Registry
    clock: SimulatedClock
    timings: Timings
    chance: Random


class Controller(ABC):
    """Looks at keys, each once however often it was asked for."""

    def __init__(self, context: ControllerContext) -> None:
        self.context = context
        self.store = context.store
        self.indexes = context.indexes
        self.registry = context.registry
        self.clock = context.clock
        self._wanted: dict[str, None] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._awaited: asyncio.TimerHandle | None = None
        self._runs = False

    @abstractmethod
    def start_watching(self) -> None:
        """Listen to what it is about, and ask for what is there already."""

    @abstractmethod
    def reconcile(self, key: str) -> None:
        """Bring one object closer to what is wanted of it."""

    def pod_changed(self, owner: str, change: ObjectChange) -> None:
        """A pod of one of its objects changed, came or went."""
        self.enqueue(owner)

    def orphan_changed(self, pod: Json) -> None:
        """A pod without a controller changed or came. Most controllers do not mind."""
        return

    def start(self) -> None:
        """Begin."""
        self._runs = True
        self.start_watching()

    def stop(self) -> None:
        """Look at nothing more."""
        self._runs = False
        for timer in (*self._timers.values(), self._awaited):
            if timer is not None:
                timer.cancel()
        self._timers.clear()

    def enqueue(self, key: str) -> None:
        """Ask for a key to be looked at soon."""
        if not self._runs:
            return
        self._wanted[key] = None
        if self._awaited is None:
            loop = asyncio.get_running_loop()
            self._awaited = loop.call_later(self.context.timings.reaction, self._work)

    def enqueue_after(self, key: str, seconds: float) -> None:
        """Ask for it later; the earlier of two wishes counts."""
        loop = asyncio.get_running_loop()
        timer = self._timers.get(key)
        if timer is not None:
            if timer.when() <= loop.time() + seconds:
                return
            timer.cancel()
        self._timers[key] = loop.call_later(seconds, self._ring, key)

    def forget(self, key: str) -> None:
        """It is no longer of interest at some later time."""
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()

    def _ring(self, key: str) -> None:
        self._timers.pop(key, None)
        self.enqueue(key)

    def _work(self) -> None:
        wanted, self._wanted, self._awaited = self._wanted, {}, None
        for key in wanted:
            try:
                self.reconcile(key)
            except (Conflict, NotFound):
                self.enqueue_after(key, RETRY_SECONDS)

    def watch(self, kind: str, *, with_status: bool = False) -> None:
        """Look at objects of a kind whenever they change, and at all that are there.

        Most need not look again at what they have themselves just written as a status.
        """
        self.store.listen(kind, self._changed if with_status else self._changed_but_for_status)
        for key in self.store.all(kind):
            self.enqueue(key)

    def _changed(self, change: ObjectChange) -> None:
        self.enqueue(change.key)

    def _changed_but_for_status(self, change: ObjectChange) -> None:
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
    """How many pods a workload wants."""
    wanted = workload["spec"].get("replicas")
    return 1 if wanted is None else int(wanted)
