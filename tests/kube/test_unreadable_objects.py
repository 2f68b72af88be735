"""An object that cannot be decoded is named, costs no other object, and makes no plan worse."""

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from benchmarks.reading import kubeconfig_for
from rescheduler.controller.drain.node_drain import NodeDrain
from rescheduler.errors import SettingsError, Unavailable
from rescheduler.kube.listwatch import ListWatch
from rescheduler.kube.live_store import LiveStore
from rescheduler.migration.migration_object import Migration
from rescheduler.model.kinds import BUDGET, CSI_NODE, DEPLOYMENT, KINDS, Kind
from rescheduler.model.tables.cluster_tables import ClusterTables
from rescheduler.model.tables.object_table import ObjectTable
from rescheduler.model.unreadable_objects import CONSEQUENCES
from rescheduler.planning.plan import Plan
from rescheduler.planning.planner import make_plan
from rescheduler.settings import Policy, StrategyName
from testcluster.builders import budget, deployment, node, pod, replicaset
from testcluster.client import JsonObject
from tests.kube.object_server import ObjectServer
from tests.kube.support import QUICK_WATCH, eventually

BALANCING = Policy(enabled_strategies=(StrategyName.LOAD_BALANCING,))
BAD_DRIVERS: dict[str, Any] = {"drivers": "none"}

# A kind that nobody can do without: nothing says how to go on.
NEEDED: Kind[Any] = Kind("CSINode", CSI_NODE.api_version, "csinodes", False, CSI_NODE.type, "a=b")


def csi_node(name: str, version: int = 1, **spec: Any) -> JsonObject:
    """A CSINode, without drivers if nothing else is said."""
    metadata = {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version)}
    return {"kind": "CSINode", "metadata": metadata, "spec": spec}


def versioned(*objects: JsonObject) -> list[JsonObject]:
    """Objects as a server has them."""
    return [
        {**item, "metadata": {**item["metadata"], "resourceVersion": str(version)}}
        for version, item in enumerate(objects, start=1)
    ]


async def listed(*objects: JsonObject) -> ClusterTables:
    """The tables after every kind was listed."""
    tables = ClusterTables()
    async with ObjectServer(objects).client() as client:
        await LiveStore(client, tables, QUICK_WATCH).list_once()
    return tables


@asynccontextmanager
async def watched(
    server: ObjectServer, kind: Kind[Any]
) -> AsyncIterator[tuple[ListWatch[Any], ObjectTable[Any]]]:
    """A list-watch that runs, and its table."""
    table = ObjectTable(kind)
    async with server.client() as client:
        watch = ListWatch(client, table, QUICK_WATCH)
        running = asyncio.create_task(watch.run())
        try:
            yield watch, table
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


def test_every_kind_that_plans_need_has_a_consequence() -> None:
    assert {*CONSEQUENCES} == {*KINDS}


async def test_a_list_loses_only_the_object_that_cannot_be_decoded() -> None:
    # More than fit on a page, with the bad one in the middle.
    others = [csi_node(f"n{number:02}") for number in range(25)]
    tables = await listed(*others[:12], csi_node("bad", **BAD_DRIVERS), *others[12:])
    assert len(tables.of(CSI_NODE)) == 25
    (found,) = tables.snapshot().unreadable
    assert str(found) == "CSINode bad: spec.drivers: 'none': expected a list"


async def test_a_watch_goes_on_past_an_object_that_cannot_be_decoded() -> None:
    server = ObjectServer([csi_node("a")])
    async with watched(server, CSI_NODE) as (watch, table):
        await watch.wait_synced()
        await server.send({"type": "MODIFIED", "object": csi_node("a", 5, **BAD_DRIVERS)})
        await server.send({"type": "ADDED", "object": csi_node("b", 6)})
        await eventually(lambda: "b" in table, "what follows is seen")
        # What it was before is not true any more.
        assert "a" not in table
        assert {*table.unreadable} == {"a"}
        assert watch.last_error is None
        await server.send({"type": "MODIFIED", "object": csi_node("a", 7)})
        await eventually(lambda: "a" in table, "it can be read again")
        assert table.unreadable == {}
        await server.send({"type": "MODIFIED", "object": csi_node("b", 8, **BAD_DRIVERS)})
        await server.send({"type": "DELETED", "object": csi_node("b", 9, **BAD_DRIVERS)})
        await server.send({"type": "DELETED", "object": csi_node("a", 10, **BAD_DRIVERS)})
        await eventually(lambda: len(table) == 0, "both are deleted")
        assert table.unreadable == {}
        assert (server.watches, watch.lists) == (1, 1)


async def test_an_object_that_a_new_list_does_not_have_is_forgotten() -> None:
    server = ObjectServer([csi_node("a", **BAD_DRIVERS), csi_node("b", **BAD_DRIVERS)])
    table = ObjectTable(CSI_NODE)
    async with server.client() as client:
        watch = ListWatch(client, table, QUICK_WATCH)
        await watch.list()
        assert {*table.unreadable} == {"a", "b"}
        server.listed = [csi_node("a", 2, **BAD_DRIVERS)]
        await watch.list()
        assert {*table.unreadable} == {"a"}
        server.listed = [csi_node("a", 3)]
        await watch.list()
        assert (table.unreadable, len(table)) == ({}, 1)


async def test_a_kind_that_nothing_can_do_without_fails_with_the_name_of_the_object() -> None:
    server = ObjectServer([csi_node("bad", **BAD_DRIVERS)])
    async with server.client() as client:
        watch = ListWatch(client, ObjectTable(NEEDED), QUICK_WATCH)
        with pytest.raises(Unavailable, match=r"CSINode bad: spec\.drivers: 'none': "):
            await watch.list()


async def test_a_pod_that_may_be_on_any_node_fails_with_its_name() -> None:
    bad = pod("shop/odd", on="b")
    bad["spec"]["nodeName"] = 5
    with pytest.raises(Unavailable, match=r"Pod shop/odd: spec\.nodeName: 5: expected text"):
        await listed(*versioned(bad))


async def test_an_object_without_a_name_fails_with_the_kind_and_the_field() -> None:
    bad = csi_node("a")
    bad["metadata"]["name"] = None
    with pytest.raises(Unavailable, match=r"csinodes.*name"):
        await listed(bad)


async def test_a_watch_of_such_a_kind_lists_again_until_the_object_can_be_decoded() -> None:
    server = ObjectServer()
    async with watched(server, NEEDED) as (watch, table):
        await watch.wait_synced()
        server.listed = [csi_node("a", 5, **BAD_DRIVERS)]
        await server.send({"type": "ADDED", "object": csi_node("a", 5, **BAD_DRIVERS)})
        await eventually(lambda: watch.last_error is not None, "it is noticed")
        assert "CSINode a: spec.drivers" in str(watch.last_error)
        server.events.clear()
        server.listed = [csi_node("a", 6)]
        await eventually(lambda: "a" in table, "it is listed")


# ------------------------------------------------------------ plans


def one_full_node() -> list[JsonObject]:
    """Six pods on the first of three nodes."""
    owner = deployment("shop/web", replicas=6)
    owned = replicaset("shop/web-5d", replicas=6, owner=owner)
    pods = [
        pod(f"shop/web-5d-{number}", on="a", cpu="1", owner=owned, labels={"app": "web"})
        for number in range(6)
    ]
    return [node("a"), node("b"), node("c"), owner, owned, *pods]


async def plan_with(*unreadable: JsonObject) -> Plan:
    tables = await listed(*versioned(*one_full_node(), *unreadable))
    return make_plan(tables.snapshot(), BALANCING)


async def test_nothing_is_moved_to_a_node_of_which_not_everything_is_known() -> None:
    assert {move.target for move in (await plan_with()).moves} == {"b", "c"}
    bad_pod = pod("shop/odd", on="b")
    bad_pod["spec"]["containers"] = "many"
    plan = await plan_with(bad_pod)
    assert {move.target for move in plan.moves} == {"c"}
    assert plan.unreadable == (
        "Pod shop/odd: spec.containers: 'many': expected a list; so its node takes no pods",
    )
    plan = await plan_with(csi_node("c", **BAD_DRIVERS))
    assert {move.target for move in plan.moves} == {"b"}


@pytest.mark.parametrize("kind", [BUDGET, DEPLOYMENT])
async def test_pods_stay_that_an_object_may_protect(kind: Kind[Any]) -> None:
    bad = budget("shop/odd") if kind is BUDGET else deployment("shop/odd", replicas=1)
    bad["spec"]["selector"] = "all"
    plan = await plan_with(bad)
    assert plan.moves == ()
    assert {blocked.blocker for blocked in plan.blocked} == {"UnreadableObject"}
    # That of another namespace protects nothing here.
    bad["metadata"]["namespace"] = "other"
    assert (await plan_with(bad)).moves


async def test_a_node_that_cannot_be_decoded_is_left_out() -> None:
    bad = node("b")
    bad["spec"]["taints"] = "none"
    objects = [item for item in one_full_node() if item["metadata"]["name"] != "b"]
    tables = await listed(*versioned(*objects, bad))
    plan = make_plan(tables.snapshot(), BALANCING)
    assert {move.target for move in plan.moves} == {"c"}
    assert plan.unreadable[0].endswith("expected a list; so it is left out")


async def test_a_drain_names_the_pod_that_it_cannot_decode_and_leaves_it() -> None:
    bad = pod("shop/odd", on="a")
    bad["spec"]["containers"] = "many"

    async def create(
        bodies: list[dict[str, Any]], existing: Sequence[Migration]
    ) -> list[Migration]:
        assert {body["spec"]["targetNode"] for body in bodies} == {"b", "c"}
        return [msgspec.convert(body, Migration) for body in bodies]

    async with ObjectServer(versioned(*one_full_node(), bad)).client() as client:
        remaining = await NodeDrain(client, "a", Policy()).run(create)
    why = "it cannot be decoded: spec.containers: 'many': expected a list"
    assert (remaining.blocked, remaining.failed) == ({"shop/odd": why}, {})


async def test_a_node_that_cannot_be_decoded_is_not_drained() -> None:
    bad = node("b")
    bad["spec"]["taints"] = "none"
    async with ObjectServer(versioned(node("a"), bad)).client() as client:
        for name, why in (("b", r"cannot be decoded: spec\.taints"), ("x", "no such node")):
            with pytest.raises(SettingsError, match=f"node {name}: .*{why}"):
                await NodeDrain(client, name, Policy()).plan()


async def test_the_plan_command_names_what_could_not_be_decoded(tmp_path: Path) -> None:
    server = ObjectServer(versioned(*one_full_node(), csi_node("b", **BAD_DRIVERS)))
    kubeconfig = tmp_path / "kubeconfig"
    async with server.client():
        kubeconfig.write_text(kubeconfig_for(server.url))
        program = Path(sys.executable).with_name("rescheduler")
        process = await asyncio.create_subprocess_exec(
            program,
            "plan",
            f"--kubeconfig={kubeconfig}",
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        output, errors = await process.communicate()
    assert process.returncode == 0, errors
    assert "Not decoded: 1" in output.decode()
    text = " ".join(output.decode().split())
    assert "CSINode b: spec.drivers: 'none': expected a list; so its node takes no pods" in text
    assert errors == b""


async def test_an_answer_that_cannot_be_decoded_is_an_error_that_names_the_field() -> None:
    server = ObjectServer([csi_node("bad", **BAD_DRIVERS)])
    async with server.client() as client:
        with pytest.raises(Unavailable, match=r"csinodes: .* metadata.name: missing"):
            await client.get(CSI_NODE.path, CSI_NODE.type, {"limit": "1"})
