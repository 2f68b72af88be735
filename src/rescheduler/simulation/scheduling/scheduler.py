"""Places pods as kube-scheduler's default profile would."""

from collections.abc import Iterable
from math import isnan
from random import Random

import numpy as np

from rescheduler.model.cluster import ClusterTables
from rescheduler.model.snapshot import Amounts
from rescheduler.model.tables import ObjectTable
from rescheduler.simulation.scheduling.inter_pod_affinity import InterPodAffinity
from rescheduler.simulation.scheduling.known_cluster import KnownCluster
from rescheduler.simulation.scheduling.node_affinity import NodeAffinity
from rescheduler.simulation.scheduling.node_resources_balanced_allocation import (
    NodeResourcesBalancedAllocation,
)
from rescheduler.simulation.scheduling.node_resources_fit import NodeResourcesFit
from rescheduler.simulation.scheduling.placement import Placement
from rescheduler.simulation.scheduling.pod_topology_spread import PodTopologySpread
from rescheduler.simulation.scheduling.refusal_message import refusal_message
from rescheduler.simulation.scheduling.sampling import Search, in_turn
from rescheduler.simulation.scheduling.score_plugin import Nodes, ScorePlugin
from rescheduler.simulation.scheduling.services import SERVICE, Groups, Service
from rescheduler.simulation.scheduling.taint_toleration import TaintToleration


class SimulatedScheduler:
    """Chooses nodes for pods that wait. The tables are the caller's, and so is binding."""

    def __init__(self, tables: ClusterTables, seed: int) -> None:
        self._tables = tables
        self.services: ObjectTable[Service] = ObjectTable(SERVICE)
        """The caller puts Services here; the cluster's tables have no place for them."""
        self._random = Random(seed)
        self._search = Search()
        self._cluster = KnownCluster(tables)
        self._prepare()

    def schedule(self, pending: list[str]) -> list[Placement]:
        """Where each of these pods goes, in the order in which they are decided.

        The caller binds them; until the tables show it, they are counted where they were put.
        Pods that are not in the tables, or have a node there, are left out.
        """
        self._catch_up()
        return [self._place(key) for key in self._in_order(pending)]

    def scores(self, key: str) -> dict[str, int]:
        """The score of each node that would take this pod now; it goes to one of the highest."""
        self._catch_up()
        template = self._cluster.template_of(self._row_of(key))
        nodes = np.flatnonzero(self._cluster.judge.accepted(template))
        if not len(nodes):
            return {}
        names = self._cluster.judge.snapshot.nodes.names
        scores = self._total(template, nodes).tolist()
        return {names[node]: score for node, score in zip(nodes.tolist(), scores, strict=True)}

    def _catch_up(self) -> None:
        starts = self._cluster.starts
        self._cluster.catch_up()
        if self._cluster.starts != starts:
            self._prepare()

    def _prepare(self) -> None:
        """What is known of nodes is known for as long as they stay the same."""
        self._order = in_turn(self._cluster.judge.snapshot.nodes.objects)
        self._plugins: tuple[ScorePlugin, ...] = (
            TaintToleration(self._cluster),
            NodeAffinity(self._cluster),
            NodeResourcesFit(self._cluster),
            PodTopologySpread(self._cluster, Groups(self._tables, self.services)),
            InterPodAffinity(self._cluster),
            NodeResourcesBalancedAllocation(self._cluster),
        )

    def _in_order(self, pending: Iterable[str]) -> list[str]:
        """By priority, then by age. Pods of the same age are decided in the order given."""
        pods = self._tables.pods
        waiting = [
            key
            for key in pending
            if (row := pods.row_of(key)) is not None and self._cluster.is_waiting(row)
        ]
        return sorted(waiting, key=self._turn)

    def _turn(self, key: str) -> tuple[int, float]:
        row = self._row_of(key)
        priority = self._cluster.templates[self._cluster.template_of(row)].priority
        created = self._tables.pods.created(row)
        return -priority, 0 if isnan(created) else created

    def _place(self, key: str) -> Placement:
        row = self._row_of(key)
        template = self._cluster.template_of(row)
        judge = self._cluster.judge
        nodes = self._search.nodes(judge.accepted(template), self._order)
        if not len(nodes):
            return Placement(key, reason=refusal_message(judge, template))
        node = self._choose(template, nodes)
        self._cluster.place(row, template, node)
        return Placement(key, judge.snapshot.nodes.names[node])

    def _choose(self, template: int, nodes: Nodes) -> int:
        if len(nodes) == 1:
            return int(nodes[0])
        scores = self._total(template, nodes)
        best: list[int] = nodes[scores == scores.max()].tolist()
        return self._random.choice(best)

    def _total(self, template: int, nodes: Nodes) -> Amounts:
        total = np.zeros(len(nodes), np.int64)
        for plugin in self._plugins:
            points = plugin.points(template, nodes)
            if points is not None:
                total += plugin.weight * points
        return total

    def _row_of(self, key: str) -> int:
        row = self._tables.pods.row_of(key)
        assert row is not None, "a pod that is not in the tables"
        return row
