"""The load of nodes and the room that is kept on them are what snapshots say."""

import msgspec
import pytest

from rescheduler.model.objects import Node, Pod
from rescheduler.model.tables.cluster_tables import ClusterTables
from rescheduler.status.cluster_load import node_summary, per_tenth, reservation_summary
from rescheduler.status.status_document import MOST_LISTED, MOST_NODES, RoomReservation
from testcluster.builders import node, pod
from testcluster.client import JsonObject


def tables_of(nodes: list[JsonObject], pods: list[JsonObject]) -> ClusterTables:
    tables = ClusterTables()
    for each in nodes:
        tables.nodes.put(msgspec.convert(each, Node))
    for each in pods:
        tables.pods.put(msgspec.convert(each, Pod))
    return tables


def nominated(key: str, target: str) -> JsonObject:
    waiting = pod(key, cpu="250m", memory="64Mi")
    waiting["status"]["nominatedNodeName"] = target
    return waiting


def test_the_fullest_nodes_come_first_and_all_are_counted() -> None:
    nodes = [
        node("a", cpu="4", memory="8Gi"),
        node("b", cpu="4", memory="8Gi", unschedulable=True),
        node("c", cpu="0", memory="0", ready=False),
    ]
    pods = [
        pod("shop/p", on="b", cpu="3", memory="2Gi"),
        pod("shop/q", on="a", cpu="1", memory="1Gi"),
        pod("shop/gone", on="a", cpu="1", memory="1Gi", phase="Succeeded"),
    ]
    found = node_summary(tables_of(nodes, pods))
    assert (found.count, found.not_ready, found.cordoned) == (3, 1, 1)
    assert [(use.name, use.cpu, use.memory) for use in found.fullest] == [
        ("b", 0.75, 0.25),
        ("a", 0.25, 0.125),
        ("c", 0.0, 0.0),
    ]
    assert [use.is_cordoned for use in found.fullest] == [True, False, False]
    assert [index for index, count in enumerate(found.cpu) if count] == [0, 2, 7]


@pytest.mark.parametrize(("fraction", "tenth"), [(0.0, 0), (0.1, 1), (1.0, 9), (1.01, 10), (7, 10)])
def test_a_full_node_is_not_overfull(fraction: float, tenth: int) -> None:
    assert per_tenth([fraction]).index(1) == tenth


def test_room_is_kept_for_pods_that_are_nominated_and_not_placed() -> None:
    there = nominated("shop/there", "a")
    there["spec"]["nodeName"] = "a"
    ended = nominated("shop/ended", "a")
    ended["status"]["phase"] = "Failed"
    pods = [nominated("shop/coming", "a"), there, ended, pod("shop/waiting")]
    found = reservation_summary(tables_of([node("a")], pods))
    assert found.count == 1
    assert found.pods == (RoomReservation("shop/coming", "a", 250, 64 * 2**20),)


def test_a_large_cluster_gives_no_longer_lists() -> None:
    nodes = [node(f"n{number:04}") for number in range(300)]
    pods = [nominated(f"shop/p{number:04}", "n0001") for number in range(300)]
    tables = tables_of(nodes, pods)
    summary, reservations = node_summary(tables), reservation_summary(tables)
    assert (summary.count, len(summary.fullest)) == (300, MOST_NODES)
    assert (reservations.count, len(reservations.pods)) == (300, MOST_LISTED)
    assert len(msgspec.json.encode((summary, reservations))) < 10_000
