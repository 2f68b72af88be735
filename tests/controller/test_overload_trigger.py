"""A pod that overloads its node triggers a round."""

from rescheduler.controller.overload_trigger import OverloadTrigger, overloaded_nodes
from rescheduler.kube.live_store import LiveStore
from rescheduler.model.tables.cluster_tables import ClusterTables
from rescheduler.settings import Policy
from testcluster.applying import apply
from testcluster.builders import node, pod
from tests.extender.extender_requests import tables_of
from tests.kube.support import QUICK_WATCH
from tests.migration.support import Sandbox, client_for


async def test_a_binding_that_overloads_a_node_triggers_a_round(sandbox: Sandbox) -> None:
    (name,) = sandbox.add_nodes("a", cpu="4")
    calls: list[set[str]] = []
    async with client_for(sandbox.cluster) as client:
        tables, policy = ClusterTables(), Policy()
        store = LiveStore(client, tables, settings=QUICK_WATCH)
        store.start()
        await store.synced()
        trigger = OverloadTrigger(
            tables, lambda: policy, lambda: calls.append(overloaded_nodes([name], tables, policy))
        )
        with trigger.watching(store):
            apply(sandbox.cluster, pod(f"{sandbox.namespace}/small", on=name, cpu="1"))
            await sandbox.until(lambda: f"{sandbox.namespace}/small" in tables.pods, "it is seen")
            apply(sandbox.cluster, pod(f"{sandbox.namespace}/big", on=name, cpu="2500m"))
            await sandbox.until(lambda: any(name in found for found in calls), "it is triggered")
        await store.stop()


def test_nodes_above_a_threshold_are_overloaded() -> None:
    tables = tables_of(
        [
            node("cool", cpu="10", memory="10Gi"),
            node("busy", cpu="10", memory="10Gi"),
            node("full", cpu="10", memory="10Gi"),
            node("empty", cpu="0", memory="0"),
            pod("shop/a", on="cool", cpu="8", memory="8Gi"),
            pod("shop/b", on="busy", cpu="8001m"),
            pod("shop/c", on="full", memory="9Gi"),
            pod("shop/d", on="unknown", cpu="9"),
            pod("shop/e", cpu="9"),
            pod("shop/f", on="cool", cpu="9", phase="Succeeded"),
        ]
    )
    names = ("cool", "busy", "full", "empty", "unknown")
    assert overloaded_nodes(names, tables, Policy()) == {"busy", "full"}
    assert overloaded_nodes(names, tables, Policy(cpu_threshold=90.0)) == {"full"}
