"""Schedule pods in memory, one by one, in a cluster of 1,000 nodes and 20,000 pods."""

import copy
from collections.abc import Callable, Iterator
from itertools import count
from statistics import median

import msgspec
import numpy as np

from benchmarks.clusters import with_pod_rules
from benchmarks.figures import Figure, report, times_of
from rescheduler.model.kinds import KIND_BY_NAME, NODE
from rescheduler.model.tables.cluster_tables import ClusterTables
from rescheduler.simulation.cluster.scheduler.scheduler import SimulatedScheduler
from testcluster.client import JsonObject
from testcluster.large import generate_large_cluster

NODES, PODS, TEMPLATES = 1_000, 20_000, 1_000
CALLS = 300
TOGETHER = 11


class Cluster:
    """Tables with a generated cluster, a fifth of it with rules about neighbours."""

    def __init__(self) -> None:
        self.tables = ClusterTables()
        self.versions = count(1)
        self.chance = np.random.default_rng(1)
        self.pods: list[JsonObject] = []
        self.nodes: list[JsonObject] = []
        for item in with_pod_rules(generate_large_cluster(NODES, PODS, templates=TEMPLATES)):
            self.put(item)
            if item["kind"] in ("Pod", "Node"):
                (self.pods if item["kind"] == "Pod" else self.nodes).append(item)
        self.scheduler = SimulatedScheduler(self.tables, seed=1)

    def put(self, item: JsonObject) -> None:
        kind = KIND_BY_NAME[item["kind"]]
        item["metadata"]["resourceVersion"] = str(next(self.versions))
        self.tables.of(kind).put(msgspec.convert(item, kind.type))

    def waiting(self, pods: int, alike: bool) -> list[JsonObject]:
        """Pods of one workload that wait; unless `alike` they are the first of their template."""
        waiting = []
        example = self.pods[int(self.chance.integers(len(self.pods)))]
        for _ in range(pods):
            pod = copy.deepcopy(example)
            name = f"new-{next(self.versions)}"
            pod["metadata"] |= {"name": name, "uid": name}
            if not alike:
                pod["metadata"]["labels"]["new"] = name
            del pod["spec"]["nodeName"]
            self.put(pod)
            waiting.append(pod)
        return waiting

    def call(self, pods: list[JsonObject]) -> float:
        """How long it takes to schedule these pods, which are then bound."""
        key_of = {f"{pod['metadata']['namespace']}/{pod['metadata']['name']}": pod for pod in pods}
        placements = []
        seconds = times_of(lambda: placements.extend(self.scheduler.schedule(list(key_of))))
        for placement in placements:
            key_of[placement.pod]["spec"]["nodeName"] = placement.node
            self.put(key_of[placement.pod])
        return seconds.cpu_seconds

    def cordon_a_node(self) -> None:
        """Cordon a node, or let it take pods again."""
        node = self.nodes[int(self.chance.integers(len(self.nodes)))]
        node["spec"]["unschedulable"] = not node["spec"].get("unschedulable", False)
        self.put(node)

    def add_a_node(self) -> None:
        """Another node like one that is there."""
        node = copy.deepcopy(self.nodes[0])
        name = f"new-{next(self.versions)}"
        node["metadata"] |= {"name": name, "uid": name}
        self.put(node)


def calls(cluster: Cluster, pods: int, alike: bool = True) -> Iterator[float]:
    for _ in range(CALLS):
        yield cluster.call(cluster.waiting(pods, alike))


def calls_after(change: Callable[[], None], cluster: Cluster) -> Iterator[float]:
    for _ in range(CALLS // 10):
        change()
        yield cluster.call(cluster.waiting(1, alike=True))


def main() -> None:
    cluster = Cluster()
    assert len(cluster.tables.of(NODE)) == NODES
    one = median(calls(cluster, 1))
    further = (median(calls(cluster, TOGETHER)) - one) / (TOGETHER - 1)
    new = median(calls(cluster, 1, alike=False))
    cordoned = median(calls_after(cluster.cordon_a_node, cluster))
    added = median(calls_after(cluster.add_a_node, cluster))
    report(
        [
            Figure("placing one pod", one * 1e3, "ms", 3),
            Figure("placing one more in the same call", further * 1e3, "ms", 1),
            Figure("placing the first of its template", new * 1e3, "ms", 5),
            Figure("placing one after a cordon", cordoned * 1e3, "ms", 15),
            Figure("placing one after a node came", added * 1e3, "ms", 250),
        ]
    )


if __name__ == "__main__":
    main()
