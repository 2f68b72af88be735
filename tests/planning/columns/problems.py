"""Small problems for tests of the search by columns."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from rescheduler.planning.context import DEFAULT_CONTEXT
from rescheduler.planning.problem.problem import Problem
from rescheduler.planning.search.columns.column_pool import ColumnPool
from rescheduler.planning.search.columns.linking_rows import LinkingRows
from rescheduler.planning.search.columns.master_problem import MasterProblem, Penalties
from rescheduler.planning.search.columns.node_contents import NodeContents
from rescheduler.planning.search.columns.pod_classes import PodClasses, pod_classes
from rescheduler.settings import (
    CostOptimizationOptions,
    DefragmentationOptions,
    Policy,
    StrategyName,
)
from testcluster.builders import node, pod, replicaset
from testcluster.snapshots import snapshot_of

Objects = list[dict[str, Any]]

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
SAVING = Policy(
    enabled_strategies=(StrategyName.COST_OPTIMIZATION,),
    cost_optimization=CostOptimizationOptions(move_cost=0.01),
)
MAKING_ROOM = Policy(
    enabled_strategies=(StrategyName.DEFRAGMENTATION,),
    defragmentation=DefragmentationOptions(shape={"cpu": "4"}),
)


def priced(name: str, price: float, **options: Any) -> dict[str, Any]:
    """A node with a price."""
    built = node(name, **options)
    built["metadata"]["annotations"]["rescheduler.dev/node-cost"] = str(price)
    return built


def replicas(name: str, nodes: Sequence[str], *, cpu: str = "1", **options: Any) -> Objects:
    """A ReplicaSet and a running pod of it on each of the named nodes."""
    owner = replicaset(f"shop/{name}", replicas=len(nodes))
    options.setdefault("labels", {"app": name})
    pods = [
        pod(f"shop/{name}-{number}", on=on, cpu=cpu, owner=owner, **options)
        for number, on in enumerate(nodes)
    ]
    return [owner, *pods]


def apart(name: str) -> dict[str, Any]:
    """The affinity of pods that do not share a node with pods of this app."""
    selector = {"matchLabels": {"app": name}}
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}
    return {"podAntiAffinity": {REQUIRED: [term]}}


def problem_for(objects: Objects, policy: Policy = SAVING) -> Problem:
    return Problem(snapshot_of(objects), policy, DEFAULT_CONTEXT, {})


class Parts:
    """The parts of the search for a problem, with only the contents at the start as columns."""

    def __init__(self, problem: Problem) -> None:
        self.classes: PodClasses = pod_classes(problem)
        self.contents = NodeContents(problem, self.classes)
        self.linking = LinkingRows(problem, self.classes)
        self.pool = ColumnPool(self.contents)
        self.nodes = np.arange(len(problem.snapshot.nodes), dtype=np.int32)
        self.pool.add(self.nodes, self.contents.start)

    def master(self, penalty: float = 10.0) -> MasterProblem:
        """The master problem with all columns of the pool."""
        penalties = np.full(len(self.classes), penalty)
        master = MasterProblem(
            self.classes, self.linking, Penalties(penalties, penalties), lambda: False
        )
        master.extend(self.pool)
        assert master.solve()
        return master
