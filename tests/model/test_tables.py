from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.model.objects import ContainerStatus, Node, Pod, ResourceRequirements
from rescheduler.model.quantities import BadQuantity
from rescheduler.model.snapshot import NO_NODE, UNKNOWN_NODE
from rescheduler.model.tables.cluster_tables import ClusterTables
from rescheduler.model.tables.object_table import NodeTable
from rescheduler.model.tables.pod_table import PodTable
from rescheduler.model.tables.table import TableChange
from testcluster.builders import node, pod


def a_pod(name: str, version: int, uid: str = "u1", **options: Any) -> Pod:
    described = pod(name, **options)
    described["metadata"] |= {"resourceVersion": str(version), "uid": uid}
    return msgspec.convert(described, Pod)


def a_node(name: str, version: int, **options: Any) -> Node:
    described = node(name, **options)
    described["metadata"] |= {"resourceVersion": str(version), "uid": f"uid of {name}"}
    return msgspec.convert(described, Node)


def contents(table: PodTable) -> dict[str, tuple[str, int]]:
    return {key: (uid, version) for key, uid, version in table.versions()}


def test_news_is_told_once() -> None:
    table = PodTable()
    assert table.put(a_pod("a", 1)) == (TableChange("Added", "default/a", "u1"),)
    assert table.put(a_pod("a", 1)) == ()
    assert table.put(a_pod("a", 3)) == (TableChange("Modified", "default/a", "u1"),)
    assert table.put(a_pod("a", 2)) == ()
    assert contents(table) == {"default/a": ("u1", 3)}


def test_a_pod_of_the_same_name_is_another_pod() -> None:
    table = PodTable()
    table.put(a_pod("a", 1))
    changes = table.put(a_pod("a", 2, uid="u2"))
    assert changes == (
        TableChange("Deleted", "default/a", "u1"),
        TableChange("Added", "default/a", "u2"),
    )


def test_deleting_a_predecessor_leaves_the_successor_alone() -> None:
    table = PodTable()
    table.put(a_pod("a", 2, uid="u2"))
    assert table.remove(a_pod("a", 3, uid="u1")) == ()
    assert len(table) == 1


def test_what_a_list_no_longer_has_is_gone() -> None:
    table = PodTable()
    for name in "abc":
        table.put(a_pod(name, 1, uid=name))
    table.begin_replace()
    assert table.put(a_pod("b", 1, uid="b")) == ()
    assert table.finish_replace() == [
        TableChange("Deleted", "default/a", "a"),
        TableChange("Deleted", "default/c", "c"),
    ]
    assert list(contents(table)) == ["default/b"]


def test_a_list_that_breaks_off_can_start_again() -> None:
    table = PodTable()
    table.put(a_pod("a", 1))
    table.begin_replace()
    table.begin_replace()
    table.put(a_pod("a", 1))
    assert table.finish_replace() == []


def test_a_restored_server_is_believed_though_its_versions_are_older() -> None:
    table = PodTable()
    table.put(a_pod("a", 100))
    table.begin_replace()
    assert table.put(a_pod("a", 7)) == (TableChange("Modified", "default/a", "u1"),)
    table.finish_replace()
    assert contents(table) == {"default/a": ("u1", 7)}


def test_a_bad_quantity_leaves_the_tables_as_they_were() -> None:
    pods, nodes = PodTable(), NodeTable()
    pods.put(a_pod("a", 1, on="n", cpu="1"))
    with pytest.raises(BadQuantity):
        pods.put(a_pod("b", 2, on="n", cpu="lots"))
    with pytest.raises(BadQuantity):
        nodes.put(a_node("n", 1, cpu="lots"))
    assert list(contents(pods)) == ["default/a"]
    assert len(nodes) == 0


def test_pods_of_one_template_share_it_and_the_last_one_takes_it_along() -> None:
    table = PodTable()
    replicas = [a_pod(f"r{number}", number + 1, uid=str(number), cpu="1") for number in range(3)]
    for replica in replicas:
        table.put(replica)
    table.put(a_pod("other", 9, uid="other", cpu="2"))
    columns, templates = table.columns({})
    assert len(templates) == 2
    assert columns.template.tolist() == [0, 1, 1, 1]  # "other" sorts before "r0"
    for replica in replicas:
        table.remove(replica)
    _, templates = table.columns({})
    assert [each.asked["cpu"] for each in templates] == [2000]


def test_the_random_name_of_the_token_volume_does_not_make_a_template() -> None:
    table = PodTable()
    for number in range(2):
        token = {"name": f"kube-api-access-{number}", "projected": {"sources": []}}
        table.put(a_pod(f"p{number}", 1, uid=str(number), volumes=[token]))
    assert len(table.columns({})[1]) == 1


def test_pods_share_a_template_whether_or_not_the_default_restart_policy_is_written() -> None:
    table = PodTable()
    table.put(a_pod("default", 1, uid="1"))
    table.put(a_pod("written", 1, uid="2", restartPolicy="Always"))
    assert len(table.columns({})[1]) == 1
    table.put(a_pod("once", 1, uid="3", restartPolicy="Never"))
    assert len(table.columns({})[1]) == 2


def test_rows_tell_where_a_pod_is_and_how_it_does() -> None:
    table = PodTable()
    table.put(a_pod("bound", 1, uid="1", on="n"))
    table.put(a_pod("lost", 1, uid="2", on="elsewhere", phase="Succeeded"))
    table.put(a_pod("waiting", 1, uid="3"))
    columns, _ = table.columns({"n": 0})
    assert columns.keys == ("default/bound", "default/lost", "default/waiting")
    assert columns.node.tolist() == [0, UNKNOWN_NODE, NO_NODE]
    assert columns.ready.tolist() == [True, False, False]
    assert columns.finished.tolist() == [False, True, False]
    assert columns.placed.tolist() == [True, False, False]
    assert columns.pending.tolist() == [False, False, True]


@given(
    st.lists(
        st.tuples(
            st.sampled_from("abcde"), st.sampled_from(["put", "remove"]), st.sampled_from("xy")
        ),
        max_size=60,
    )
)
def test_changes_replay_to_what_the_table_holds(steps: list[tuple[str, str, str]]) -> None:
    table = PodTable()
    replayed: dict[str, str] = {}
    for version, (name, action, uid) in enumerate(steps, start=1):
        a = a_pod(name, version, uid=uid, cpu=f"{version % 3}", on=f"n{version % 2}")
        for change in table.put(a) if action == "put" else table.remove(a):
            replay(change, replayed)
    assert replayed == {key: uid for key, (uid, _) in contents(table).items()}
    columns, templates = table.columns({"n0": 0, "n1": 1})
    assert list(columns.keys) == sorted(replayed)
    assert set(columns.template.tolist()) == set(range(len(templates)))


def replay(change: TableChange, contents: dict[str, str]) -> None:
    if change.type == "Added":
        assert change.key not in contents
        contents[change.key] = change.uid
    else:
        assert contents[change.key] == change.uid
        if change.type == "Deleted":
            del contents[change.key]


@given(st.permutations(range(6)))
def test_the_order_of_arrival_does_not_show(order: list[int]) -> None:
    described = [
        a_pod(f"p{number}", 1, uid=str(number), cpu=str(number % 3), on="n") for number in range(6)
    ]
    assert same(filled(described), filled(described[number] for number in order))


def filled(pods: Iterable[Pod]) -> tuple[Any, Any]:
    table = PodTable()
    for each in pods:
        table.put(each)
    return table.columns({"n": 0})


def same(one: tuple[Any, Any], other: tuple[Any, Any]) -> bool:
    (columns, templates), (other_columns, other_templates) = one, other
    names = ("template", "node", "phase", "ready", "deleting", "created")
    return (
        columns.keys == other_columns.keys
        and templates == other_templates
        and all((getattr(columns, name) == getattr(other_columns, name)).all() for name in names)
    )


# ------------------------------------------------------------ sums per node

QUANTITIES = st.sampled_from(["0", "100m", "1", "2500m", "9223372036854775807", "4e18"])


@st.composite
def some_pod(draw: st.DrawFn) -> Pod:
    """A pod in any state, of which there may be an older version, or an older one of its name."""
    requests = draw(
        st.dictionaries(st.sampled_from(["cpu", "memory", "nvidia.com/gpu"]), QUANTITIES)
    )
    container = {"name": "app", "image": "app", "resources": {"requests": requests}}
    made = a_pod(
        draw(st.sampled_from("abcd")),
        draw(st.integers(0, 40)),
        uid=draw(st.sampled_from("xy")),
        on=draw(st.sampled_from([None, "n0", "n1", "elsewhere"])),
        phase=draw(st.sampled_from(["Pending", "Running", "Succeeded", "Failed", "Unknown", ""])),
        containers=[container],
    )
    if draw(st.booleans()):
        given = ResourceRequirements(requests={"cpu": draw(QUANTITIES)})
        status = ContainerStatus(name="app", resources=given, allocated_resources=given.requests)
        made = msgspec.structs.replace(
            made, status=msgspec.structs.replace(made.status, container_statuses=(status,))
        )
    return made


STEPS = st.one_of(
    st.tuples(st.just("put"), some_pod()),
    st.tuples(st.just("remove"), some_pod()),
    st.tuples(st.just("relist"), st.lists(some_pod(), max_size=4)),
)


@given(st.lists(STEPS, max_size=30))
def test_sums_per_node_are_always_what_a_snapshot_adds_up(steps: list[tuple[str, Any]]) -> None:
    tables = ClusterTables()
    for name in ("n0", "n1"):
        tables.nodes.put(a_node(name, 1))
    for action, what in steps:
        if action == "relist":
            tables.pods.begin_replace()
            for each in what:
                tables.pods.put(each)
            tables.pods.finish_replace()
        else:
            getattr(tables.pods, action)(what)
        assert_sums_are_right(tables)


def assert_sums_are_right(tables: ClusterTables) -> None:
    snapshot = tables.snapshot()
    numbers = [tables.pods.number_of_node(name) for name in snapshot.nodes.names]
    for column, resource in enumerate(snapshot.resources):
        kept = tables.pods.held_on(resource)[numbers]
        assert kept.tolist() == snapshot.requested[:, column].tolist(), resource


def test_sums_have_room_for_any_number_of_nodes() -> None:
    tables = ClusterTables()
    for number in range(200):
        tables.nodes.put(a_node(f"n{number}", 1))
        tables.pods.put(a_pod(f"p{number}", 1, uid=str(number), on=f"n{number}", cpu=str(number)))
    assert_sums_are_right(tables)
    assert tables.pods.held_on("nvidia.com/gpu").sum() == 0


def test_whoever_keeps_something_per_node_learns_which_rows_changed() -> None:
    table = NodeTable()
    table.put(a_node("a", 1))
    table.put(a_node("b", 1))
    seen = table.changes
    assert table.changed_since(seen) == []
    table.put(a_node("b", 1))
    assert table.changed_since(seen) == []
    table.put(a_node("b", 2, cpu="3"))
    (row,) = table.changed_since(seen)
    found = table.at(row)
    assert found is not None
    assert (found[0].metadata.name, found[1]["cpu"]) == ("b", 3000)
    table.remove(a_node("b", 3))
    assert table.changed_since(seen) == [row]
    assert table.at(row) is None
    assert sorted(table.changed_since(0)) == [0, 1]
