"""The objects that a workload makes, as they are asked for."""

import copy
from collections.abc import Mapping

from rescheduler.labels import RUNS_FOR_SECONDS
from rescheduler.model.quantities import Quantity
from rescheduler.simulation.scenario.timed_changes import JsonObject
from rescheduler.simulation.scenario.workload_fields import NewNodes

HOSTNAME = "kubernetes.io/hostname"
PODS_OF_A_NODE = "110"
KEEP_JOBS_SECONDS = 600

Amounts = Mapping[str, Quantity]


def namespace_body(name: str) -> JsonObject:
    """A namespace."""
    labels = {"kubernetes.io/metadata.name": name}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def deployment_body(key: str, replicas: int, requests: Amounts) -> JsonObject:
    """A Deployment as most are."""
    namespace, _, name = key.partition("/")
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"},
            },
            "template": {"metadata": {"labels": labels}, "spec": pod_spec(requests)},
        },
    }


def job_body(key: str, number: int, pods: int, seconds: float, requests: Amounts) -> JsonObject:
    """One run of a job, whose pods end by themselves after some time."""
    namespace, _, name = key.partition("/")
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": f"{name}-{number}", "namespace": namespace, "labels": {"app": name}},
        "spec": {
            "parallelism": pods,
            "completions": pods,
            "ttlSecondsAfterFinished": KEEP_JOBS_SECONDS,
            "template": {
                "metadata": {"labels": {"app": name}, "annotations": runs_for(seconds)},
                "spec": {**pod_spec(requests), "restartPolicy": "Never"},
            },
        },
    }


def node_body(name: str, like: JsonObject | None, nodes: NewNodes) -> JsonObject:
    """A node that has just come, and is well."""
    metadata = like["metadata"] if like is not None else {}
    status = like["status"] if like is not None else {}
    allocatable = {"pods": PODS_OF_A_NODE, **status.get("allocatable", {}), **nodes.allocatable}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {**copied_labels(metadata), HOSTNAME: name, **nodes.labels},
            "annotations": dict(metadata.get("annotations") or {}),
        },
        "spec": {},
        "status": {
            "allocatable": allocatable,
            "capacity": dict(allocatable),
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }


def copied_labels(metadata: JsonObject) -> dict[str, str]:
    """The labels that a copy of a node has as well."""
    labels: dict[str, str] = metadata.get("labels") or {}
    return {key: value for key, value in labels.items() if "maintenance" not in key}


def pod_spec(requests: Amounts) -> JsonObject:
    """One container that asks for so much."""
    container = {"name": "app", "image": "app", "resources": {"requests": dict(requests)}}
    return {"containers": [container]}


def asking_for(requests: Amounts, containers: list[JsonObject]) -> list[JsonObject]:
    """The same containers, but the first of them asks for all of it."""
    changed = copy.deepcopy(containers)
    for container in changed:
        container.setdefault("resources", {})["requests"] = {}
    changed[0]["resources"]["requests"] = dict(requests)
    return changed


def runs_for(seconds: float) -> dict[str, str]:
    """What tells the cluster in memory that a pod ends by itself."""
    return {RUNS_FOR_SECONDS: f"{seconds:.0f}"}
