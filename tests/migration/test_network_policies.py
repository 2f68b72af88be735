"""A new pod never runs outside of a policy because a label is withheld from it."""

from typing import Any

import pytest

from testcluster.applying import apply
from testcluster.builders import replicaset
from testcluster.client import JsonObject
from tests.migration.support import Sandbox, controller_on, other_node

LABELS = {"app": "db", "pci": "true"}


def policy(sandbox: Sandbox, **labels: str) -> JsonObject:
    spec: dict[str, Any] = {"podSelector": {"matchLabels": labels}, "policyTypes": ["Ingress"]}
    metadata = {"name": "isolated", "namespace": sandbox.namespace}
    group = "networking.k8s.io/v1"
    return {"apiVersion": group, "kind": "NetworkPolicy", "metadata": metadata, "spec": spec}


@pytest.mark.parametrize(
    ("policed", "mode"), [({"app": "db"}, "Handoff"), (LABELS, "Evict")], ids=["one", "all"]
)
async def test_a_plain_replicaset_is_handed_over_only_if_no_policy_overlooks_the_new_pod(
    sandbox: Sandbox, policed: dict[str, str], mode: str
) -> None:
    sandbox.add_nodes("a", "b")
    key = f"{sandbox.namespace}/db"
    body = replicaset(key, 2, "100m", labels=LABELS, template=sandbox.here())
    apply(sandbox.cluster, body, policy(sandbox, **policed))
    old, _ = sandbox.wait_ready("db", 2)
    seen: list[JsonObject] = []

    def look(point: str, key: str) -> None:
        seen.extend(each["metadata"].get("labels", {}) for each in sandbox.all("pods"))

    async with controller_on(sandbox.cluster, reached=look):
        name = sandbox.migrate(old, other_node(sandbox, old))
        (status,) = await sandbox.finished(name)
    assert status["mode"] == mode, status
    assert status["phase"] == "Completed", status
    assert seen
    assert all(policed.items() <= labels.items() for labels in seen)
