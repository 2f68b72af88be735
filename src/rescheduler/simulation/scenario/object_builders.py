"""Bodies of the objects that scenarios create."""

import copy
from collections.abc import Mapping

from rescheduler.labels import HOSTNAME, NAMESPACE_NAME, RUNS_FOR_SECONDS
from rescheduler.model.quantities import Quantity
from rescheduler.simulation.cluster.json_objects import Json
from rescheduler.simulation.scenario.workload_fields import NewNodes

DEFAULT_MAX_PODS = "110"
JOB_TTL_SECONDS = 600

Quantities = Mapping[str, Quantity]


def namespace_body(name: str) -> Json:
    """With the label that the API server writes on every namespace."""
    labels = {NAMESPACE_NAME: name}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def deployment_body(key: str, replicas: int, requests: Quantities) -> Json:
    """A Deployment with the default rollout strategy and one container."""
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


def job_body(key: str, number: int, pods: int, seconds: float, requests: Quantities) -> Json:
    """One run of a batch job, whose pods succeed after some time."""
    namespace, _, name = key.partition("/")
    run_time = {RUNS_FOR_SECONDS: f"{seconds:.0f}"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": f"{name}-{number}", "namespace": namespace, "labels": {"app": name}},
        "spec": {
            "parallelism": pods,
            "completions": pods,
            "ttlSecondsAfterFinished": JOB_TTL_SECONDS,
            "template": {
                "metadata": {"labels": {"app": name}, "annotations": run_time},
                "spec": {**pod_spec(requests), "restartPolicy": "Never"},
            },
        },
    }


def node_body(name: str, like: Json | None, nodes: NewNodes) -> Json:
    """A Ready node: a copy of `like`, with what `nodes` says instead or in addition."""
    metadata = like["metadata"] if like is not None else {}
    status = like["status"] if like is not None else {}
    allocatable = {"pods": DEFAULT_MAX_PODS, **status.get("allocatable", {}), **nodes.allocatable}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {**_copied_labels(metadata), HOSTNAME: name, **nodes.labels},
            "annotations": dict(metadata.get("annotations") or {}),
        },
        "spec": {},
        "status": {
            "allocatable": allocatable,
            "capacity": dict(allocatable),
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }


def _copied_labels(metadata: Json) -> dict[str, str]:
    """All labels but those for maintenance: a copy of a node is not under maintenance."""
    labels: dict[str, str] = metadata.get("labels") or {}
    return {key: value for key, value in labels.items() if "maintenance" not in key}


def pod_spec(requests: Quantities, more: Json | None = None) -> Json:
    """One container with these requests, and more fields of the spec."""
    container = {"name": "app", "image": "app", "resources": {"requests": dict(requests)}}
    return {"containers": [container], **(more or {})}


def with_requests(requests: Quantities, containers: list[Json]) -> list[Json]:
    """Copies of the containers; the first has all requests, the others none."""
    changed = copy.deepcopy(containers)
    for container in changed:
        container.setdefault("resources", {})["requests"] = {}
    changed[0]["resources"]["requests"] = dict(requests)
    return changed
