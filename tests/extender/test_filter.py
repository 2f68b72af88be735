"""Which nodes pass for a new pod, and the reasons for the others."""

from typing import Any

import pytest

from rescheduler.extender.waiting_migrations import PromisedRoom
from rescheduler.labels import MAINTENANCE
from rescheduler.settings import NodeMaintenanceOptions, Policy, node_label_of
from testcluster.builders import daemonset, node, pod
from testcluster.client import JsonObject
from tests.extender.extender_requests import (
    Planned,
    RecordedEvents,
    decoded,
    extender_for,
    filter_response,
    filtered,
    nodes,
    put,
    refused,
    tables_of,
    with_names,
)

CORDON_TAINT = "node.kubernetes.io/unschedulable"
BUSY = {"labels": {MAINTENANCE: "true"}}
NEW = pod("shop/new", cpu="1", memory="1Gi")


def filled(name: str, cpu: str = "1", memory: str = "1Gi") -> JsonObject:
    return pod(f"shop/on-{name}", on=name, cpu=cpu, memory=memory)


def test_a_node_that_the_pod_would_bring_above_a_threshold_is_refused_with_the_reason() -> None:
    extender = extender_for(
        [
            *nodes("free", "cpu", "memory", "both"),
            filled("cpu", cpu="7500m"),
            filled("memory", memory="7.5Gi"),
            filled("both", cpu="9", memory="9Gi"),
        ],
        cpu_threshold=80.0,
        memory_threshold=75.0,
    )
    everywhere = ["free", "cpu", "memory", "both"]
    assert filtered(extender, NEW, everywhere) == ["free"]
    assert refused(extender, NEW, everywhere) == {
        "cpu": "node(s) would have CPU above 80% with this pod",
        "memory": "node(s) would have memory above 75% with this pod",
        "both": "node(s) would have CPU above 80% and memory above 75% with this pod",
    }


def test_a_threshold_that_is_just_reached_is_not_exceeded() -> None:
    extender = extender_for([*nodes("a", "b"), filled("a", cpu="7"), filled("b", cpu="7001m")])
    assert filtered(extender, NEW, ["a", "b"]) == ["a"]


def test_all_that_a_pod_asks_for_counts() -> None:
    """Init containers, what is set for the pod as a whole, and overhead."""
    extender = extender_for(nodes("a"), strict_filter=True)
    container = {"name": "app", "image": "app", "resources": {"requests": {"cpu": "1"}}}
    starting = {**container, "resources": {"requests": {"cpu": "9"}}}
    for spec in (
        {"initContainers": [starting]},
        {"resources": {"requests": {"cpu": "8500m"}}},
        {"overhead": {"cpu": "8"}},
    ):
        big = pod("shop/big", containers=[container], **spec)
        assert filtered(extender, big, ["a"]) == []


def test_pods_that_have_ended_take_no_room_and_pods_without_requests_ask_for_none() -> None:
    ended = pod("shop/ended", on="a", cpu="9", phase="Succeeded")
    extender = extender_for([*nodes("a"), ended])
    assert filtered(extender, NEW, ["a"]) == ["a"]
    assert filtered(extender, pod("shop/modest"), ["a"]) == ["a"]


# ------------------------------------------------------------ maintenance


def test_a_node_under_maintenance_is_refused_even_if_it_is_the_only_one() -> None:
    extender = extender_for(nodes("a", **BUSY))
    assert filtered(extender, NEW, ["a"]) == []
    assert refused(extender, NEW, ["a"]) == {"a": "node(s) were under maintenance"}


@pytest.mark.parametrize("toleration", [{"key": CORDON_TAINT}, {}], ids=["cordon", "everything"])
def test_a_pod_that_tolerates_a_cordon_may_use_a_node_under_maintenance(toleration: Any) -> None:
    extender = extender_for(nodes("a", **BUSY))
    tolerant = pod("shop/agent", tolerations=[{"operator": "Exists", **toleration}])
    assert filtered(extender, tolerant, ["a"]) == ["a"]


def test_the_label_for_maintenance_is_the_policys() -> None:
    own = NodeMaintenanceOptions(maintenance_label=node_label_of("out-of-order"))
    extender = extender_for(
        [*nodes("a", **BUSY), *nodes("b", labels={"out-of-order": "true"})], node_maintenance=own
    )
    assert filtered(extender, NEW, ["a", "b"]) == ["a"]
    extender.policy = Policy()
    assert filtered(extender, NEW, ["a", "b"]) == ["b"]


# ------------------------------------------------------------ letting through


def test_overloaded_nodes_are_let_through_when_there_are_no_others_least_overloaded_first() -> None:
    extender = extender_for(
        [
            *nodes("fullest", "full", "fuller", "closed"),
            *nodes("maintained", **BUSY),
            filled("fullest", cpu="9500m", memory="0"),
            filled("full", cpu="7500m", memory="7.5Gi"),
            filled("fuller", cpu="0", memory="9Gi"),
        ],
        Planned(promises=[PromisedRoom("closed", {"cpu": 10_000})]),
    )
    names = ["maintained", "fullest", "closed", "fuller", "full"]
    assert filtered(extender, NEW, names) == ["full", "fuller", "fullest"]
    assert refused(extender, NEW, names).keys() == {"maintained", "closed"}


def test_a_strict_filter_lets_no_overloaded_node_through() -> None:
    extender = extender_for([*nodes("a"), filled("a", cpu="9")], strict_filter=True)
    assert filtered(extender, NEW, ["a"]) == []
    assert refused(extender, NEW, ["a"]) == {"a": "node(s) would have CPU above 80% with this pod"}


def test_one_event_per_pod_says_that_overloaded_nodes_were_let_through() -> None:
    recorded = RecordedEvents()
    objects = [*nodes("a", "b"), filled("a", cpu="9"), filled("b", cpu="8")]
    extender = extender_for(objects, events=recorded)
    for _ in range(3):
        filtered(extender, NEW, ["a", "b"])
    ((about, reason, text),) = recorded.events
    assert (about, reason) == ("new", "AllNodesOverloaded")
    assert "(2)" in text
    assert "least loaded is b with CPU at 90% and memory at 20%" in text
    filtered(extender, pod("shop/other", cpu="1"), ["a", "b"])
    assert [about for about, _, _ in recorded.events] == ["new", "other"]


def test_a_pod_of_a_daemon_set_is_not_refused_for_load() -> None:
    extender = extender_for([*nodes("a", "b"), filled("a", cpu="9")], strict_filter=True)
    agent = pod("shop/agent", cpu="1", owner=daemonset("shop/agents"))
    assert filtered(extender, agent, ["a", "b"]) == ["a", "b"]


# ------------------------------------------------------------ what migrations have planned


def test_promised_room_is_kept_for_whom_it_was_promised_to() -> None:
    promise = PromisedRoom("a", {"cpu": 4000, "memory": 0, "pods": 1})
    extender = extender_for([*nodes("a", "b"), filled("a", cpu="5500m")], Planned({}, [promise]))
    assert filtered(extender, NEW, ["a", "b"]) == ["b"]
    assert refused(extender, NEW, ["a"]) == {
        "a": "node(s) had their free capacity reserved for a migration in progress"
    }
    small = pod("shop/small", cpu="500m")
    assert filtered(extender, small, ["a"]) == ["a"], "let through: the room is still there"


def test_room_that_the_scheduler_keeps_itself_is_load_and_not_kept_a_second_time() -> None:
    amounts = {"cpu": 4000, "memory": 0, "pods": 1}
    objects = [*nodes("a"), filled("a", cpu="5500m")]
    ours = extender_for(objects, Planned({}, [PromisedRoom("a", amounts)]))
    assert filtered(ours, NEW, ["a"]) == []
    kept = PromisedRoom("a", amounts, kept_by_scheduler=True)
    assert filtered(extender_for(objects, Planned({}, [kept])), NEW, ["a"]) == ["a"]
    strict = extender_for(objects, Planned({}, [kept]), strict_filter=True)
    assert refused(strict, NEW, ["a"]) == {"a": "node(s) would have CPU above 80% with this pod"}


def test_all_promises_on_a_node_count_together_and_any_resource_does() -> None:
    gpu = "nvidia.com/gpu"
    promises = [PromisedRoom("a", {gpu: 1, "cpu": 10}) for number in range(3)]
    planned = Planned({}, promises)
    extender = extender_for(nodes("a", resources={gpu: "4"}), planned)
    container = {"name": "app", "image": "app", "resources": {"requests": {gpu: "1"}}}
    assert filtered(extender, pod("shop/one", containers=[container]), ["a"]) == ["a"]
    container = {"name": "app", "image": "app", "resources": {"requests": {gpu: "2"}}}
    assert filtered(extender, pod("shop/two", containers=[container]), ["a"]) == []
    assert filtered(extender, NEW, ["a"]) == ["a"], "it takes no GPU"


def test_the_last_place_for_a_pod_can_be_promised() -> None:
    promise = PromisedRoom("a", {"pods": 1})
    extender = extender_for([*nodes("a", pods=2), filled("a")], Planned({}, [promise]))
    assert filtered(extender, pod("shop/modest"), ["a"]) == []


def test_room_that_is_promised_counts_as_load() -> None:
    promise = PromisedRoom("a", {"cpu": 7500, "memory": 0})
    extender = extender_for(nodes("a", "b"), Planned({}, [promise]))
    assert refused(extender, NEW, ["a", "b"]) == {
        "a": "node(s) would have CPU above 80% with this pod"
    }


def test_a_promise_on_a_node_that_is_not_known_or_not_in_the_request_does_no_harm() -> None:
    planned = Planned({}, [PromisedRoom("gone", {"cpu": 1}), PromisedRoom("b", {"cpu": 1})])
    extender = extender_for(nodes("a", "b"), planned)
    assert filtered(extender, NEW, ["gone", "a"]) == ["gone", "a"]


def test_the_target_of_a_migration_is_not_refused_to_its_own_pod_for_load() -> None:
    promises = [PromisedRoom("t", {"cpu": 9_999})]
    objects = [*nodes("t"), filled("t", cpu="9"), *nodes("a")]
    extender = extender_for(objects, Planned({"shop/new": "t"}, promises), strict_filter=True)
    assert filtered(extender, NEW, ["a", "t"]) == ["a", "t"]
    assert filtered(extender, pod("shop/stranger", cpu="1"), ["a", "t"]) == ["a"]


def test_a_target_under_maintenance_is_refused_even_to_its_own_pod() -> None:
    extender = extender_for([*nodes("t", **BUSY), *nodes("a")], Planned({"shop/new": "t"}))
    assert filtered(extender, NEW, ["a", "t"]) == ["a"]


def test_a_target_that_is_not_offered_changes_nothing() -> None:
    planned = Planned({"shop/new": "t"})
    extender = extender_for([*nodes("a"), filled("a", cpu="9")], planned, strict_filter=True)
    assert filtered(extender, NEW, ["a"]) == []


# ------------------------------------------------------------ what is and is not known


def test_a_node_that_we_do_not_know_is_left_to_the_scheduler() -> None:
    extender = extender_for([*nodes("a"), filled("a", cpu="9")])
    assert filtered(extender, NEW, ["new-born", "a"]) == ["new-born"]
    assert filtered(extender_for([]), NEW, ["x", "y"]) == ["x", "y"]


def test_no_nodes_in_give_no_nodes_out() -> None:
    extender = extender_for(nodes("a"))
    assert filtered(extender, NEW, []) == []
    result = decoded(filter_response(extender, with_names(NEW, None)))
    assert result["Nodes"] == {"items": []}
    assert not result["FailedAndUnresolvableNodes"]


def test_what_happens_to_nodes_and_pods_shows_at_once() -> None:
    tables = tables_of(nodes("a", "b"))
    extender = extender_for(tables, strict_filter=True)
    assert filtered(extender, NEW, ["a", "b"]) == ["a", "b"]
    put(tables, filled("a", cpu="9"))
    assert filtered(extender, NEW, ["a", "b"]) == ["b"]
    put(tables, node("b", cpu="1"))
    assert filtered(extender, NEW, ["a", "b"]) == []
    put(tables, node("a", cpu="100", labels={MAINTENANCE: "true"}))
    assert filtered(extender, NEW, ["a", "b"]) == []
    put(tables, node("a", cpu="100"))
    assert filtered(extender, NEW, ["a", "b"]) == ["a"]
    for number in range(300):
        put(tables, node(f"more-{number}"))
    tables.nodes.remove(tables.nodes.by_key()["a"])
    assert filtered(extender, NEW, ["b", "more-299", "a"]) == ["more-299", "a"]
