"""The three installs that are shipped, and what one could leave behind."""

import json
from typing import Any

from testcluster import TestCluster

INSTALLS: dict[str, dict[str, Any]] = {
    "full": {},
    "controller-only": {"extender.enabled": False},
    "read-only": {"dryRun": True},
}
"""By name: the options that differ from their defaults."""

MONITORING: dict[str, Any] = {
    "monitoring.podMonitor": True,
    "monitoring.alerts": True,
    "monitoring.dashboard": True,
}
"""What the Prometheus operator and Grafana can be given."""


def leftovers(cluster: TestCluster) -> list[str]:
    """What an install could leave in a cluster, by kind and name."""
    kinds = (
        "namespaces,customresourcedefinitions,mutatingwebhookconfigurations,clusterroles,"
        "clusterrolebindings,priorityclasses,leases,secrets,configmaps,services,networkpolicies"
    )
    found = json.loads(cluster.kubectl("get", kinds, "--all-namespaces", "-o", "json"))["items"]
    return [
        f"{each['kind']} {each['metadata']['name']}"
        for each in found
        if "rescheduler" in json.dumps(each["metadata"])
    ]
