"""Where a drain moves pods to, on a simulated cluster."""

import asyncio
from typing import Any

from rescheduler.controller.node_drain import NodeDrain
from rescheduler.model.rules.node_availability import NodeLabel
from rescheduler.settings import NodeMaintenanceOptions, Policy
from rescheduler.simulation.cluster.cluster import SimulatedCluster
from testcluster.builders import deployment, node
from tests.simulation.simulated_clusters import in_simulated_cluster

POLICY = Policy(
    node_maintenance=NodeMaintenanceOptions(maintenance_label=NodeLabel("ops/drain=yes"))
)


def moves_of_drain(*others: dict[str, Any]) -> list[tuple[str, str]]:
    """Pod and target of every Migration that draining node `a` creates."""

    async def drain(cluster: SimulatedCluster) -> list[tuple[str, str]]:
        requested: list[tuple[str, str]] = []

        async def create(bodies: list[dict[str, Any]]) -> None:
            for body in bodies:
                spec = body["spec"]
                requested.append((spec["pod"]["name"], spec["targetNode"]))

        for other in others:
            cluster.create(other)
        await asyncio.sleep(10)
        await NodeDrain(cluster.server, "a", POLICY, create).run()
        return requested

    return in_simulated_cluster([node("a"), deployment("shop/web", 3, "100m")], drain)


def test_no_pod_goes_to_a_node_that_the_policys_label_marks_for_maintenance() -> None:
    labelled = node("b", labels={"ops/drain": "yes"})
    assert {target for _, target in moves_of_drain(labelled, node("c"))} == {"c"}


def test_pods_of_other_nodes_under_maintenance_are_left_to_the_controller() -> None:
    assert len(moves_of_drain(node("b"))) == 3
    assert len(moves_of_drain(node("b", labels={"ops/drain": "yes"}), node("c"))) == 3
