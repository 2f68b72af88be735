"""No way back: a pod does not return to a node that it left because a strategy wanted it."""

import msgspec
import pytest

from rescheduler.files.policy_file import read_policy
from rescheduler.model.moves import Outcome
from rescheduler.planning.context import PastMove, PlanningContext
from rescheduler.planning.movability.movability import Movability
from rescheduler.planning.movability.move_history import SEEN_GONE_AFTER, MoveHistory
from rescheduler.planning.planner import make_plan
from rescheduler.planning.strategies import requested_strategies
from rescheduler.planning.unchanged_until import same_until
from rescheduler.settings import Policy
from testcluster.builders import node, pod, replicaset
from testcluster.snapshots import snapshot_of
from tests.planning.wanted.cases import machine, machines, policy, replicas, staying

HOUR = 3600.0
WEB = "ReplicaSet/shop/web"
URGENT = requested_strategies({})


def move(
    source: str = "a",
    target: str = "b",
    *,
    strategy: str = "LoadBalancing",
    outcome: Outcome = Outcome.LANDED,
    workload: str = WEB,
    at: float = 0.0,
) -> PastMove:
    return PastMove("shop/web-1", workload, source, target, outcome, at, strategy)


def left(*moves: PastMove, now: float = HOUR, subject: str = WEB) -> set[str]:
    return MoveHistory(moves, now, URGENT).left_nodes(subject)


def test_nobody_of_the_workload_returns_for_a_day_to_a_node_that_was_left() -> None:
    assert left(move()) == {"a"}
    assert left(move(), now=24 * HOUR - 1) == {"a"}
    assert left(move(), now=24 * HOUR) == set()
    assert left(move(), move("c", "d", at=1.0)) == {"a", "c"}
    assert left(move(), subject="ReplicaSet/shop/api") == set()


@pytest.mark.parametrize(
    ("strategy", "may_return"),
    [
        ("NodeMaintenance", True),
        ("", True),
        ("ConstraintRepair", False),
        ("ResourceOptimization", False),
        ("LoadBalancing", False),
        ("CostOptimization", False),
        ("Defragmentation", False),
        ("APluginThatIsGone", False),
    ],
)
def test_who_left_because_a_person_asked_for_it_may_return(strategy: str, may_return: bool) -> None:
    assert left(move(strategy=strategy)) == (set() if may_return else {"a"})


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.CAME_BACK, Outcome.ELSEWHERE])
def test_a_move_that_did_not_land_closes_no_node(outcome: Outcome) -> None:
    assert left(move(outcome=outcome)) == set()


def test_after_a_failure_another_node_is_tried_for_an_hour() -> None:
    failed = move(outcome=Outcome.FAILED)
    found = [MoveHistory([failed], now).failed_targets(WEB) for now in (HOUR - 1, HOUR)]
    assert found == [{"b"}, set()]
    others = [move(outcome=outcome) for outcome in (Outcome.LANDED, Outcome.ELSEWHERE)]
    assert MoveHistory(others, 0.0).failed_targets(WEB) == set()


@pytest.mark.parametrize("strategy", ["NodeMaintenance", "LoadBalancing"])
def test_a_plan_avoids_the_node_to_which_the_last_move_failed(strategy: str) -> None:
    """Also where it is urgent: on the best node, pods of this workload may not start at all."""
    owner = replicaset("shop/web", 4)
    pods = [pod(f"shop/web-{number}", on="a", cpu="1", owner=owner) for number in range(4)]
    leaving = {"scheduler.alpha.kubernetes.io/maintenance": "true"}
    labels = leaving if strategy == "NodeMaintenance" else {}
    nodes = [node("a", cpu="4", labels=labels), node("best", cpu="8"), node("other", cpu="4")]
    snapshot = snapshot_of([*nodes, owner, *pods])
    options = {"enabledStrategies": [strategy], "planningTimeout": "500ms"}
    rules = read_policy("policy", msgspec.json.encode(options))

    def targets(*history: PastMove) -> set[str]:
        context = PlanningContext(now=0.5 * HOUR, history=history)
        return {found.target for found in make_plan(snapshot, rules, context).moves}

    assert "best" in targets()
    failed = move("a", "best", outcome=Outcome.FAILED)
    assert targets(failed) == {"other"}


def test_a_pod_returns_to_relieve_a_node_that_is_too_full_and_the_plan_says_so() -> None:
    """Spread wants it to go as well, but that alone would be no cause to return."""
    web = replicas("web", "b" * 9)
    context = PlanningContext(now=HOUR, history=(move("c", "b"),))
    rules = policy("ResourceOptimization", "TopologySpread", cpuThreshold=80)
    plan = make_plan(snapshot_of([*machines("bc"), *web]), rules, context)
    assert [(found.target, found.strategy) for found in plan.moves] == [
        ("c", "ResourceOptimization")
    ]


def test_nobody_returns_from_a_node_that_the_plan_has_relieved_already() -> None:
    """When `api` has gone to `d`, `b` is at 70 %. Load alone is no cause to return to `c`."""
    nodes = [
        machine("b", labels={"web": "yes", "api": "yes"}),
        machine("c", labels={"web": "yes"}),
        machine("d", labels={"api": "yes"}),
    ]
    web = replicas("web", "bbbbb", nodeSelector={"web": "yes"})
    api = replicas("api", "b", cpu=2, nodeSelector={"api": "yes"})
    objects = [*nodes, *web, *api, staying("x", on="b", cpu=2), staying("y", on="d", cpu=2)]
    context = PlanningContext(now=HOUR, history=(move("c", "b"),))
    rules = policy("ResourceOptimization", "LoadBalancing", cpuThreshold=80)
    plan = make_plan(snapshot_of(objects), rules, context)
    assert [(found.pod, found.target) for found in plan.moves] == [("shop/api-0", "d")]


def test_the_last_departure_counts() -> None:
    moves = (move(at=0.0), move("b", "a", strategy="NodeMaintenance", at=HOUR), move(at=2 * HOUR))
    assert left(*moves, now=25 * HOUR) == {"a"}
    assert left(*moves, now=26 * HOUR) == set()


def test_a_bare_pod_is_known_under_the_name_that_it_has_now() -> None:
    first = PastMove("shop/x", "", "a", "b", Outcome.LANDED, 0.0, "LoadBalancing", "shop/x-1")
    second = PastMove("shop/x-1", "", "b", "c", Outcome.LANDED, 1.0, "LoadBalancing", "shop/x-2")
    failed = PastMove("shop/x-2", "", "c", "d", Outcome.FAILED, 2.0, "LoadBalancing", "shop/x-3")
    assert left(first, second, failed, subject="shop/x-2") == {"a", "b"}
    assert left(first, second, failed, subject="shop/x") == set()


def test_movability_has_the_nodes_by_template() -> None:
    owner = replicaset("shop/web", 2)
    pods = [pod(f"shop/web-{on}", on=on, owner=owner) for on in "bc"]
    bare = pod("shop/bare", on="b", cpu="3")
    snapshot = snapshot_of([*map(node, "abc"), owner, *pods, bare])
    gone = move("gone", "b")
    alone = PastMove("shop/other", "", "c", "b", Outcome.LANDED, 0.0, "LoadBalancing", "shop/bare")
    history = (move(), gone, alone)
    context = PlanningContext(now=HOUR, history=history)
    movability = Movability(snapshot, Policy(), context, requested_strategies=URGENT)
    of_web, of_bare = (
        int(snapshot.pods.template[snapshot.pods.find(key) or 0])
        for key in ("shop/web-b", "shop/bare")
    )
    found = {template: rows.tolist() for template, rows in movability.left_nodes.items()}
    assert found == {of_web: [0], of_bare: [2]}
    assert Movability(snapshot, Policy()).left_nodes == {}


def test_a_plan_stays_the_same_only_until_a_pod_may_return() -> None:
    snapshot = snapshot_of([node("a"), node("b")])
    context = PlanningContext(now=HOUR, history=(move(),))
    assert same_until(snapshot, Policy(), context) == 24 * HOUR


def test_a_plan_stays_the_same_only_until_a_pod_that_was_moved_must_be_gone() -> None:
    snapshot = snapshot_of([node("a"), node("b")])
    context = PlanningContext(now=60.0, history=(move(outcome=Outcome.ELSEWHERE),))
    assert same_until(snapshot, Policy(), context) == SEEN_GONE_AFTER
