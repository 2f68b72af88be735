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
    """A world in which things happen, and two who look at it: one all the time, one just now."""

    def __init__(self, number: int, nodes: int) -> None:
        self.world = RandomCluster(number, nodes)
        self.random = self.world.random
        self.scene = SchedulerSetup(*self.world.objects())
        self.pods: dict[str, JsonObject] = {}
        self.made = 0
        self.following = SchedulerCache(self.scene.tables)
        self.scoring = self.scoring_of(self.following)

    def scoring_of(self, cluster: SchedulerCache) -> Scoring:
        return Scoring(cluster, DefaultSelectors(self.scene.tables, self.scene.scheduler.services))

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
            self.new_pod(on=self.random.choice(self.world.nodes)["metadata"]["name"])

    def new_pod(self, on: str | None) -> str:
        workload = self.world.next_workload()
        self.made += 1
        key = f"{workload.namespace}/{workload.name}-{self.made}"
        labels = dict(workload.labels)
        if self.random.random() < 0.2:
            labels["release"] = str(self.made)
        self.pods[key] = pod(key, on=on, labels=labels, owner=workload.owner, **workload.spec)
        self.scene.put(self.pods[key])
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
        self.scene.put(changed)

    def pod_goes(self) -> None:
        if self.pods:
            gone = self.pods.pop(self.random.choice(list(self.pods)))
            self.scene.remove(gone)

    def node_is_cordoned(self) -> None:
        node = self.random.choice(self.world.nodes)
        node["spec"]["unschedulable"] = not node["spec"].get("unschedulable", False)
        self.scene.put(node)

    def node_is_tainted(self) -> None:
        node = self.random.choice(self.world.nodes)
        effect = self.random.choice(("NoSchedule", "PreferNoSchedule"))
        node["spec"]["taints"] = [{"key": "wish-1", "effect": effect}]
        self.scene.put(node)

    def node_is_labelled(self) -> None:
        node = self.random.choice(self.world.nodes)
        node["metadata"]["labels"]["disk"] = self.random.choice(("ssd", "hdd"))
        self.scene.put(node)

    def views(self, key: str) -> tuple[Any, Any]:
        """What both say of a pod that waits."""
        starts = self.following.starts
        self.following.catch_up()
        if self.following.starts != starts:
            self.scoring = self.scoring_of(self.following)
        fresh = SchedulerCache(self.scene.tables)
        return (
            self.view(self.following, self.scoring, key),
            self.view(fresh, self.scoring_of(fresh), key),
        )

    def view(self, cluster: SchedulerCache, scoring: Scoring, key: str) -> Any:
        row = self.scene.tables.pods.row_of(key)
        assert row is not None
        template = cluster.template_of(row)
        refusals = cluster.checker.refusals(template)
        nodes = np.flatnonzero(refusals == 0)
        points = scoring.points(template, nodes) if len(nodes) else ()
        return refusals.tolist(), {plugin.name: given.tolist() for plugin, given in points}


@pytest.mark.parametrize("number", range(12))
def test_following_the_tables_is_as_good_as_starting_over(number: int) -> None:
    story = ChangingCluster(100 + number, nodes=10)
    for _ in range(STEPS):
        story.something_happens()
        key = story.new_pod(on=None)
        following, fresh = story.views(key)
        assert following == fresh
    assert story.following.starts < STEPS / 4


def test_neither_pods_nor_taints_make_it_start_over() -> None:
    story = ChangingCluster(1, nodes=10)
    for _ in range(40):
        story.pods_come()
        story.pod_goes()
        story.following.catch_up()
    assert story.following.starts == 1
    story.scene.put(story.world.nodes[0])
    story.following.catch_up()
    assert story.following.starts == 1, "a node that only reported in"
    story.node_is_tainted()
    story.node_is_cordoned()
    story.following.catch_up()
    assert (story.following.starts, story.following.looks) == (1, 2)
    story.scene.put(node("another"))
    story.following.catch_up()
    assert story.following.starts == 2
