"""The installs that are shipped, and what one could leave behind."""

import json
from typing import Any

from testcluster import TestCluster
from testcluster.client import ApiError
from testcluster.waiting import wait_until
from tests.conftest import CRDS

IMAGE: dict[str, Any] = {"image.repository": "registry.example/rescheduler"}
SCHEDULER: dict[str, Any] = {
    "scheduler.enabled": True,
    "scheduler.image.repository": "registry.example/kube-scheduler",
    "scheduler.image.tag": "v1.2.3",
}

INSTALLS: dict[str, dict[str, Any]] = {
    "full": IMAGE | SCHEDULER,
    "default": IMAGE,
    "controller-only": IMAGE | {"extender.enabled": False},
    "read-only": IMAGE | {"dryRun": True},
}
"""By name: the options that differ from their defaults."""

MONITORING: dict[str, Any] = {
    "monitoring.podMonitor": True,
    "monitoring.alerts": True,
    "monitoring.dashboard": True,
}
"""What the Prometheus operator and Grafana can be given."""

NOT_LEFT_BEHIND = {"componentstatuses", "events", "events.events.k8s.io", "pods"}
"""Kinds that are not looked at: pods that were moved keep marks, and belong to others."""

ADMISSION_POLICIES: dict[str, Any] = {"admissionPolicies.enabled": True}


def leftovers(cluster: TestCluster) -> list[str]:
    """What an install could leave in a cluster, by kind and name."""
    listed = set(cluster.kubectl("api-resources", "--verbs=list", "--output=name").split())
    kinds = ",".join(sorted(listed - NOT_LEFT_BEHIND))
    found = json.loads(cluster.kubectl("get", kinds, "--all-namespaces", "-o", "json"))["items"]
    return [
        f"{each['kind']} {each['metadata']['name']}"
        for each in found
        if "rescheduler" in json.dumps(each["metadata"])
    ]


def wait_until_kinds_are_served(cluster: TestCluster) -> None:
    """Wait for the kind of every CustomResourceDefinition, before any of them is deleted.

    The API server could not list the objects of the kind, to delete them first, and would try again
    only after minutes.
    """
    client = cluster.client

    def are_served() -> bool:
        try:
            return all(map(client.exists, lists_of_custom_kinds(cluster)))
        except ApiError:
            # Its storage is being set up.
            return False

    wait_until(are_served, what="every kind is served")
    client.close()


def lists_of_custom_kinds(cluster: TestCluster) -> list[str]:
    """The paths of all kinds that are defined by CustomResourceDefinitions."""
    specs = [definition["spec"] for definition in cluster.client.get(CRDS)["items"]]
    return [
        f"/apis/{spec['group']}/{version['name']}/{spec['names']['plural']}"
        for spec in specs
        for version in spec["versions"]
        if version["served"]
    ]
