"""The search by columns as a whole: what it finds, and what it keeps to."""

import msgspec
import numpy as np
import pytest

from rescheduler.planning.plan import Plan
from rescheduler.planning.planner import make_plan
from rescheduler.planning.problem.problem import Problem
from rescheduler.planning.search.columns import column_search
from rescheduler.planning.search.columns.column_search import ColumnSearch
from rescheduler.planning.search.columns.pod_classes import pod_classes
from rescheduler.settings import Limit, Percent, StrategyName
from testcluster.builders import node
from testcluster.snapshots import snapshot_of
from tests.planning.columns.problems import (
    MAKING_ROOM,
    SAVING,
    Objects,
    apart,
    priced,
    problem_for,
    replicas,
)


def search(problem: Problem, *, is_over: bool = False) -> ColumnSearch:
    return ColumnSearch(problem, pod_classes(problem), lambda: is_over)


def used_after(cluster: Objects, plan: Plan) -> dict[str, int]:
    """How many pods each node holds after a plan."""
    snapshot = snapshot_of(cluster)
    where = dict(zip(snapshot.pods.keys, snapshot.pods.node.tolist(), strict=True))
    for move in plan.moves:
        assert snapshot.nodes.names[where[move.pod]] == move.source
        where[move.pod] = snapshot.nodes.index[move.target]
    names = [snapshot.nodes.names[node] for node in where.values()]
    return {name: names.count(name) for name in snapshot.nodes.names}


def test_a_node_is_emptied_although_no_single_move_gains_anything() -> None:
    cluster = [priced(name, price, cpu="4") for name, price in (("a", 1), ("b", 1.5), ("c", 1))]
    cluster += replicas("web", "aabbbcc")
    plan = make_plan(snapshot_of(cluster), SAVING)
    assert used_after(cluster, plan)["b"] == 0
    assert len(plan.moves) == 3


def test_room_is_gathered_by_moves_that_only_gain_together() -> None:
    """Two nodes with two cores free each: only if one takes a small pod of both is there a hole."""
    cluster = [
        *(node(name, cpu="8") for name in "abc"),
        *replicas("big", "abc", cpu="3"),
        *replicas("small", "aaabbbccc"),
    ]
    plan = make_plan(snapshot_of(cluster), MAKING_ROOM)
    assert plan.after.objective < plan.before.objective
    assert len(plan.moves) == 2


def test_no_node_is_pushed_above_a_threshold() -> None:
    policy = msgspec.structs.replace(
        SAVING,
        enabled_strategies=(StrategyName.COST_OPTIMIZATION, StrategyName.RESOURCE_OPTIMIZATION),
        cpu_threshold=Percent(50),
    )
    cluster = [priced(name, 1.0) for name in "abcd"]
    cluster += replicas("web", "aabbccdd")
    plan = make_plan(snapshot_of(cluster), policy)
    assert sorted(used_after(cluster, plan).values()) == [0, 0, 4, 4]


@pytest.mark.parametrize("moves", [0, 1, 2, 3])
def test_the_limit_on_moves_is_kept_and_more_moves_are_never_worse(moves: int) -> None:
    cluster = [priced("a", 1.0), priced("b", 1.5), priced("c", 1.0), *replicas("web", "aabbbc")]
    plans = [
        make_plan(
            snapshot_of(cluster), msgspec.structs.replace(SAVING, max_reschedule_pods=allowed)
        )
        for allowed in (moves, moves + 1)
    ]
    assert len(plans[0].moves) <= moves
    values = [plan.after.objective for plan in plans]
    assert values[1] <= values[0] + 1e-9


def test_the_limit_of_a_workload_is_kept() -> None:
    policy = msgspec.structs.replace(SAVING, max_moves_per_workload=Limit(1))
    cluster = [priced("a", 1.0), priced("b", 1.5), *replicas("web", "abb"), *replicas("db", "b")]
    plan = make_plan(snapshot_of(cluster), policy)
    assert sum("web" in move.pod for move in plan.moves) <= 1


def test_pods_that_exclude_each_other_stay_apart() -> None:
    cluster = [priced(name, 1.0) for name in "abc"]
    cluster += replicas("db", "abc", affinity=apart("db")) + replicas("web", "abc")
    plan = make_plan(snapshot_of(cluster), SAVING)
    assert plan.moves == ()


def test_the_same_problem_gives_the_same_steps() -> None:
    cluster = [priced(name, 1.0 + number / 10) for number, name in enumerate("abcdefgh")]
    cluster += replicas("web", "aabbccddeeffgghh") + replicas("big", "aceg", cpu="3")
    found = [next(search(problem_for(cluster)).run()) for _ in range(2)]
    assert found[0] == found[1]
    assert found[0]


def test_without_time_nothing_is_found_and_nothing_breaks() -> None:
    cluster = [priced("a", 1.0), priced("b", 1.5), *replicas("web", "ab")]
    assert list(search(problem_for(cluster), is_over=True).run()) == []


def test_a_spread_constraint_is_kept() -> None:
    spread = [
        {
            "maxSkew": 1,
            "topologyKey": "topology.kubernetes.io/zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}},
        }
    ]
    cluster = [priced(name, 1.0, zone=zone) for name, zone in zip("abcd", "xxyy", strict=True)]
    cluster += replicas("web", "abcd", topologySpreadConstraints=spread)
    plan = make_plan(snapshot_of(cluster), SAVING)
    after = used_after(cluster, plan)
    assert after["a"] + after["b"] == after["c"] + after["d"] == 2
    assert sorted(after.values()) == [0, 0, 2, 2]


def test_every_step_leads_from_where_its_pod_is() -> None:
    cluster = [priced(name, 1.0) for name in "abcd"]
    cluster += replicas("web", "aabbccdd")
    problem = problem_for(cluster)
    for steps in search(problem).run():
        pods = np.array([step.pod for step in steps])
        assert problem.snapshot.pods.node[pods].tolist() == [step.source for step in steps]
        assert all(step.source != step.target for step in steps)


def test_without_time_for_the_linear_program_contents_are_found_by_dual_values(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A nearly finished plan is not thrown away."""
    monkeypatch.setattr(column_search, "_MOST_FIRST_COLUMNS", 10)
    nodes = "abcdefghijklmnop"
    cluster = [priced(name, 1.0, cpu="8") for name in nodes]
    cluster += replicas("web", nodes * 2) + replicas("big", nodes, cpu="2")
    problem = problem_for(cluster, msgspec.structs.replace(SAVING, max_reschedule_pods=1_000))
    found = ColumnSearch(problem, pod_classes(problem), lambda: False, too_late=lambda: True)
    steps = next(found.run())
    emptied = {step.source for step in steps} - {step.target for step in steps}
    assert len(emptied) >= 6


def test_as_much_is_found_if_columns_that_are_not_needed_are_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nodes = "abcdefghijklmnop"
    cluster = [priced(name, 1.0, cpu="8") for name in nodes]
    cluster += replicas("web", nodes * 2) + replicas("big", nodes, cpu="2")
    problem = problem_for(cluster, msgspec.structs.replace(SAVING, max_reschedule_pods=20))
    emptied = []
    for most_columns in (60_000, 0):
        monkeypatch.setattr(column_search, "_MOST_COLUMNS", most_columns)
        steps = next(search(problem).run())
        assert len(steps) <= 20
        emptied.append(len({step.source for step in steps} - {step.target for step in steps}))
    assert emptied[0] == emptied[1] >= 4


def test_beyond_some_nodes_dual_values_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_search, "_MOST_FIRST_COLUMNS", 10)
    monkeypatch.setattr(column_search, "_TOO_MANY_NODES", 10)
    nodes = "abcdefghijklmnop"
    cluster = [priced(name, 1.0, cpu="8") for name in nodes]
    cluster += replicas("web", nodes * 2) + replicas("big", nodes, cpu="2")
    problem = problem_for(cluster, msgspec.structs.replace(SAVING, max_reschedule_pods=1_000))
    steps = next(search(problem).run())
    emptied = {step.source for step in steps} - {step.target for step in steps}
    assert len(emptied) >= 6
