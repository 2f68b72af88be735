"""Fixtures for everything that moves pods on a real control plane."""

from collections.abc import Iterator
from itertools import count

import pytest

from rescheduler.migration.crd import CRD, NAME
from testcluster import TestCluster
from testcluster.builders import namespace as namespace_object
from testcluster.client import ApiError
from testcluster.waiting import wait_until
from tests.migration.support import Corner

numbers = count(1)
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture(scope="session")
def migratory(cluster: TestCluster) -> TestCluster:
    """The shared cluster, with Migrations."""
    client = cluster.client
    if not client.exists(f"{CRDS}/{NAME}"):
        client.create(CRDS, CRD)

    def are_served() -> bool:
        try:
            return client.exists("/apis/rescheduler.dev/v1alpha1/migrations")
        except ApiError:
            # Its storage is being set up.
            return False

    wait_until(are_served, what="Migrations are served")
    return cluster


@pytest.fixture
def corner(migratory: TestCluster) -> Iterator[Corner]:
    """A namespace and nodes of the test's own; all of it goes afterwards, without being awaited."""
    name = f"mig-{next(numbers)}"
    client = migratory.client
    client.create("/api/v1/namespaces", namespace_object(name))
    account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
    wait_until(lambda: client.exists(account), what="pods can be made")
    made = Corner(migratory, name)
    yield made
    client.delete(f"/api/v1/namespaces/{name}")
    for node in made.nodes:
        if client.exists(f"/api/v1/nodes/{node}"):
            client.delete(f"/api/v1/nodes/{node}")
    client.close()
    made.outside.close()
