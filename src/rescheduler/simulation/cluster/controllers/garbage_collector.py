"""Garbage collection: objects of deleted owners and namespaces are deleted."""

from rescheduler.simulation.cluster.controllers.base import Controller
from rescheduler.simulation.cluster.json_objects import is_deleting
from rescheduler.simulation.cluster.object_store import ObjectChange
from rescheduler.simulation.cluster.resources import BY_NAME, RESOURCES

OWNERS = ("Deployment", "ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet", "Job")


class GarbageCollector(Controller):
    """Its keys are the uids of deleted owners, and `namespace/<name>`."""

    def start_watching(self) -> None:
        for kind in OWNERS:
            self.store.listen(kind, self._owner_changed)
        self.store.listen("Namespace", self._namespace_changed)

    def _owner_changed(self, change: ObjectChange) -> None:
        if change.new is None and change.old is not None:
            self.enqueue(change.old["metadata"]["uid"])

    def _namespace_changed(self, change: ObjectChange) -> None:
        if change.new is None:
            self.enqueue(f"namespace/{change.key}")

    def reconcile(self, key: str) -> None:
        kind, _, namespace = key.partition("/")
        if namespace and kind == "namespace":
            self._delete_all_in(namespace)
            return
        for owned, index in (("Pod", self.indexes.pods_of), *self.indexes.owned.items()):
            for owned_key in index.keys(key):
                value = self.store.get(owned, owned_key)
                if value is None or is_deleting(value):
                    continue
                owners = value["metadata"]["ownerReferences"]
                if len(owners) == 1:
                    self.registry.delete(BY_NAME[owned], owned_key)
                else:
                    others = [owner for owner in owners if owner["uid"] != key]
                    self.registry.set_metadata(owned, owned_key, ownerReferences=others)

    def _delete_all_in(self, namespace: str) -> None:
        for resource in RESOURCES:
            if not resource.namespaced:
                continue
            for key in list(self.store.all(resource.name)):
                if key.startswith(f"{namespace}/"):
                    self.registry.delete(resource, key)
