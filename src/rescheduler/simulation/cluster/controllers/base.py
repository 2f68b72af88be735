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
from rescheduler.simulation.simulated_time import Clock

RETRY_SECONDS = 1.0


@dataclass(frozen=True)
class ControllerContext:
    """What every controller works with."""

    store: ObjectStore
    indexes: Indexes
    registry: Registry
    clock: Clock
    timings: Timings
    chance: Random


class Controller(ABC):
    """Looks at keys, each once however often it was asked for."""

    def __init__(self, around: ControllerContext) -> None:
        self.around = around
        self.store = around.store
        self.indexes = around.indexes
        self.registry = around.registry
        self.clock = around.clock
        self._wanted: dict[str, None] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._awaited: asyncio.TimerHandle | None = None
        self._runs = False

    @abstractmethod
    def watches(self) -> None:
        """Listen to what it is about, and ask for what is there already."""

    @abstractmethod
    def look_at(self, key: str) -> None:
        """Bring one object closer to what is wanted of it."""

    def pod_changed(self, owner: str, change: ObjectChange) -> None:
        """A pod of one of its objects changed, came or went."""
        self.want(owner)

    def orphan_changed(self, pod: Json) -> None:
        """A pod without a controller changed or came. Most controllers do not mind."""
        return

    def start(self) -> None:
        """Begin."""
        self._runs = True
        self.watches()

    def stop(self) -> None:
        """Look at nothing more."""
        self._runs = False
        for timer in (*self._timers.values(), self._awaited):
            if timer is not None:
                timer.cancel()
        self._timers.clear()

    def want(self, key: str) -> None:
        """Ask for a key to be looked at soon."""
        if not self._runs:
            return
        self._wanted[key] = None
        if self._awaited is None:
            loop = asyncio.get_running_loop()
            self._awaited = loop.call_later(self.around.timings.reaction, self._work)

    def want_after(self, key: str, seconds: float) -> None:
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
        self.want(key)

    def _work(self) -> None:
        wanted, self._wanted, self._awaited = self._wanted, {}, None
        for key in wanted:
            try:
                self.look_at(key)
            except (Conflict, NotFound):
                self.want_after(key, RETRY_SECONDS)

    def follow(self, kind: str, *, with_status: bool = False) -> None:
        """Look at objects of a kind whenever they change, and at all that are there.

        Most need not look again at what they have themselves just written as a status.
        """
        self.store.listen(kind, self._changed if with_status else self._changed_but_for_status)
        for key in self.store.all(kind):
            self.want(key)

    def _changed(self, change: ObjectChange) -> None:
        self.want(change.key)

    def _changed_but_for_status(self, change: ObjectChange) -> None:
        old, new = change.old, change.new
        is_same = (
            old is not None
            and new is not None
            and old["spec"] is new["spec"]
            and is_deleting(old) == is_deleting(new)
        )
        if not is_same:
            self.want(change.key)


def replicas_of(workload: Json) -> int:
    """How many pods a workload wants."""
    wanted = workload["spec"].get("replicas")
    return 1 if wanted is None else int(wanted)
