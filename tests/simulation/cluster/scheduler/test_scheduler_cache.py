"""What is kept between calls is what would be counted from the beginning."""

from typing import Any

import numpy as np
import pytest

from rescheduler.simulation.cluster.scheduler.default_selectors import DefaultSelectors
from rescheduler.simulation.cluster.scheduler.scheduler_cache import SchedulerCache
from rescheduler.simulation.cluster.scheduler.scoring import Scoring
from testcluster.builders import node, pod
from testcluster.client import JsonObject
from tests.simulation.cluster.scheduler.random_clusters import RandomCluster
from tests.simulation.cluster.scheduler.scheduler_setup import SchedulerSetup

STEPS = 80


class ChangingCluster:
    """A cluster in which things happen, and two who look at it: one all the time, one just now."""

    def __init__(self, number: int, nodes: int) -> None:
        self.cluster = RandomCluster(number, nodes)
        self.random = self.cluster.random
        self.setup = SchedulerSetup(*self.cluster.objects())
        self.pods: dict[str, JsonObject] = {}
        self.made = 0
        self.following = SchedulerCache(self.setup.tables)
        self.scoring = self.scoring_of(self.following)

    def scoring_of(self, cluster: SchedulerCache) -> Scoring:
        return Scoring(cluster, DefaultSelectors(self.setup.tables, self.setup.scheduler.services))

    def something_happens(self) -> None:
        happening = self.random.choices(
            (
                self.pods_come,
                self.pod_changes,
                self.pod_goes,
                self.node_is_cordoned,
                self.node_is_tainted,
                self.node_is_labelled,
            ),
            (6, 3, 3, 0.5, 0.5, 0.2),
        )
        happening[0]()

    def pods_come(self) -> None:
        for _ in range(self.random.randint(1, 4)):
            self.new_pod(on=self.random.choice(self.cluster.nodes)["metadata"]["name"])

    def new_pod(self, on: str | None) -> str:
        workload = self.cluster.next_workload()
        self.made += 1
        key = f"{workload.namespace}/{workload.name}-{self.made}"
        labels = dict(workload.labels)
        if self.random.random() < 0.2:
            labels["release"] = str(self.made)
        self.pods[key] = pod(key, on=on, labels=labels, owner=workload.owner, **workload.spec)
        self.setup.put(self.pods[key])
        return key

    def pod_changes(self) -> None:
        if not self.pods:
            return
        key = self.random.choice(list(self.pods))
        changed = {**self.pods[key], "metadata": dict(self.pods[key]["metadata"])}
        match self.random.randrange(3):
            case 0:
                changed["metadata"]["deletionTimestamp"] = "2025-01-01T00:00:00Z"
            case 1:
                changed["metadata"]["labels"] = {"app": "app-1"}
            case 2:
                changed["status"] = {**changed["status"], "phase": "Succeeded"}
        self.pods[key] = changed
        self.setup.put(changed)

    def pod_goes(self) -> None:
        if self.pods:
            gone = self.pods.pop(self.random.choice(list(self.pods)))
            self.setup.remove(gone)

    def node_is_cordoned(self) -> None:
        node = self.random.choice(self.cluster.nodes)
        node["spec"]["unschedulable"] = not node["spec"].get("unschedulable", False)
        self.setup.put(node)

    def node_is_tainted(self) -> None:
        node = self.random.choice(self.cluster.nodes)
        effect = self.random.choice(("NoSchedule", "PreferNoSchedule"))
        node["spec"]["taints"] = [{"key": "wish-1", "effect": effect}]
        self.setup.put(node)

    def node_is_labelled(self) -> None:
        node = self.random.choice(self.cluster.nodes)
        node["metadata"]["labels"]["disk"] = self.random.choice(("ssd", "hdd"))
        self.setup.put(node)

    def views(self, key: str) -> tuple[Any, Any]:
        """What both say of a pod that waits."""
        starts = self.following.rebuilds
        self.following.catch_up()
        if self.following.rebuilds != starts:
            self.scoring = self.scoring_of(self.following)
        fresh = SchedulerCache(self.setup.tables)
        return (
            self.view(self.following, self.scoring, key),
            self.view(fresh, self.scoring_of(fresh), key),
        )

    def view(self, cluster: SchedulerCache, scoring: Scoring, key: str) -> Any:
        row = self.setup.tables.pods.row_of(key)
        assert row is not None
        template = cluster.template_of(row)
        refusals = cluster.checker.refusals(template)
        nodes = np.flatnonzero(refusals == 0)
        points = scoring.by_plugin(template, nodes) if len(nodes) else ()
        return refusals.tolist(), {plugin.name: given.tolist() for plugin, given in points}


@pytest.mark.parametrize("number", range(12))
def test_following_the_tables_is_as_good_as_starting_over(number: int) -> None:
    changing = ChangingCluster(100 + number, nodes=10)
    for _ in range(STEPS):
        changing.something_happens()
        key = changing.new_pod(on=None)
        following, fresh = changing.views(key)
        assert following == fresh
    assert changing.following.rebuilds < STEPS / 4


def test_neither_pods_nor_taints_make_it_start_over() -> None:
    changing = ChangingCluster(1, nodes=10)
    for _ in range(40):
        changing.pods_come()
        changing.pod_goes()
        changing.following.catch_up()
    assert changing.following.rebuilds == 1
    changing.setup.put(changing.cluster.nodes[0])
    changing.following.catch_up()
    assert changing.following.rebuilds == 1, "a node that only reported in"
    changing.node_is_tainted()
    changing.node_is_cordoned()
    changing.following.catch_up()
    assert (changing.following.rebuilds, changing.following.taint_version) == (1, 2)
    changing.setup.put(node("another"))
    changing.following.catch_up()
    assert changing.following.rebuilds == 2
