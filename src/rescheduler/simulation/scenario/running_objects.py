"""Bodies of objects of a cluster that has been running for a while: with uids and statuses."""

from rescheduler.labels import DEPLOYMENT_REVISION, POD_TEMPLATE_HASH, ZONE
from rescheduler.simulation.cluster.json_objects import Json, reference_to
from rescheduler.simulation.scenario.cluster_completion import uid_for

CREATED = "2025-01-01T00:00:00Z"
STORAGE_CLASS = "disks"

# The status of every pod: objects in the simulated cluster never change, so it can be shared.
RUNNING: Json = {
    "phase": "Running",
    "startTime": CREATED,
    "conditions": [
        {"type": kind, "status": "True", "lastTransitionTime": CREATED}
        for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
    ],
}


def metadata(kind: str, key: str, labels: dict[str, str]) -> Json:
    """Metadata with a uid that follows from kind and key."""
    namespace, _, name = key.rpartition("/")
    return {
        "name": name,
        **({"namespace": namespace} if namespace else {}),
        "uid": uid_for(kind, key),
        "labels": dict(labels),
        "creationTimestamp": CREATED,
    }


def workload(
    kind: str, key: str, labels: dict[str, str], spec: Json, replicas: int | None = None
) -> Json:
    """A workload whose pods have this spec; if it has replicas, all of them are available."""
    body: Json = {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {**metadata(kind, key, labels), "generation": 1},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }
    if replicas is not None:
        body["spec"]["replicas"] = replicas
        counts = ("replicas", "readyReplicas", "availableReplicas", "updatedReplicas")
        body["status"] = {**dict.fromkeys(counts, replicas), "observedGeneration": 1}
    return body


def deployment(key: str, labels: dict[str, str], spec: Json, replicas: int) -> Json:
    """A Deployment whose rollout is complete."""
    body = workload("Deployment", key, labels, spec, replicas)
    rolling = {"maxSurge": "25%", "maxUnavailable": "25%"}
    body["spec"]["strategy"] = {"type": "RollingUpdate", "rollingUpdate": rolling}
    body["metadata"]["annotations"] = {DEPLOYMENT_REVISION: "1"}
    return body


def replica_set(owner: Json, template_hash: str) -> Json:
    """The only ReplicaSet of a Deployment."""
    owner_metadata, spec = owner["metadata"], owner["spec"]
    key = f"{owner_metadata['namespace']}/{owner_metadata['name']}-{template_hash}"
    labels = {**owner_metadata["labels"], POD_TEMPLATE_HASH: template_hash}
    body = workload("ReplicaSet", key, labels, spec["template"]["spec"], spec["replicas"])
    body["metadata"]["ownerReferences"] = [reference_to(owner)]
    body["metadata"]["annotations"] = dict(owner_metadata["annotations"])
    return body


def pod(key: str, node: str, spec: Json, labels: dict[str, str], owner: Json | None = None) -> Json:
    """A Ready pod on a node."""
    pod_metadata = metadata("Pod", key, labels)
    if owner is not None:
        pod_metadata["ownerReferences"] = [reference_to(owner)]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": pod_metadata,
        "spec": {**spec, "nodeName": node},
        "status": RUNNING,
    }


def budget(key: str, labels: dict[str, str], replicas: int, disruptions_allowed: int) -> Json:
    """A PodDisruptionBudget for so many healthy pods."""
    # Not an absolute minAvailable: at night, scaled down, it would allow no disruption.
    allowed = disruptions_allowed
    rule = {"maxUnavailable": allowed} if allowed else {"minAvailable": "100%"}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {**metadata("PodDisruptionBudget", key, labels), "generation": 1},
        "spec": {"selector": {"matchLabels": labels}, **rule},
        "status": {
            "disruptionsAllowed": allowed,
            "currentHealthy": replicas,
            "desiredHealthy": replicas - allowed,
            "expectedPods": replicas,
            "observedGeneration": 1,
        },
    }


def storage_class() -> Json:
    """A class of zonal disks that are provisioned when their pod has a node."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": metadata("StorageClass", STORAGE_CLASS, {}),
        "provisioner": "disks.example",
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def volume(name: str, namespace: str, claim_name: str, zone: str) -> Json:
    """A disk in a zone, bound to its claim."""
    in_zone = {"key": ZONE, "operator": "In", "values": [zone]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": metadata("PersistentVolume", name, {}),
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "100Gi"},
            "storageClassName": STORAGE_CLASS,
            "claimRef": {"namespace": namespace, "name": claim_name},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [in_zone]}]}},
            "csi": {"driver": "disks.example", "volumeHandle": name},
        },
        "status": {"phase": "Bound"},
    }


def claim_template(name: str, namespace: str) -> Json:
    """What a StatefulSet creates claims from."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace, "labels": {}},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": STORAGE_CLASS,
            "resources": {"requests": {"storage": "100Gi"}},
        },
    }


def bound_claim(name: str, namespace: str, volume_name: str) -> Json:
    """A claim that is bound to a volume."""
    body = claim_template(name, namespace)
    body["metadata"] = metadata("PersistentVolumeClaim", f"{namespace}/{name}", {})
    body["spec"]["volumeName"] = volume_name
    body["status"] = {"phase": "Bound"}
    return body
