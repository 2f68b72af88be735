"""Tells controllers of their pods: each of its own, and those who adopt of those without one."""

from collections.abc import Mapping

from rescheduler.simulation.cluster.controllers.base import Controller
from rescheduler.simulation.cluster.json_objects import Json, controller_of, is_active
from rescheduler.simulation.cluster.object_store import ObjectChange, ObjectStore


class PodOwnerNotifier:
    """Looks once whose a pod is, for all kinds of controllers."""

    def __init__(self, store: ObjectStore, workers: Mapping[str, Controller]) -> None:
        self._workers = workers
        store.listen("Pod", self._pod_changed)

    def _pod_changed(self, change: ObjectChange) -> None:
        old = controller_of(change.old) if change.old is not None else None
        new = controller_of(change.new) if change.new is not None else None
        if old is not None and (new is None or new["uid"] != old["uid"]):
            self._notify(old, change)
        if new is not None:
            self._notify(new, change)
        elif change.new is not None and is_active(change.new):
            for worker in self._workers.values():
                worker.orphan_changed(change.new)

    def _notify(self, owner: Json, change: ObjectChange) -> None:
        worker = self._workers.get(owner["kind"])
        if worker is not None:
            worker.pod_changed(f"{change.key.partition('/')[0]}/{owner['name']}", change)
