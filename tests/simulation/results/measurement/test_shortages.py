"""Whom a missing Ready pod is charged to, and for how long."""

import copy
from dataclasses import dataclass, field
from typing import Any

import pytest

from rescheduler.labels import MIGRATION_ID, MIGRATION_STATUS
from rescheduler.model.rules.node_availability import DEFAULT_MAINTENANCE_LABEL
from rescheduler.simulation.cluster.json_objects import Json
from rescheduler.simulation.results.measurement.recorder import ResultRecorder
from rescheduler.simulation.results.result import ShortageCounts
from testcluster.builders import deployment, node, pod, replicaset, statefulset


@dataclass
class RecordedCluster:
    """A recorder that is told of changes one by one, on a clock set by hand."""

    now: float = 0.0
    there: dict[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.recorder = ResultRecorder(lambda: self.now, 3600.0, {}, DEFAULT_MAINTENANCE_LABEL)
        self._callbacks: dict[str, Any] = {}
        self.recorder.subscribe_to(self._callbacks.__setitem__)

    def put(self, *values: Json) -> None:
        for value in values:
            key = f"{value['kind']} {value['metadata']['name']}"
            old, self.there[key] = self.there.get(key), value
            self._callbacks[value["kind"]](old, value)

    def change(self, name: str, **parts: Json) -> None:
        """Merge some parts of an object into it."""
        new = copy.deepcopy(self.there[name])
        for part, values in parts.items():
            new[part] = {**new.get(part, {}), **values}
        self.put(new)

    def mark(self, name: str) -> None:
        labels = {MIGRATION_ID: "m-1", MIGRATION_STATUS: "in-progress"}
        own = self.there[f"Pod {name}"]["metadata"]["labels"]
        self.change(f"Pod {name}", metadata={"labels": {**own, **labels}})

    def migrate(self, mode: str, owner: str, phase: str = "InProgress") -> None:
        self.put(
            {
                "kind": "Migration",
                "metadata": {"name": "m", "namespace": "shop", "uid": "m-1"},
                "spec": {"pod": {"name": "web-1"}, "targetNode": "b", "strategy": "S"},
                "status": {"phase": phase, "mode": mode, "workload": {"uid": owner}},
            }
        )

    def ask_to_go(self, name: str) -> None:
        self.change(f"Pod {name}", metadata={"deletionTimestamp": "2025-01-01T00:00:00Z"})

    def remove(self, name: str) -> None:
        old = self.there.pop(name)
        self._callbacks[old["kind"]](old, None)

    def by_moves(self) -> ShortageCounts:
        return self.recorder.shortages.moments()[0]

    def own(self) -> ShortageCounts:
        return self.recorder.shortages.moments()[1]


WEB = deployment("shop/web", replicas=2)
FIRST = replicaset("shop/web-1111", replicas=2, owner=WEB)
SECOND = replicaset("shop/web-2222", replicas=0, owner=WEB)


def web(number: int, on: str = "a", ready: bool = True, owner: Json | None = FIRST) -> Json:
    return pod(f"shop/web-{number}", on=on, cpu="1", ready=ready, owner=owner)


@pytest.fixture
def scene() -> RecordedCluster:
    made = RecordedCluster()
    made.put(node("a"), node("b"), WEB, FIRST, web(1), web(2))
    made.recorder.shortages.begin()
    return made


def test_a_cluster_that_has_all_its_pods_misses_none(scene: RecordedCluster) -> None:
    assert scene.by_moves().total == scene.own().total == 0


def test_what_is_missing_from_the_start_is_nobodys_fault() -> None:
    scene = RecordedCluster()
    scene.put(node("a"), WEB, FIRST, web(1))
    scene.recorder.shortages.begin()
    assert scene.own().by_cause == {"Start": 1}
    assert scene.by_moves().total == 0


def test_a_handoff_that_adopts_before_it_retires_misses_no_moment(scene: RecordedCluster) -> None:
    scene.migrate("Handoff", FIRST["metadata"]["uid"])
    scene.mark("web-1")
    scene.put(web(3, on="b", owner=None))
    scene.put(web(3, on="b"))
    scene.ask_to_go("web-1")
    scene.remove("Pod web-1")
    assert scene.by_moves().total == scene.own().total == 0


def test_a_handoff_that_retires_too_early_is_charged_with_it(scene: RecordedCluster) -> None:
    scene.migrate("Handoff", FIRST["metadata"]["uid"])
    scene.mark("web-1")
    scene.put(web(3, on="b", owner=None))
    scene.ask_to_go("web-1")
    scene.put(web(3, on="b"))
    assert scene.by_moves().by_cause == {"Handoff": 1}
    assert scene.by_moves().pod_seconds == 0


def test_a_sibling_that_goes_during_a_handoff_is_charged_to_it(scene: RecordedCluster) -> None:
    scene.migrate("Handoff", FIRST["metadata"]["uid"])
    scene.mark("web-1")
    scene.ask_to_go("web-2")
    assert scene.by_moves().by_workload == {"Deployment shop/web": 1}


def test_an_eviction_is_charged_until_the_replacement_is_ready(scene: RecordedCluster) -> None:
    scene.migrate("Evict", FIRST["metadata"]["uid"])
    scene.mark("web-1")
    scene.now = 10.0
    scene.ask_to_go("web-1")
    scene.put(web(3, on="b", ready=False))
    scene.now = 22.0
    scene.put(web(3, on="b"))
    assert scene.by_moves() == ShortageCounts(1, 12.0, {"Deployment shop/web": 1}, {"Evict": 1})
    assert scene.own().total == 0


def test_a_moment_that_lasts_is_counted_with_the_time_so_far(scene: RecordedCluster) -> None:
    scene.migrate("Evict", FIRST["metadata"]["uid"])
    scene.mark("web-1")
    scene.ask_to_go("web-1")
    scene.now = 7.0
    assert scene.by_moves().pod_seconds == 7.0


def test_scaling_up_is_the_workloads_own(scene: RecordedCluster) -> None:
    scene.change("Deployment web", spec={"replicas": 5})
    assert scene.own().by_cause == {"Scaling": 3}
    assert scene.by_moves().total == 0


def test_a_mark_on_a_pod_changes_nothing_even_while_others_are_missing(
    scene: RecordedCluster,
) -> None:
    scene.change("Deployment web", spec={"replicas": 3})
    scene.migrate("Handoff", FIRST["metadata"]["uid"])
    scene.now = 5.0
    scene.mark("web-1")
    assert scene.by_moves().total == 0
    assert (scene.own().total, scene.own().pod_seconds) == (1, 5.0)


def test_scaling_down_misses_nothing(scene: RecordedCluster) -> None:
    scene.change("Deployment web", spec={"replicas": 1})
    scene.ask_to_go("web-1")
    assert scene.own().total == 0


def test_a_failed_node_is_not_charged_to_a_move_even_in_its_middle(scene: RecordedCluster) -> None:
    scene.migrate("Handoff", FIRST["metadata"]["uid"])
    scene.mark("web-1")
    scene.put(node("a", ready=False))
    scene.put(web(2, ready=False))
    assert scene.own().by_cause == {"NodeFailure": 1}
    assert scene.by_moves().total == 0


def test_a_rollout_is_the_workloads_own(scene: RecordedCluster) -> None:
    scene.put(SECOND)
    scene.change("ReplicaSet web-2222", spec={"replicas": 1})
    scene.change("ReplicaSet web-1111", spec={"replicas": 1})
    scene.ask_to_go("web-1")
    assert scene.own().by_cause == {"Rollout": 1}


def test_an_eviction_by_us_is_charged_even_during_a_rollout(scene: RecordedCluster) -> None:
    scene.put(SECOND)
    scene.change("ReplicaSet web-2222", spec={"replicas": 1})
    scene.migrate("Evict", FIRST["metadata"]["uid"])
    scene.mark("web-1")
    scene.ask_to_go("web-1")
    assert scene.by_moves().by_cause == {"Evict": 1}


def test_a_pod_that_goes_by_itself_is_charged_to_nobody(scene: RecordedCluster) -> None:
    scene.migrate("Handoff", FIRST["metadata"]["uid"], phase="Completed")
    scene.ask_to_go("web-2")
    assert scene.own().by_cause == {"Other": 1}


def test_a_stateful_set_is_a_workload_too() -> None:
    scene = RecordedCluster()
    members = statefulset("data/db", replicas=1)
    scene.put(node("a"), members, pod("data/db-0", on="a", owner=members))
    scene.recorder.shortages.begin()
    scene.migrate("Evict", members["metadata"]["uid"])
    scene.mark("db-0")
    scene.ask_to_go("db-0")
    assert scene.by_moves().by_workload == {"StatefulSet data/db": 1}


def test_a_workload_that_is_deleted_misses_nothing(scene: RecordedCluster) -> None:
    scene.remove("Deployment web")
    scene.ask_to_go("web-1")
    assert scene.own().total == 0
