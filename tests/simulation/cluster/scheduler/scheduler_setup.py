"""A scheduler with tables, filled from objects."""

import msgspec
import numpy as np

from rescheduler.model.kinds import KIND_BY_NAME
from rescheduler.model.objects import Service
from rescheduler.model.tables.cluster_tables import ClusterTables
from rescheduler.simulation.cluster.json_objects import key_of
from rescheduler.simulation.cluster.scheduler.default_selectors import DefaultSelectors
from rescheduler.simulation.cluster.scheduler.scheduler import SimulatedScheduler
from rescheduler.simulation.cluster.scheduler.scheduler_cache import SchedulerCache
from rescheduler.simulation.cluster.scheduler.scoring import Scoring
from testcluster.client import JsonObject


class SchedulerSetup:
    """Tables filled with objects, and a scheduler that reads them."""

    def __init__(self, *objects: JsonObject, seed: int = 1) -> None:
        self.tables = ClusterTables()
        self.scheduler = SimulatedScheduler(self.tables, seed)
        self._version = 0
        self.put(*objects)

    def put(self, *objects: JsonObject) -> None:
        """Objects that are new or have changed."""
        for item in objects:
            self._version += 1
            metadata = {**item["metadata"], "resourceVersion": str(self._version)}
            if item["kind"] == "Service":
                made = msgspec.convert({**item, "metadata": metadata}, Service)
                self.scheduler.services.put(made)
            else:
                kind = KIND_BY_NAME[item["kind"]]
                self.tables.of(kind).put(msgspec.convert({**item, "metadata": metadata}, kind.type))
            if item["kind"] == "Pod":
                self.scheduler.nominator.put(key_of(item), item)

    def remove(self, item: JsonObject) -> None:
        """A deleted object."""
        kind = KIND_BY_NAME[item["kind"]]
        self.tables.of(kind).remove(msgspec.convert(item, kind.type))
        self.scheduler.nominator.remove(key_of(item))

    def scores(self, pod: str) -> dict[str, dict[str, int]]:
        """By plugin: the score of each feasible node for a pending pod, with a new cache.

        A plugin that skips the pod is left out.
        """
        cluster = SchedulerCache(self.tables)
        scoring = Scoring(cluster, DefaultSelectors(self.tables, self.scheduler.services))
        template, nodes = template_and_feasible_nodes(cluster, self.tables, pod)
        names = [cluster.checker.snapshot.nodes.names[node] for node in nodes.tolist()]
        return {
            plugin.name: dict(zip(names, scores.tolist(), strict=True))
            for plugin, scores in scoring.by_plugin(template, nodes)
        }

    def nodes_for(self, *pods: str) -> dict[str, str]:
        """The nodes of pods, in the order in which they are scheduled."""
        return {result.pod: result.node for result in self.scheduler.schedule(list(pods))}

    def reason(self, pod: str) -> str:
        """Why a pod has no node."""
        [result] = self.scheduler.schedule([pod])
        assert not result.node
        return result.reason


def template_and_feasible_nodes(
    cluster: SchedulerCache, tables: ClusterTables, pod: str
) -> "tuple[int, np.ndarray[tuple[int], np.dtype[np.int64]]]":
    """The template of a pending pod, and the rows of its feasible nodes."""
    row = tables.pods.row_of(pod)
    assert row is not None
    template = cluster.template_of(row)
    return template, np.flatnonzero(cluster.checker.accepted(template))


def service(key: str, selector: dict[str, str]) -> JsonObject:
    """A Service."""
    namespace, name = key.split("/")
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace, "uid": f"service-{key}"},
        "spec": {"selector": selector},
    }
