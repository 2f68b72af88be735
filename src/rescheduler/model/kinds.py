"""The kinds of objects that we read, and where the API server keeps them."""

from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from rescheduler.model import objects

T = TypeVar("T")


@dataclass(frozen=True)
class Kind(Generic[T]):
    """A kind of object: its names, and the struct that holds what we read of it."""

    name: str
    api_version: str
    plural: str
    namespaced: bool
    type: type[T]
    selector: str = ""
    """Only objects with such labels, if given: the kind then stands for them alone."""

    @property
    def path(self) -> str:
        """The URL path of the list over all namespaces."""
        root = "/api" if self.api_version == "v1" else "/apis"
        return f"{root}/{self.api_version}/{self.plural}"

    def object_path(self, namespace: str, name: str) -> str:
        """The URL path of one object. Whatever is special in a URL is quoted."""
        root, _, plural = self.path.rpartition("/")
        scope = f"/namespaces/{quote(namespace, safe='')}" if self.namespaced else ""
        return f"{root}{scope}/{plural}/{quote(name, safe='')}"


NODE = Kind("Node", "v1", "nodes", False, objects.Node)
POD = Kind("Pod", "v1", "pods", True, objects.Pod)
NAMESPACE = Kind("Namespace", "v1", "namespaces", False, objects.Namespace)
BUDGET = Kind(
    "PodDisruptionBudget", "policy/v1", "poddisruptionbudgets", True, objects.PodDisruptionBudget
)
REPLICA_SET = Kind("ReplicaSet", "apps/v1", "replicasets", True, objects.ReplicaSet)
REPLICATION_CONTROLLER = Kind(
    "ReplicationController", "v1", "replicationcontrollers", True, objects.ReplicationController
)
DEPLOYMENT = Kind("Deployment", "apps/v1", "deployments", True, objects.Deployment)
STATEFUL_SET = Kind("StatefulSet", "apps/v1", "statefulsets", True, objects.StatefulSet)
DAEMON_SET = Kind("DaemonSet", "apps/v1", "daemonsets", True, objects.DaemonSet)
JOB = Kind("Job", "batch/v1", "jobs", True, objects.Job)
PRIORITY_CLASS = Kind(
    "PriorityClass", "scheduling.k8s.io/v1", "priorityclasses", False, objects.PriorityClass
)
VOLUME = Kind("PersistentVolume", "v1", "persistentvolumes", False, objects.PersistentVolume)
CLAIM = Kind(
    "PersistentVolumeClaim", "v1", "persistentvolumeclaims", True, objects.PersistentVolumeClaim
)
STORAGE_CLASS = Kind(
    "StorageClass", "storage.k8s.io/v1", "storageclasses", False, objects.StorageClass
)
CSI_NODE = Kind("CSINode", "storage.k8s.io/v1", "csinodes", False, objects.CsiNode)
CSI_DRIVER = Kind("CSIDriver", "storage.k8s.io/v1", "csidrivers", False, objects.CsiDriver)
SERVICE = Kind("Service", "v1", "services", True, objects.Service)
"""Not in `KINDS`: planning does not need Services, so they are not watched."""

KINDS: tuple[Kind[Any], ...] = (
    NODE,
    POD,
    NAMESPACE,
    BUDGET,
    REPLICA_SET,
    REPLICATION_CONTROLLER,
    DEPLOYMENT,
    STATEFUL_SET,
    DAEMON_SET,
    JOB,
    PRIORITY_CLASS,
    VOLUME,
    CLAIM,
    STORAGE_CLASS,
    CSI_NODE,
    CSI_DRIVER,
)

KIND_BY_NAME: dict[str, Kind[Any]] = {kind.name: kind for kind in KINDS}
