"""What a missing Ready pod is attributed to, and how long it is missing."""

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
    """A recorder that gets changes one by one, on a clock that the test sets."""

    now: float = 0.0
    objects: dict[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.recorder = ResultRecorder(lambda: self.now, 3600.0, {}, DEFAULT_MAINTENANCE_LABEL)
        self._callbacks: dict[str, Any] = {}
        self.recorder.subscribe_to(self._callbacks.__setitem__)

    def put(self, *values: Json) -> None:
        for value in values:
            key = f"{value['kind']} {value['metadata']['name']}"
            old, self.objects[key] = self.objects.get(key), value
            self._callbacks[value["kind"]](old, value)

    def change(self, name: str, **parts: Json) -> None:
        """Merge some parts of an object into it."""
        new = copy.deepcopy(self.objects[name])
        for part, values in parts.items():
            new[part] = {**new.get(part, {}), **values}
        self.put(new)

    def mark(self, name: str) -> None:
        labels = {MIGRATION_ID: "m-1", MIGRATION_STATUS: "in-progress"}
        own = self.objects[f"Pod {name}"]["metadata"]["labels"]
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

    def mark_deleted(self, name: str) -> None:
        self.change(f"Pod {name}", metadata={"deletionTimestamp": "2025-01-01T00:00:00Z"})

    def remove(self, name: str) -> None:
        old = self.objects.pop(name)
        self._callbacks[old["kind"]](old, None)

    def by_moves(self) -> ShortageCounts:
        return self.recorder.shortages.counts()[0]

    def others(self) -> ShortageCounts:
        return self.recorder.shortages.counts()[1]


WEB = deployment("shop/web", replicas=2)
FIRST = replicaset("shop/web-1111", replicas=2, owner=WEB)
SECOND = replicaset("shop/web-2222", replicas=0, owner=WEB)


def web(number: int, on: str = "a", ready: bool = True, owner: Json | None = FIRST) -> Json:
    return pod(f"shop/web-{number}", on=on, cpu="1", ready=ready, owner=owner)


@pytest.fixture
def recorded() -> RecordedCluster:
    started = RecordedCluster()
    started.put(node("a"), node("b"), WEB, FIRST, web(1), web(2))
    started.recorder.shortages.begin()
    return started


def test_a_cluster_with_all_its_pods_has_no_shortage(recorded: RecordedCluster) -> None:
    assert recorded.by_moves().total == recorded.others().total == 0


def test_a_pod_that_is_missing_from_the_start_is_not_attributed_to_moves() -> None:
    recorded = RecordedCluster()
    recorded.put(node("a"), WEB, FIRST, web(1))
    recorded.recorder.shortages.begin()
    assert recorded.others().by_cause == {"Start": 1}
    assert recorded.by_moves().total == 0


def test_a_handoff_that_adopts_before_it_deletes_causes_no_shortage(
    recorded: RecordedCluster,
) -> None:
    recorded.migrate("Handoff", FIRST["metadata"]["uid"])
    recorded.mark("web-1")
    recorded.put(web(3, on="b", owner=None))
    recorded.put(web(3, on="b"))
    recorded.mark_deleted("web-1")
    recorded.remove("Pod web-1")
    assert recorded.by_moves().total == recorded.others().total == 0


def test_a_handoff_that_deletes_too_early_causes_a_shortage(recorded: RecordedCluster) -> None:
    recorded.migrate("Handoff", FIRST["metadata"]["uid"])
    recorded.mark("web-1")
    recorded.put(web(3, on="b", owner=None))
    recorded.mark_deleted("web-1")
    recorded.put(web(3, on="b"))
    assert recorded.by_moves().by_cause == {"Handoff": 1}
    assert recorded.by_moves().pod_seconds == 0


def test_a_sibling_that_is_deleted_during_a_handoff_is_attributed_to_it(
    recorded: RecordedCluster,
) -> None:
    recorded.migrate("Handoff", FIRST["metadata"]["uid"])
    recorded.mark("web-1")
    recorded.mark_deleted("web-2")
    assert recorded.by_moves().by_workload == {"Deployment shop/web": 1}


def test_an_eviction_causes_a_shortage_until_the_replacement_is_ready(
    recorded: RecordedCluster,
) -> None:
    recorded.migrate("Evict", FIRST["metadata"]["uid"])
    recorded.mark("web-1")
    recorded.now = 10.0
    recorded.mark_deleted("web-1")
    recorded.put(web(3, on="b", ready=False))
    recorded.now = 22.0
    recorded.put(web(3, on="b"))
    assert recorded.by_moves() == ShortageCounts(1, 12.0, {"Deployment shop/web": 1}, {"Evict": 1})
    assert recorded.others().total == 0


def test_an_open_shortage_counts_with_its_time_so_far(recorded: RecordedCluster) -> None:
    recorded.migrate("Evict", FIRST["metadata"]["uid"])
    recorded.mark("web-1")
    recorded.mark_deleted("web-1")
    recorded.now = 7.0
    assert recorded.by_moves().pod_seconds == 7.0


def test_scaling_up_is_not_attributed_to_moves(recorded: RecordedCluster) -> None:
    recorded.change("Deployment web", spec={"replicas": 5})
    assert recorded.others().by_cause == {"Scaling": 3}
    assert recorded.by_moves().total == 0


def test_a_mark_on_a_pod_changes_nothing_even_while_others_are_missing(
    recorded: RecordedCluster,
) -> None:
    recorded.change("Deployment web", spec={"replicas": 3})
    recorded.migrate("Handoff", FIRST["metadata"]["uid"])
    recorded.now = 5.0
    recorded.mark("web-1")
    assert recorded.by_moves().total == 0
    assert (recorded.others().total, recorded.others().pod_seconds) == (1, 5.0)


def test_scaling_down_causes_no_shortage(recorded: RecordedCluster) -> None:
    recorded.change("Deployment web", spec={"replicas": 1})
    recorded.mark_deleted("web-1")
    assert recorded.others().total == 0


def test_a_failed_node_is_not_attributed_to_a_move_in_progress(recorded: RecordedCluster) -> None:
    recorded.migrate("Handoff", FIRST["metadata"]["uid"])
    recorded.mark("web-1")
    recorded.put(node("a", ready=False))
    recorded.put(web(2, ready=False))
    assert recorded.others().by_cause == {"NodeFailure": 1}
    assert recorded.by_moves().total == 0


def test_a_rollout_is_not_attributed_to_moves(recorded: RecordedCluster) -> None:
    recorded.put(SECOND)
    recorded.change("ReplicaSet web-2222", spec={"replicas": 1})
    recorded.change("ReplicaSet web-1111", spec={"replicas": 1})
    recorded.mark_deleted("web-1")
    assert recorded.others().by_cause == {"Rollout": 1}


def test_an_eviction_by_a_move_is_attributed_to_it_even_during_a_rollout(
    recorded: RecordedCluster,
) -> None:
    recorded.put(SECOND)
    recorded.change("ReplicaSet web-2222", spec={"replicas": 1})
    recorded.migrate("Evict", FIRST["metadata"]["uid"])
    recorded.mark("web-1")
    recorded.mark_deleted("web-1")
    assert recorded.by_moves().by_cause == {"Evict": 1}


def test_a_pod_that_is_deleted_by_others_is_attributed_to_other_causes(
    recorded: RecordedCluster,
) -> None:
    recorded.migrate("Handoff", FIRST["metadata"]["uid"], phase="Completed")
    recorded.mark_deleted("web-2")
    assert recorded.others().by_cause == {"Other": 1}


def test_a_stateful_set_is_a_workload_too() -> None:
    recorded = RecordedCluster()
    members = statefulset("data/db", replicas=1)
    recorded.put(node("a"), members, pod("data/db-0", on="a", owner=members))
    recorded.recorder.shortages.begin()
    recorded.migrate("Evict", members["metadata"]["uid"])
    recorded.mark("db-0")
    recorded.mark_deleted("db-0")
    assert recorded.by_moves().by_workload == {"StatefulSet data/db": 1}


def test_a_deleted_workload_has_no_shortage(recorded: RecordedCluster) -> None:
    recorded.remove("Deployment web")
    recorded.mark_deleted("web-1")
    assert recorded.others().total == 0
