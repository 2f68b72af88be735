"""Provisions and binds a volume for each claim, at once or when its pod has a node.

The real scheduler waits for the volume before it binds the pod; here the pod is bound first, and
its volume is provisioned in the node's zone right after that. Existing volumes are not matched with
claims.
"""

from rescheduler.labels import BIND_COMPLETED, ZONE
from rescheduler.simulation.cluster.controllers.base import Controller
from rescheduler.simulation.cluster.json_objects import Json, key_of, labels_of, uid_of
from rescheduler.simulation.cluster.object_store import ObjectChange
from rescheduler.simulation.cluster.resources import BY_NAME

VOLUMES = BY_NAME["PersistentVolume"]


class VolumeBinder(Controller):
    """Keys are claims."""

    def start_watching(self) -> None:
        self.watch("PersistentVolumeClaim", with_status=True)
        self.store.listen("Pod", self._pod_changed)

    def _pod_changed(self, change: ObjectChange) -> None:
        pod = change.new
        if pod is None or not pod["spec"].get("nodeName") or not pod["spec"].get("volumes"):
            return
        if change.old is None or not change.old["spec"].get("nodeName"):
            for claim in claims_of(pod):
                self.enqueue(claim)

    def reconcile(self, key: str) -> None:
        claim = self.store.get("PersistentVolumeClaim", key)
        if claim is None or claim["spec"].get("volumeName"):
            return
        node = self._node_of_consumer(key)
        if node is None and self._waits_for_consumer(claim):
            return
        volume = self._create_volume(claim, node)
        self.registry.set_spec("PersistentVolumeClaim", key, volumeName=volume["metadata"]["name"])
        annotations = {
            **(claim["metadata"].get("annotations") or {}),
            BIND_COMPLETED: "yes",
        }
        self.registry.set_metadata("PersistentVolumeClaim", key, annotations=annotations)
        self.registry.set_status("PersistentVolumeClaim", key, {"phase": "Bound"})

    def _waits_for_consumer(self, claim: Json) -> bool:
        storage_class = self.store.get("StorageClass", claim["spec"].get("storageClassName") or "")
        mode = (storage_class or {}).get("volumeBindingMode", "Immediate")
        return bool(mode == "WaitForFirstConsumer")

    def _node_of_consumer(self, key: str) -> Json | None:
        namespace = key.partition("/")[0]
        for pod in self.store.all("Pod").values():
            has_volumes = pod["metadata"]["namespace"] == namespace and pod["spec"].get("volumes")
            if has_volumes and pod["spec"].get("nodeName") and key in claims_of(pod):
                return self.store.get("Node", pod["spec"]["nodeName"])
        return None

    def _create_volume(self, claim: Json, node: Json | None) -> Json:
        spec = {
            "accessModes": claim["spec"].get("accessModes", ["ReadWriteOnce"]),
            "capacity": (claim["spec"].get("resources") or {}).get("requests", {}),
            "storageClassName": claim["spec"].get("storageClassName", ""),
            "claimRef": {
                "kind": "PersistentVolumeClaim",
                "namespace": claim["metadata"]["namespace"],
                "name": claim["metadata"]["name"],
                "uid": uid_of(claim),
            },
            "csi": {"driver": "simulated.csi", "volumeHandle": key_of(claim)},
        }
        zone = labels_of(node).get(ZONE) if node is not None else None
        if zone:
            in_zone = {"key": ZONE, "operator": "In", "values": [zone]}
            terms = [{"matchExpressions": [in_zone]}]
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
        metadata = {"name": f"pvc-{uid_of(claim)}"}
        volume = self.registry.create(VOLUMES, "", {"metadata": metadata, "spec": spec})
        return self.registry.set_status("PersistentVolume", key_of(volume), {"phase": "Bound"})


def claims_of(pod: Json) -> list[str]:
    """The keys of the claims that a pod uses."""
    namespace = pod["metadata"]["namespace"]
    return [
        f"{namespace}/{volume['persistentVolumeClaim']['claimName']}"
        for volume in pod["spec"].get("volumes") or ()
        if volume.get("persistentVolumeClaim")
    ]
