"""Tells controllers of their pods: each of its own, and those who adopt of those without one."""

from collections.abc import Mapping

from rescheduler.simulation.controllers.worker import Worker
from rescheduler.simulation.objects import Json, controller_of, is_active
from rescheduler.simulation.store import Change, Store


class Owners:
    """Looks once whose a pod is, for all kinds of controllers."""

    def __init__(self, store: Store, workers: Mapping[str, Worker]) -> None:
        self._workers = workers
        store.listen("Pod", self._pod_changed)

    def _pod_changed(self, change: Change) -> None:
        old = controller_of(change.old) if change.old is not None else None
        new = controller_of(change.new) if change.new is not None else None
        if old is not None and (new is None or new["uid"] != old["uid"]):
            self._tell(old, change)
        if new is not None:
            self._tell(new, change)
        elif change.new is not None and is_active(change.new):
            for worker in self._workers.values():
                worker.orphan_changed(change.new)

    def _tell(self, owner: Json, change: Change) -> None:
        worker = self._workers.get(owner["kind"])
        if worker is not None:
            worker.pod_changed(f"{change.key.partition('/')[0]}/{owner['name']}", change)
