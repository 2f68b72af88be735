"""What moves disturb, compared with one another, and which replica goes first."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from rescheduler.planning.context import DEFAULT_CONTEXT, PlanningContext
from rescheduler.planning.movability.movability import Movability
from rescheduler.planning.planner import make_plan
from rescheduler.planning.problem.move_costs import age_order, disruption_costs
from rescheduler.settings import Policy
from testcluster.builders import CREATED, budget, node, pod, replicaset, statefulset
from testcluster.snapshots import snapshot_of

STARTED = 1735689600.0  # CREATED in seconds
MANY = 1000


def price(
    *others: dict[str, Any],
    kind: Any = replicaset,
    replicas: int = MANY,
    context: PlanningContext = DEFAULT_CONTEXT,
    **options: Any,
) -> float:
    """The price of a pod of a workload that wants so many replicas."""
    owner = kind("shop/web", replicas=replicas)
    pods = [pod("shop/web-0", on="a", owner=owner, labels={"app": "web"}, **options)]
    snapshot = snapshot_of([node("a"), owner, *others, *pods])
    return float(disruption_costs(snapshot, context, Movability(snapshot, Policy()))[0])


def test_an_ordinary_pod_among_many_costs_one() -> None:
    assert price() == pytest.approx(1.0, abs=1e-4)


def test_the_price_grows_with_the_priority() -> None:
    by_priority = [price(priority=value) for value in (-1000, -1, 0, 1, 1000, 10**9)]
    assert by_priority == sorted(by_priority)
    assert len(set(by_priority)) == len(by_priority)
    assert price(priority=999) == pytest.approx(1.75, abs=1e-3)


@pytest.mark.parametrize(("replicas", "factor"), [(0, 3.0), (1, 3.0), (2, 1.5), (10, 1.02)])
def test_one_of_few_replicas_costs_more(replicas: int, factor: float) -> None:
    assert price(replicas=replicas) == pytest.approx(factor)


def test_an_eviction_costs_twice_a_handoff() -> None:
    never = {"rescheduler.dev/handoff": "never"}
    assert price(annotations=never) == pytest.approx(2.0, abs=1e-4)


def test_a_stateful_pod_costs_more_and_is_evicted_too() -> None:
    assert price(kind=statefulset) == pytest.approx(6.0, abs=1e-4)


@pytest.mark.parametrize(("allowed", "factor"), [(0, 1.5), (1, 1.5), (2, 1.0)])
def test_a_tight_budget_makes_a_move_dearer(allowed: int, factor: float) -> None:
    assert price(budget("shop/web", allowed=allowed)) == pytest.approx(factor, abs=1e-4)


def test_a_young_pod_costs_more() -> None:
    by_age = [price(context=PlanningContext(now=STARTED + age)) for age in (-9, 0, 600, 1e6)]
    assert by_age == pytest.approx([2.0, 2.0, 1.5, 1.0], abs=1e-4)


@pytest.mark.parametrize(
    ("text", "added"),
    [("2.5", 2.5), ("0", 0), ("-3", 0), ("nan", 0), ("inf", 0), ("dear", 0), ("", 0)],
)
def test_an_annotation_adds_its_number_or_nothing(text: str, added: float) -> None:
    stated = {"rescheduler.dev/move-cost": text}
    assert price(annotations=stated) == pytest.approx(1.0 + added, abs=1e-4)


@pytest.mark.parametrize("stated", ["1e12", "1e308"])
def test_no_price_keeps_a_pod_on_a_node_under_maintenance(stated: str) -> None:
    owner = replicaset("tenant/web", replicas=2)
    notes = {"rescheduler.dev/move-cost": stated}
    pods = [
        pod(f"tenant/web-{number}", on="a", owner=owner, annotations=notes) for number in range(2)
    ]
    leaving = node("a", labels={"scheduler.alpha.kubernetes.io/maintenance": "true"})
    snapshot = snapshot_of([leaving, node("b"), owner, *pods])
    plan = make_plan(snapshot, Policy(enabled_strategies=("NodeMaintenance",)))
    assert [move.source for move in plan.moves] == ["a", "a"]


def test_a_cluster_without_pods_has_no_prices() -> None:
    snapshot = snapshot_of([node("a")])
    assert len(disruption_costs(snapshot, DEFAULT_CONTEXT, Movability(snapshot, Policy()))) == 0
    assert len(age_order(snapshot, 0.0)) == 0
    assert len(age_order(snapshot, float("inf"))) == 0


def order(created: Mapping[str, str | None], now: float) -> list[str]:
    """Names of pods in the order in which they would go."""
    pods = [pod(f"shop/{name}", on="a", created=time or "") for name, time in created.items()]
    for each in pods:
        if not each["metadata"]["creationTimestamp"]:
            del each["metadata"]["creationTimestamp"]
    snapshot = snapshot_of([node("a"), *pods])
    rows = np.argsort(age_order(snapshot, now), kind="stable")
    return [snapshot.pods.keys[row].removeprefix("shop/") for row in rows]


@pytest.mark.parametrize("now", [STARTED + 10 * 86400, float("inf")])
def test_old_pods_go_first_and_those_of_unknown_age_before_them(now: float) -> None:
    created = {"a": "2025-01-09T00:00:00Z", "b": CREATED, "c": None, "d": "2025-01-10T00:00:00Z"}
    assert order(created, now) == ["c", "b", "a", "d"]


def test_between_pods_of_about_the_same_age_it_is_not_always_the_first_by_name() -> None:
    created = dict.fromkeys("abcdefgh", CREATED)
    chosen = order(created, STARTED + 86400)
    assert sorted(chosen) == list("abcdefgh")
    assert chosen != list("abcdefgh")
    assert chosen == order(created, STARTED + 86400)
