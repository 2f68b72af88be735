"""What the pods of both Deployments have in common: they may do as little as possible."""

from typing import Any

from rescheduler.install.metadata import SCHEDULER, labels, metadata
from rescheduler.install.tree import Comment, Tree, Value


def own_namespace() -> dict[Any, Tree]:
    """An environment variable for arguments, so that they need no change with the namespace."""
    reference = {"fieldRef": {"fieldPath": "metadata.namespace"}}
    return {"name": "POD_NAMESPACE", "valueFrom": reference}


def own_uid() -> dict[Any, Tree]:
    """The same for the uid of the pod: its containers run one after the other."""
    reference = {"fieldRef": {"fieldPath": "metadata.uid"}}
    return {"name": "POD_UID", "valueFrom": reference}


def option_of(component: str, name: str) -> Value:
    """An option that each component has for itself."""
    return Value(f"scheduler.{name}" if component == SCHEDULER else name)


def deployment(
    component: str,
    replicas: Tree,
    container: dict[Any, Tree],
    volumes: list[Tree],
    account: Tree,
    annotations: Tree,
) -> dict[Any, Tree]:
    """A Deployment of one container, whose pods prefer different nodes."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            **metadata(component, component),
            "labels": Value(f"{component}.deploymentLabels"),
            "annotations": Value("deploymentAnnotations"),
        },
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels(component)},
            "template": {
                "metadata": {
                    "labels": Value(f"{component}.podLabels"),
                    "annotations": annotations,
                },
                "spec": {
                    "serviceAccountName": account,
                    "automountServiceAccountToken": True,
                    "priorityClassName": Value("priorityClassName"),
                    "imagePullSecrets": Value("imagePullSecrets"),
                    "nodeSelector": Value("nodeSelector"),
                    "tolerations": Value("tolerations"),
                    Comment("Preferred only: a cluster may have a single node."): None,
                    "affinity": Value(f"{component}.affinity"),
                    "topologySpreadConstraints": option_of(component, "topologySpreadConstraints"),
                    "securityContext": option_of(component, "podSecurityContext"),
                    "containers": [container],
                    "volumes": volumes,
                },
            },
        },
    }


def probe(path: str, port: Tree, scheme: Tree, **more: int) -> dict[Any, Tree]:
    """A probe of a kubelet."""
    return {"httpGet": {"path": path, "port": port, "scheme": scheme}, **more}


def disruption_budget(component: str) -> dict[Any, Tree]:
    """One pod may be missing, so that nodes can be drained."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata(component, component),
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": labels(component)}},
    }
