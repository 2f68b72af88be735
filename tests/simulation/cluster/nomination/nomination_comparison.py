"""A small, crowded cluster in both schedulers, in which pods are gated and nominated at random."""

from random import Random
from typing import Any

import numpy as np

from rescheduler.simulation.cluster.scheduler.node_filter import NodeFilter
from rescheduler.simulation.cluster.scheduler.plugins.score_plugin import Nodes
from testcluster.builders import HOSTNAME_LABEL, IMAGE, ZONE_LABEL, node
from testcluster.client import JsonObject
from tests.simulation.cluster.scheduler.comparison import Comparison
from tests.simulation.cluster.scheduler.random_clusters import (
    APPS,
    REQUIRED,
    RandomCluster,
    RandomWorkload,
)
from tests.simulation.cluster.scheduler.real_scheduler import RealScheduler

WORKLOADS = 6
GATES = [{"name": "rescheduler.dev/placing"}]


class CrowdedCluster(RandomCluster):
    """Nodes with room for a few pods each, and pods that often mind each other."""

    def _node(self, index: int) -> JsonObject:
        pick = self.random
        return node(
            f"{self.name}-node-{index:02}",
            cpu=pick.choice(("3", "4", "6")),
            memory="64Gi",
            pods=pick.choice((110, 3)),
            zone=pick.choice(("a", "b")),
            labels={"disk": pick.choice(("ssd", "hdd"))},
            unschedulable=pick.random() < 0.1,
            managed=False,
        )

    def _containers(self, name: str, count: int) -> list[JsonObject]:
        pick: Random = self.random
        container: dict[str, Any] = {
            "name": name,
            "image": IMAGE,
            "resources": {"requests": {"cpu": pick.choice(("500m", "1", "2"))}},
        }
        if name == "app" and pick.random() < 0.2:
            container["ports"] = [{"containerPort": 80, "hostPort": pick.choice((8080, 9090))}]
        return [container]

    def next_workload(self) -> RandomWorkload:
        """One of a few, so that they meet each other."""
        return self.random.choice(self.workloads[:WORKLOADS])

    def _constraints(self, app: str) -> list[JsonObject]:
        return [
            {
                "topologyKey": self.random.choice((HOSTNAME_LABEL, ZONE_LABEL)),
                "maxSkew": self.random.choice((1, 2)),
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": app}},
            }
        ]

    def _affinity(self, app: str) -> JsonObject:
        """Most have some: near or apart from another of the few, or apart from their own kind."""
        other = {"matchLabels": {"app": self.random.choice((app, *APPS[:WORKLOADS]))}}
        term = {
            "topologyKey": self.random.choice((HOSTNAME_LABEL, ZONE_LABEL)),
            "labelSelector": other,
        }
        kind = self.random.choice(("podAffinity", "podAntiAffinity", "", ""))
        return {kind: {REQUIRED: [term]}} if kind else {}


class NominationComparison(Comparison):
    """Gates, nominates, opens and deletes pods, and compares where they land."""

    def __init__(self, real: RealScheduler, cluster: RandomCluster) -> None:
        super().__init__(real, cluster)
        self._gated: list[JsonObject] = []
        self._filter = NodeFilter(self._tables, self._cluster, self._ours.nominator)
        self.on_nominated_node = self.elsewhere = 0

    def run(self, pods: int) -> None:
        pick = self._random_cluster.random
        while self.compared < pods:
            steps = [self._schedule_one, self._gate_one]
            if self._gated:
                steps += [self._open_one, self._open_one, self._nominate_again]
                steps += [self._delete_gated] if pick.random() < 0.2 else []
            if self._placed:
                steps += [self._delete_one] * 2
            pick.choice(steps)()

    def _candidates(self, key: str) -> tuple[int, Nodes]:
        row = self._tables.pods.row_of(key)
        assert row is not None
        template = self._cluster.template_of(row)
        refusals = self._filter.refusals(key, template)
        nomination = self._ours.nominator.of(key)
        if nomination is not None:
            nominated = self._cluster.checker.snapshot.nodes.index.get(nomination.node)
            if nominated is not None and refusals[nominated] == 0:
                return template, np.array([nominated], np.int64)
        return template, np.flatnonzero(refusals == 0)

    def _gate_one(self) -> None:
        asked = self._next_pod()
        asked["spec"] = {**asked["spec"], "schedulingGates": GATES}
        self._nominate(self._real.create(asked))

    def _nominate_again(self) -> None:
        self._nominate(self._take_gated())

    def _nominate(self, gated: JsonObject) -> None:
        """Sometimes a node that does not exist, sometimes none."""
        pick = self._random_cluster.random
        names = [known["metadata"]["name"] for known in self._random_cluster.nodes]
        nominated = self._real.nominate(gated, pick.choice((*names, *names, "missing", "")))
        self._gated.append(nominated)
        self._put({**nominated, "kind": "Pod"})

    def _open_one(self) -> None:
        opened = {**self._real.open(self._take_gated()), "kind": "Pod"}
        wanted = opened["status"].get("nominatedNodeName")
        decided = {**self._real.decision(opened), "kind": "Pod"}
        if wanted and decided["spec"].get("nodeName"):
            landed = decided["spec"]["nodeName"] == wanted
            self.on_nominated_node += landed
            self.elsewhere += not landed
        self._compare(opened, decided)

    def _delete_gated(self) -> None:
        self._remove({**self._real.delete(self._take_gated(), at_once=True), "kind": "Pod"})

    def _take_gated(self) -> JsonObject:
        return self._gated.pop(self._random_cluster.random.randrange(len(self._gated)))
