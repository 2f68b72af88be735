"""Pods that are on their way count where they are expected, until a watch shows them."""

from rescheduler.extender.handlers import ExtenderHandlers
from rescheduler.settings import Policy
from testcluster.builders import pod
from testcluster.client import JsonObject
from tests.extender.extender_requests import (
    NO_SERVER,
    Planned,
    RecordedEvents,
    nodes,
    put,
    scored,
    tables_of,
)


class Rollout:
    """Pods that a scheduler asks about, one after the other, before any watch shows a change."""

    def __init__(self, *objects: JsonObject) -> None:
        self.now = 0.0
        self.tables = tables_of(objects)
        self.extender = ExtenderHandlers(
            NO_SERVER, self.tables, Policy(), Planned(), RecordedEvents(), clock=lambda: self.now
        )
        self.names = list(self.tables.nodes.by_key())

    def best_for(self, name: str) -> list[str]:
        """The nodes that get the most points for a pod that takes a tenth of one."""
        points = scored(self.extender, pod(f"shop/{name}", cpu="1", memory="1Gi"), self.names)
        return [name for name, score in points.items() if score == 10]


def test_pods_that_come_in_numbers_do_not_all_go_to_the_emptiest_node() -> None:
    busy = pod("shop/busy", on="b", cpu="3", memory="3Gi")
    rollout = Rollout(*nodes("a", "b"), busy)
    assert [rollout.best_for(f"p{number}") for number in range(4)] == [
        ["a"],
        ["a"],
        ["a"],
        ["a", "b"],
    ]


def test_a_pod_that_is_scheduled_again_is_not_counted_against_itself() -> None:
    rollout = Rollout(*nodes("a", "b"), pod("shop/busy", on="b", cpu="1", memory="1Gi"))
    assert [rollout.best_for("p") for _ in range(4)] == [["a"]] * 4


def test_a_pod_that_a_watch_has_shown_counts_once_and_where_it_is() -> None:
    rollout = Rollout(*nodes("a", "b"), pod("shop/busy", on="b", cpu="1", memory="1Gi"))
    assert rollout.best_for("p0") == ["a"]
    put(rollout.tables, pod("shop/p0", on="b", cpu="1", memory="1Gi"))
    assert rollout.best_for("p1") == ["a"]
    assert rollout.best_for("p2") == ["a"]


def test_a_pod_that_does_not_come_is_forgotten() -> None:
    rollout = Rollout(*nodes("a", "b"), pod("shop/busy", on="b", cpu="3", memory="3Gi"))
    for number in range(6):
        rollout.best_for(f"p{number}")
    assert rollout.best_for("q") != ["a"]
    rollout.now = 60.0
    assert rollout.best_for("p") == ["a"]
