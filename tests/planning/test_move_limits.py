"""How many pods a plan may move of one namespace, workload, budget or node."""

from typing import Any

from rescheduler.planning.context import DEFAULT_CONTEXT, MoveInFlight, PlanningContext
from rescheduler.planning.movability.movability import Movability
from rescheduler.planning.problem.move_limits import MoveLimits
from rescheduler.settings import Limit, Policy
from testcluster.builders import budget, daemonset, node, pod, replicaset, statefulset
from testcluster.snapshots import snapshot_of

Objects = list[dict[str, Any]]


def workload(key: str, nodes: str, kind: Any = replicaset) -> Objects:
    """A workload and a running pod of it on each of the named nodes."""
    owner = kind(key, replicas=len(nodes))
    labels = {"app": key.rpartition("/")[2]}
    pods = [
        pod(f"{key}-{number}", on=on, owner=owner, labels=labels) for number, on in enumerate(nodes)
    ]
    return [owner, *pods]


def limits(
    objects: Objects, policy: Policy, context: PlanningContext = DEFAULT_CONTEXT
) -> MoveLimits:
    snapshot = snapshot_of([node("a"), node("b", pods=20), *objects])
    return MoveLimits(snapshot, policy, Movability(snapshot, policy, context), context)


def allowed(found: MoveLimits, template: int = 0) -> dict[str, int]:
    """By blocker, how many pods of a template's scopes may move."""
    return {
        found.reason(scope).name: int(found.allowance[scope]) for scope in found.scopes_of[template]
    }


def test_without_limits_there_are_no_scopes() -> None:
    found = limits(workload("shop/web", "aaab"), Policy())
    assert found.scopes_of == [()]
    assert len(found.allowance) == 0
    assert found.per_node(0) is None


def test_workloads_of_a_namespace_share_its_limit() -> None:
    objects = [*workload("bank/x", "a"), *workload("shop/api", "ab"), *workload("shop/web", "ab")]
    found = limits(objects, Policy(max_moves_per_namespace=Limit("50%")))
    bank, api, web = found.scopes_of
    assert api == web != bank
    assert allowed(found, 0) == {"NamespaceLimit": 1}
    assert allowed(found, 1) == {"NamespaceLimit": 2}
    assert found.reason(web[0]).detail == (
        "of namespace shop, maxMovesPerNamespace lets 2 pods move at once"
    )


def test_a_share_of_a_workload_is_one_of_its_replicas() -> None:
    found = limits(workload("shop/web", "aaab"), Policy(max_moves_per_workload=Limit("10%")))
    assert allowed(found) == {"WorkloadLimit": 1}
    assert found.reason(0).detail == (
        "of ReplicaSet/shop/web, maxMovesPerWorkload lets 1 pod move at once"
    )


def test_a_limit_of_zero_lets_nothing_move() -> None:
    found = limits(workload("shop/web", "ab"), Policy(max_moves_per_workload=Limit("0")))
    assert allowed(found) == {"WorkloadLimit": 0}
    assert "lets no pods move" in found.reason(0).detail


def test_a_huge_limit_is_no_trouble() -> None:
    found = limits(workload("shop/web", "ab"), Policy(max_moves_per_workload=Limit(10**12)))
    assert allowed(found)["WorkloadLimit"] >= 2


def test_bare_pods_have_no_workload_to_be_limited_by() -> None:
    policy = Policy(allow_bare_pods=True, max_moves_per_workload=Limit("0"))
    assert limits([pod("shop/bare", on="a")], policy).scopes_of == [()]


def test_pods_are_evicted_one_at_a_time_and_within_their_budget() -> None:
    objects = workload("shop/db", "aab", kind=statefulset)
    found = limits([*objects, budget("shop/db", allowed=2)], Policy())
    assert allowed(found) == {"OneAtATime": 1, "Budget": 2}
    assert [found.reason(scope).detail for scope in found.scopes_of[0]] == [
        "of StatefulSet/shop/db, 1 pod is evicted at a time",
        "disruption budget shop/db lets 2 pods go at once, and no more are left",
    ]


def test_a_handoff_needs_no_budget() -> None:
    found = limits([*workload("shop/web", "aab"), budget("shop/web", allowed=1)], Policy())
    assert found.scopes_of == [()]


def test_pods_that_cannot_move_need_no_scopes() -> None:
    agent = daemonset("shop/agent")
    objects = [agent, pod("shop/agent-1", on="a", owner=agent)]
    assert limits(objects, Policy(max_moves_per_namespace=Limit("5"))).scopes_of == [()]


def test_migrations_under_way_count() -> None:
    policy = Policy(max_moves_per_namespace=Limit("3"), max_moves_per_node=Limit("5"))
    context = PlanningContext(
        in_flight=(MoveInFlight("shop/db-0", "b"), MoveInFlight("shop/gone", "b"))
    )
    objects = workload("shop/db", "aab", kind=statefulset)
    found = limits([*objects, budget("shop/db", allowed=1)], policy, context)
    assert allowed(found) == {"NamespaceLimit": 2, "OneAtATime": 0, "Budget": 0}
    assert [found.per_node(0), found.per_node(1)] == [4, 3]


def test_a_share_of_a_node_is_one_of_what_it_can_run() -> None:
    found = limits([], Policy(max_moves_per_node=Limit("10%")))
    assert [found.per_node(0), found.per_node(1)] == [11, 2]
    assert found.node_reason(1) == (
        "NodeLimit",
        "of node b, maxMovesPerNode lets 2 pods go or come at once",
    )
