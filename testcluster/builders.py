"""Build Kubernetes objects in one line each: plain dicts, as the API server returns them.

Objects have the status that a controller would write, so tests without a cluster can use
them too. Names are "namespace/name"; quantities are Kubernetes strings. Keyword
arguments that a builder does not name are fields of the spec, in camelCase.
"""

import uuid
from collections.abc import Mapping
from typing import Any

from testcluster.client import JsonObject
from testcluster.components import FAKE_NODE_ANNOTATION

Labels = Mapping[str, str]

IMAGE = "registry.example/app:1.0"
HOSTNAME_LABEL = "kubernetes.io/hostname"
ZONE_LABEL = "topology.kubernetes.io/zone"
CREATED = "2025-01-01T00:00:00Z"
UID_SPACE = uuid.UUID("7c0ffee0-0000-4000-8000-000000000000")


def uid_of(kind: str, key: str) -> str:
    """Always the same uid for the same object, so that owner references match."""
    return str(uuid.uuid5(UID_SPACE, f"{kind}/{key}"))


def split_name(key: str) -> tuple[str, str]:
    """Namespace and name of "namespace/name"; a bare name is in `default`."""
    namespace, _, name = key.rpartition("/")
    return namespace or "default", name


def namespace(name: str, labels: Labels | None = None) -> JsonObject:
    """A namespace."""
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        # The API server adds this label to every namespace.
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/metadata.name": name, **(labels or {})},
        },
        "status": {"phase": "Active"},
    }


def node(
    name: str,
    cpu: str = "8",
    memory: str = "32Gi",
    pods: int = 110,
    zone: str | None = None,
    labels: Labels | None = None,
    taints: list[JsonObject] | None = None,
    unschedulable: bool = False,
    ready: bool = True,
    managed: bool = True,
    resources: Labels | None = None,
    **spec: Any,
) -> JsonObject:
    """A node with its status; `resources` adds others, such as {"nvidia.com/gpu": "4"}.

    kwok simulates a `managed` node, and keeps it Ready. A node that must stay not ready in a real
    cluster cannot be managed.
    """
    capacity = {"cpu": cpu, "memory": memory, "pods": str(pods), **(resources or {})}
    own_labels = {HOSTNAME_LABEL: name, "kubernetes.io/os": "linux"}
    if zone is not None:
        own_labels[ZONE_LABEL] = zone
    if taints:
        spec["taints"] = taints
    if unschedulable:
        spec["unschedulable"] = True
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "uid": uid_of("Node", name),
            "labels": {**own_labels, **(labels or {})},
            "annotations": dict([FAKE_NODE_ANNOTATION]) if managed else {},
            "creationTimestamp": CREATED,
        },
        "spec": spec,
        "status": {
            "capacity": capacity,
            "allocatable": dict(capacity),
            "conditions": [node_ready_condition(ready)],
            "phase": "Running",
        },
    }


def node_ready_condition(ready: bool) -> JsonObject:
    """The Ready condition as a kubelet reports it."""
    return {
        "type": "Ready",
        "status": "True" if ready else "False",
        "reason": "KubeletReady" if ready else "KubeletNotReady",
        "message": "kubelet is posting ready status" if ready else "kubelet is not ready",
        "lastHeartbeatTime": CREATED,
        "lastTransitionTime": CREATED,
    }


def pod(
    key: str,
    on: str | None = None,
    cpu: str | None = None,
    memory: str | None = None,
    labels: Labels | None = None,
    annotations: Labels | None = None,
    owner: JsonObject | None = None,
    phase: str | None = None,
    ready: bool | None = None,
    created: str = CREATED,
    **spec: Any,
) -> JsonObject:
    """A pod with its status; `owner` is the object that controls it.

    A pod `on` a node is running and ready by default; a pod without a node is pending. In a real
    cluster, `apply` writes the status too.
    """
    pod_namespace, name = split_name(key)
    phase = phase or ("Running" if on else "Pending")
    is_ready = phase == "Running" if ready is None else ready
    pod_spec = pod_spec_with(cpu, memory, spec)
    if on is not None:
        pod_spec["nodeName"] = on
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": pod_namespace,
            "uid": uid_of("Pod", key),
            "labels": dict(labels or {}),
            "annotations": dict(annotations or {}),
            "ownerReferences": [owner_reference(owner)] if owner else [],
            "creationTimestamp": created,
        },
        "spec": pod_spec,
        "status": pod_status(phase, is_ready, pod_spec["containers"], on is not None, created),
    }


def pod_spec_with(cpu: str | None, memory: str | None, spec: Mapping[str, Any]) -> JsonObject:
    """A pod's spec: one container with these requests, unless `spec` has containers."""
    requests = {name: value for name, value in (("cpu", cpu), ("memory", memory)) if value}
    container: JsonObject = {"name": "app", "image": IMAGE}
    if requests:
        container["resources"] = {"requests": requests}
    return {"containers": [container], **spec}


def pod_status(
    phase: str, ready: bool, containers: list[JsonObject], bound: bool, since: str
) -> JsonObject:
    """The status that the kubelet of a real node would write."""
    conditions = [pod_condition("PodScheduled", bound, since)] if bound else []
    status: JsonObject = {"phase": phase, "conditions": conditions}
    if bound:
        conditions += [
            pod_condition("Initialized", True, since),
            pod_condition("Ready", ready, since),
            pod_condition("ContainersReady", ready, since),
        ]
        status["startTime"] = since
    if phase == "Running":
        status["containerStatuses"] = [
            {
                "name": container["name"],
                "image": container["image"],
                "imageID": "",
                "ready": ready,
                "restartCount": 0,
                "started": True,
                "state": {"running": {"startedAt": since}},
            }
            for container in containers
        ]
    return status


def pod_condition(kind: str, holds: bool, since: str) -> JsonObject:
    """One condition of a pod's status."""
    return {"type": kind, "status": "True" if holds else "False", "lastTransitionTime": since}


def owner_reference(owner: JsonObject) -> JsonObject:
    """A reference to the object that controls another one."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"].get("uid", ""),
        "controller": True,
        "blockOwnerDeletion": True,
    }


def workload(
    kind: str,
    key: str,
    replicas: int | None,
    cpu: str | None,
    memory: str | None,
    labels: Labels | None,
    owner: JsonObject | None,
    template: Mapping[str, Any],
    spec: Mapping[str, Any],
) -> JsonObject:
    """The part that all kinds with a pod template share; `labels` select and mark the pods."""
    own_namespace, name = split_name(key)
    pod_labels = dict(labels or {"app": name})
    own_spec: JsonObject = {
        "selector": {"matchLabels": pod_labels},
        "template": {
            "metadata": {"labels": pod_labels},
            "spec": pod_spec_with(cpu, memory, template),
        },
        **spec,
    }
    if replicas is not None:
        own_spec["replicas"] = replicas
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": own_namespace,
            "uid": uid_of(kind, key),
            "labels": pod_labels,
            "ownerReferences": [owner_reference(owner)] if owner else [],
            "creationTimestamp": CREATED,
        },
        "spec": own_spec,
    }


def deployment(
    key: str,
    replicas: int = 1,
    cpu: str | None = None,
    memory: str | None = None,
    labels: Labels | None = None,
    template: Mapping[str, Any] | None = None,
    **spec: Any,
) -> JsonObject:
    """A Deployment; `template` adds fields to its pods' spec."""
    return workload("Deployment", key, replicas, cpu, memory, labels, None, template or {}, spec)


def replicaset(
    key: str,
    replicas: int = 1,
    cpu: str | None = None,
    memory: str | None = None,
    labels: Labels | None = None,
    owner: JsonObject | None = None,
    template: Mapping[str, Any] | None = None,
    **spec: Any,
) -> JsonObject:
    """A ReplicaSet, perhaps a Deployment's, all of whose replicas are ready."""
    built = workload("ReplicaSet", key, replicas, cpu, memory, labels, owner, template or {}, spec)
    counts = ("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas")
    built["status"] = dict.fromkeys(counts, replicas)
    return built


def statefulset(
    key: str,
    replicas: int = 1,
    cpu: str | None = None,
    memory: str | None = None,
    labels: Labels | None = None,
    template: Mapping[str, Any] | None = None,
    **spec: Any,
) -> JsonObject:
    """A StatefulSet that starts its pods in parallel by default."""
    spec = {"serviceName": split_name(key)[1], "podManagementPolicy": "Parallel", **spec}
    return workload("StatefulSet", key, replicas, cpu, memory, labels, None, template or {}, spec)


def daemonset(
    key: str,
    cpu: str | None = None,
    memory: str | None = None,
    labels: Labels | None = None,
    template: Mapping[str, Any] | None = None,
    **spec: Any,
) -> JsonObject:
    """A DaemonSet."""
    return workload("DaemonSet", key, None, cpu, memory, labels, None, template or {}, spec)


def job(
    key: str,
    completions: int = 1,
    cpu: str | None = None,
    memory: str | None = None,
    template: Mapping[str, Any] | None = None,
    **spec: Any,
) -> JsonObject:
    """A Job; the API server chooses its selector."""
    own_namespace, name = split_name(key)
    pod_spec = pod_spec_with(cpu, memory, {"restartPolicy": "Never", **(template or {})})
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": own_namespace, "uid": uid_of("Job", key)},
        "spec": {
            "completions": completions,
            "parallelism": completions,
            "template": {"metadata": {"labels": {"app": name}}, "spec": pod_spec},
            **spec,
        },
    }


def budget(
    key: str,
    min_available: int | str | None = None,
    max_unavailable: int | str | None = None,
    selector: Labels | None = None,
    allowed: int | None = None,
) -> JsonObject:
    """A PodDisruptionBudget; `allowed` is how many disruptions its status allows, if known."""
    own_namespace, name = split_name(key)
    spec: JsonObject = {"selector": {"matchLabels": dict(selector or {"app": name})}}
    if min_available is not None:
        spec["minAvailable"] = min_available
    if max_unavailable is not None:
        spec["maxUnavailable"] = max_unavailable
    built: JsonObject = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": own_namespace, "uid": uid_of("Budget", key)},
        "spec": spec,
    }
    if allowed is not None:
        built["status"] = {"disruptionsAllowed": allowed, "observedGeneration": 1}
    return built


def service(
    key: str,
    ports: Mapping[int, int] | None = None,
    selector: Labels | None = None,
    headless: bool = False,
) -> JsonObject:
    """A Service; `ports` maps its ports to those of the pods, by default 80 to 8080."""
    own_namespace, name = split_name(key)
    spec: JsonObject = {
        "selector": dict(selector or {"app": name}),
        "ports": [
            {"name": f"port-{port}", "port": port, "targetPort": target}
            for port, target in (ports or {80: 8080}).items()
        ],
    }
    if headless:
        spec["clusterIP"] = "None"
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": own_namespace, "uid": uid_of("Service", key)},
        "spec": spec,
    }
