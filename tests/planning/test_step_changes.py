"""What steps change on their nodes, computed at once, is what they change one by one."""

import pytest

from rescheduler.planning.search.node_totals import NodeTotals
from rescheduler.planning.search.steps import SearchStep
from rescheduler.planning.step_changes import StepChanges
from testcluster.builders import node
from tests.planning.columns.problems import SAVING, problem_for, replicas

A, B, C = range(3)


def test_steps_change_what_they_change_one_by_one() -> None:
    cluster = [node("a", cpu="8"), node("b", cpu="4"), node("c", cpu="8")]
    cluster += replicas("web", "aab") + replicas("big", "bc", cpu="2")
    problem = problem_for(cluster, SAVING)
    row = problem.snapshot.pods.keys.index
    steps = [
        SearchStep(row("shop/web-0"), A, B),
        SearchStep(row("shop/big-0"), B, C),
        SearchStep(row("shop/web-0"), B, C),
        SearchStep(row("shop/web-1"), A, C),
    ]
    changes = StepChanges(problem, steps)
    load, cost = problem.load, problem.objective.stated_cost
    totals = NodeTotals(load, problem.objective, problem.movable_on, cost)
    for number, (pod, source, target) in enumerate(steps):
        template = int(problem.snapshot.pods.template[pod])
        before = totals.recomputed_total()
        assert changes.loads_before[number] == pytest.approx(load.load(totals.used)[target])
        totals.add(template, source, -1)
        totals.add(template, target, 1)
        assert changes.gains[number] == pytest.approx(before - totals.recomputed_total())
        assert changes.loads_after[number] == pytest.approx(load.load(totals.used)[target])


def test_no_steps_change_nothing() -> None:
    problem = problem_for([node("a"), node("b"), *replicas("web", "ab")])
    changes = StepChanges(problem, [])
    assert (changes.gains, changes.loads_before, changes.loads_after) == ([], [], [])
