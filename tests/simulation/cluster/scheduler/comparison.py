"""A random cluster in both schedulers: the real one leads, and ours follows."""

import msgspec

from rescheduler.model.kinds import KIND_BY_NAME
from rescheduler.model.objects import Service
from rescheduler.model.tables.cluster_tables import ClusterTables
from rescheduler.simulation.cluster.scheduler.default_selectors import DefaultSelectors
from rescheduler.simulation.cluster.scheduler.plugins.score_plugin import Nodes
from rescheduler.simulation.cluster.scheduler.scheduler import SimulatedScheduler
from rescheduler.simulation.cluster.scheduler.scheduler_cache import SchedulerCache
from rescheduler.simulation.cluster.scheduler.scoring import Scoring
from testcluster.builders import owner_reference
from testcluster.client import JsonObject
from tests.simulation.cluster.scheduler.random_clusters import RandomCluster, RandomWorkload
from tests.simulation.cluster.scheduler.real_scheduler import RealScheduler, refusal
from tests.simulation.cluster.scheduler.scheduler_setup import template_and_feasible_nodes


class Comparison:
    """One cluster in both schedulers; the real one leads, and ours follows."""

    def __init__(self, real: RealScheduler, cluster: RandomCluster) -> None:
        self._real = real
        self._random_cluster = cluster
        self._tables = ClusterTables()
        self._uid_of: dict[str, str] = {}
        self._ours = SimulatedScheduler(self._tables, seed=1)
        self._cluster = SchedulerCache(self._tables)
        self._placed: list[JsonObject] = []
        self._made = 0
        self.compared = self.same_node = self.refused = 0
        self.disagreements: list[str] = []
        for item in real.enter(cluster):
            self._put(item)

    def run(self, pods: int) -> None:
        while self.compared < pods:
            if self._placed and self._random_cluster.random.random() < 0.08:
                self._delete_one()
            self._schedule_one()

    def _schedule_one(self) -> None:
        decided = self._real.schedule(self._next_pod())
        self._compare(_before_its_decision(decided), decided)

    def _compare(self, pending: JsonObject, decided: JsonObject) -> None:
        """Let ours schedule a pod that the real one has decided about."""
        key = f"{decided['metadata']['namespace']}/{decided['metadata']['name']}"
        node = decided["spec"].get("nodeName", "")
        self._put(pending)
        scores = self._scores(key)
        [placement] = self._ours.schedule([key])
        self.compared += 1
        if not node:
            self.refused += 1
            if placement.node or not refusal(decided).startswith(placement.reason):
                self.disagreements.append(
                    f"{key}: {refusal(decided)!r}, ours {placement.node or placement.reason!r}"
                )
            self._remove(self._real.delete(decided, at_once=True))
            return
        self.same_node += node == placement.node
        best = max(scores.values(), default=0)
        if scores.get(node) != best or scores.get(placement.node) != best:
            self.disagreements.append(
                f"{key}: {node} ({scores.get(node)}), ours {placement.node} ({best})"
            )
        self._put(decided)
        self._placed.append(decided)

    def _scores(self, key: str) -> dict[str, int]:
        """The score of each node that ours would choose from."""
        self._cluster.catch_up()
        template, nodes = self._candidates(key)
        scoring = Scoring(self._cluster, DefaultSelectors(self._tables, self._ours.services))
        names = [self._cluster.checker.snapshot.nodes.names[node] for node in nodes.tolist()]
        scores = scoring.total(template, nodes) if names else nodes
        return dict(zip(names, scores.tolist(), strict=True))

    def _candidates(self, key: str) -> tuple[int, Nodes]:
        return template_and_feasible_nodes(self._cluster, self._tables, key)

    def _delete_one(self) -> None:
        gone = self._placed.pop(self._random_cluster.random.randrange(len(self._placed)))
        if self._random_cluster.random.random() < 0.5:
            self._remove(self._real.delete(gone, at_once=True))
        else:
            self._put(self._real.delete(gone, at_once=False))

    def _next_pod(self) -> JsonObject:
        workload = self._random_cluster.next_workload()
        self._made += 1
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"{workload.name}-{self._made}",
                "namespace": workload.namespace,
                "labels": workload.labels,
                "ownerReferences": self._owners(workload),
            },
            "spec": workload.spec,
        }

    def _owners(self, workload: RandomWorkload) -> list[JsonObject]:
        if workload.owner is None:
            return []
        uid = self._uid_of[f"{workload.owner['kind']}/{workload.namespace}/{workload.name}"]
        return [{**owner_reference(workload.owner), "uid": uid}]

    def _put(self, item: JsonObject) -> None:
        metadata = item["metadata"]
        key = f"{metadata.get('namespace', '')}/{metadata['name']}"
        self._uid_of[f"{item['kind']}/{key}"] = metadata["uid"]
        if item["kind"] == "Pod":
            self._ours.nominator.put(key, item)
        if item["kind"] == "Service":
            self._ours.services.put(msgspec.convert(item, Service))
        else:
            kind = KIND_BY_NAME[item["kind"]]
            self._tables.of(kind).put(msgspec.convert(item, kind.type))

    def _remove(self, item: JsonObject) -> None:
        metadata = item["metadata"]
        self._ours.nominator.remove(f"{metadata['namespace']}/{metadata['name']}")
        kind = KIND_BY_NAME[item["kind"]]
        self._tables.of(kind).remove(msgspec.convert(item, kind.type))


def _before_its_decision(decided: JsonObject) -> JsonObject:
    """The pod as it was pending, in a version that is older than any that is yet to come."""
    spec = {name: value for name, value in decided["spec"].items() if name != "nodeName"}
    version = str(int(decided["metadata"]["resourceVersion"]) - 1)
    metadata = {**decided["metadata"], "resourceVersion": version}
    return {**decided, "metadata": metadata, "spec": spec}
