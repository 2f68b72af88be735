"""kube-scheduler's own code accepts every move of every plan when its turn comes.

Half of the clusters use whatever any filter of the scheduler looks at, volumes included; the other
half have the owners, budgets and broken rules of our own generated cases.
"""

import json
import os
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, replace

import pytest

from rescheduler.files.policy_file import read_policy
from rescheduler.model.moves import Mode
from rescheduler.planning.plan import Move, Plan
from rescheduler.planning.planner import make_plan
from testcluster.builders import node_ready_condition, pod_condition
from testcluster.client import JsonObject
from testcluster.snapshots import snapshot_of
from tests.planning.feasibility import oracle
from tests.planning.feasibility.generated_clusters import (
    GeneratedCluster,
    generate_cluster,
    key_of,
)
from tests.planning.promise.generated_cases import CREATED, cases_without_migrations
from tests.planning.promise.replay import plan_of

CLUSTERS = 600 if os.environ.get("EXHAUSTIVE") == "1" else 30
NODES, PODS = 10, 40
FEWEST_MOVES = CLUSTERS

POLICIES = tuple(
    json.dumps({"maxReschedulePods": 8, "planningTimeout": "100ms", **each}).encode()
    for each in (
        {"enabledStrategies": ["LoadBalancing"], "imbalanceThreshold": 0},
        {"enabledStrategies": ["ConstraintRepair"]},
        {"enabledStrategies": ["CostOptimization"]},
        {"enabledStrategies": ["TopologySpread", "ConstraintRepair"]},
        {
            "enabledStrategies": ["Defragmentation", "LoadBalancing"],
            "defragmentation": {"shape": {"cpu": "1"}},
        },
    )
)


@dataclass(frozen=True)
class PlannedMove:
    """A move, and the cluster as it is when its turn comes."""

    move: Move
    cluster: GeneratedCluster

    @property
    def description(self) -> str:
        """For people."""
        move = self.move
        where = f"{self.cluster.focus} {self.cluster.seed}"
        return f"{where}: {move.mode} of {move.pod} from {move.source} to {move.target}"


@pytest.mark.usefixtures("binary")
def test_the_scheduler_accepts_every_move_at_its_turn() -> None:
    moves = [
        move for cluster, plan in _clusters_and_plans() for move in _planned_moves(cluster, plan)
    ]
    assert len(moves) >= FEWEST_MOVES, "too few moves to learn anything from"
    with_the_old_pod = [move for move in moves if move.move.mode != Mode.EVICT]
    refused = [*_refused(moves, with_old_pod=False), *_refused(with_the_old_pod, with_old_pod=True)]
    assert not refused, "\n".join(refused)


def _refused(moves: list[PlannedMove], with_old_pod: bool) -> Iterator[str]:
    answers = oracle.ask([move.cluster for move in moves], with_old_pod)
    when = "with the old pod" if with_old_pod else "once the old pod is gone"
    for move, verdicts in zip(moves, answers, strict=True):
        verdict = verdicts[move.move.pod]
        if move.move.target not in verdict.fits:
            yield f"{move.description}: {verdict.refused_by[move.move.target]} refuses it {when}"


def _planned_moves(cluster: GeneratedCluster, plan: Plan) -> Iterator[PlannedMove]:
    pods = {key_of(pod): pod for pod in cluster.pods}
    for move in plan.moves:
        yield PlannedMove(move, replace(cluster, pods=list(pods.values())))
        pods[move.pod] = deepcopy(pods[move.pod])
        pods[move.pod]["spec"]["nodeName"] = move.target


def _clusters_and_plans() -> Iterator[tuple[GeneratedCluster, Plan]]:
    for seed in range(CLUSTERS // 2):
        cluster = _in_working_order(generate_cluster(seed, NODES, PODS))
        policy = read_policy("policy", POLICIES[seed % len(POLICIES)])
        yield cluster, make_plan(snapshot_of(cluster.items), policy)
    for number, case in enumerate(cases_without_migrations(CLUSTERS // 2)):
        cluster = GeneratedCluster(
            number, "case", case.node_objects, case.pod_objects, case.other_objects
        )
        yield cluster, plan_of(case)


def _in_working_order(cluster: GeneratedCluster) -> GeneratedCluster:
    """The same cluster with everything Ready, for else no pod would be moved."""
    return replace(
        cluster,
        nodes=[_with_condition(node, node_ready_condition(True)) for node in cluster.nodes],
        pods=[_with_condition(pod, pod_condition("Ready", True, CREATED)) for pod in cluster.pods],
    )


def _with_condition(item: JsonObject, condition: JsonObject) -> JsonObject:
    conditions = [*item["status"].get("conditions", ()), condition]
    return {**item, "status": {**item["status"], "conditions": conditions}}
