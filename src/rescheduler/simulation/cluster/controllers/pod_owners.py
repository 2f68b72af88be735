"""Notifies controllers of changes of their pods, and of pods without a controller."""

from collections.abc import Mapping

from rescheduler.simulation.cluster.controllers.base import Controller
from rescheduler.simulation.cluster.json_objects import Json, controller_of, is_active
from rescheduler.simulation.cluster.object_store import ObjectChange, ObjectStore


class PodOwnerNotifier:
    """Finds the controller of a changed pod once, for all kinds of controllers."""

    def __init__(self, store: ObjectStore, controllers: Mapping[str, Controller]) -> None:
        self._controllers = controllers
        store.listen("Pod", self._pod_changed)

    def _pod_changed(self, change: ObjectChange) -> None:
        old = controller_of(change.old) if change.old is not None else None
        new = controller_of(change.new) if change.new is not None else None
        if old is not None and (new is None or new["uid"] != old["uid"]):
            self._notify(old, change)
        if new is not None:
            self._notify(new, change)
        elif change.new is not None and is_active(change.new):
            for controller in self._controllers.values():
                controller.orphan_changed(change.new)

    def _notify(self, owner: Json, change: ObjectChange) -> None:
        controller = self._controllers.get(owner["kind"])
        if controller is not None:
            controller.pod_changed(f"{change.key.partition('/')[0]}/{owner['name']}", change)
