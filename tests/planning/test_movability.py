"""Which pods may be moved, how, and what is said of those that may not."""

from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rescheduler.labels import MIGRATION_ID, MIRROR_POD
from rescheduler.model.moves import Mode, Outcome
from rescheduler.planning.context import DEFAULT_CONTEXT, MoveInFlight, PastMove, PlanningContext
from rescheduler.planning.movability.movability import Blocker, Movability
from rescheduler.settings import PodSelector, Policy, SecondsOrZero, SelectorExpression
from testcluster.builders import (
    CREATED,
    budget,
    daemonset,
    deployment,
    job,
    node,
    pod,
    replicaset,
    statefulset,
)
from testcluster.snapshots import snapshot_of

Objects = list[dict[str, Any]]

STARTED = 1735689600.0  # CREATED in seconds
MINUTE, HOUR = 60.0, 3600.0
WEB = "ReplicaSet/shop/web-5d"


def web(nodes: str = "aa", deployed: Any = None, listed: bool = True, **options: Any) -> Objects:
    """A Deployment, its ReplicaSet, and a running pod on each of the named nodes."""
    owner = deployment("shop/web", replicas=len(nodes), **(deployed or {}))
    owned = replicaset("shop/web-5d", replicas=len(nodes), owner=owner)
    options.setdefault("labels", {"app": "web"})
    pods = [
        pod(f"shop/web-5d-{number}", on=on, owner=owned, **options)
        for number, on in enumerate(nodes)
    ]
    return [owner, owned, *pods] if listed else pods


def database(replicas: int, listed: bool = True) -> Objects:
    owner = statefulset("shop/db", replicas=replicas)
    pods = [
        pod(f"shop/db-{number}", on="a", owner=owner, labels={"app": "db"})
        for number in range(replicas)
    ]
    return [owner, *pods] if listed else pods


def asked(
    objects: Objects,
    policy: Policy | None = None,
    context: PlanningContext = DEFAULT_CONTEXT,
) -> Movability:
    snapshot = snapshot_of([node("a"), node("b"), *objects])
    return Movability(snapshot, policy or Policy(), context)


def blockers(movability: Movability) -> set[str | None]:
    rows = range(len(movability.movable))
    found = [movability.blocker(row) for row in rows]
    assert [blocker is None for blocker in found] == movability.movable.tolist()
    return {None if blocker is None else blocker.name for blocker in found}


def detail(movability: Movability, row: int = 0) -> str:
    blocker = movability.blocker(row)
    assert blocker is not None
    return blocker.detail


def test_a_replica_of_a_deployment_moves_by_handoff() -> None:
    movability = asked(web())
    assert blockers(movability) == {None}
    assert movability.mode(0) == Mode.HANDOFF
    assert movability.replicas(0) == 2


def test_pods_of_other_namespaces_do_not_count_for_an_owner_that_they_name() -> None:
    owner = replicaset("shop/web-5d", replicas=2)
    foreign = [pod(f"tenant/p{number}", on="a", owner=owner) for number in range(5)]
    movability = asked([*web(listed=False), *foreign])
    assert movability.replicas(0) == 2


def test_a_stateful_pod_moves_by_eviction() -> None:
    movability = asked(database(3))
    assert blockers(movability) == {None}
    assert movability.mode(0) == Mode.EVICT


def test_the_only_replica_moves_by_handoff_or_not_at_all() -> None:
    assert blockers(asked(web("a"))) == {None}
    assert blockers(asked(web("a", deployed={"strategy": {"type": "Recreate"}}))) == {
        "SingleReplica"
    }
    movability = asked(database(1))
    assert blockers(movability) == {"SingleReplica"}
    assert detail(movability) == "moving it would leave none of db"


def test_of_an_owner_that_is_not_listed_the_pods_are_counted() -> None:
    assert blockers(asked(database(1, listed=False))) == {"SingleReplica"}
    movability = asked(database(2, listed=False))
    assert blockers(movability) == {None}
    assert movability.replicas(0) == 2


def test_pods_on_their_way_out_are_no_replicas() -> None:
    objects = database(2, listed=False)
    objects[0]["metadata"]["deletionTimestamp"] = CREATED
    assert blockers(asked(objects)) == {"BeingDeleted", "SingleReplica"}


def test_a_pod_whose_owner_is_gone_stays() -> None:
    other = replicaset("shop/other", replicas=1)
    movability = asked([other, *web(listed=False)])
    assert blockers(movability) == {"OwnerGone"}
    assert detail(movability) == (
        "its owner ReplicaSet web-5d is gone, so nothing would replace it"
    )


def test_a_pod_whose_owner_is_being_deleted_stays() -> None:
    """A ReplicaSet or a StatefulSet that is being deleted creates no more pods."""
    for objects, owner in ((web(), "ReplicaSet web-5d"), (database(2), "StatefulSet db")):
        for found in objects:
            if found["kind"] == owner.split()[0]:
                found["metadata"]["deletionTimestamp"] = CREATED
        movability = asked(objects)
        assert blockers(movability) == {"OwnerGone"}
        assert detail(movability) == (
            f"its owner {owner} is being deleted, so nothing would replace it"
        )


def test_a_pod_whose_deployment_is_gone_stays_and_that_of_a_plain_replicaset_does_not() -> None:
    above = deployment("shop/web", replicas=2)
    orphan = replicaset("shop/web-5d", replicas=2, owner=above)
    pods = [pod(f"shop/web-5d-{number}", on="a", owner=orphan) for number in range(2)]
    other = deployment("shop/other", replicas=1)
    movability = asked([other, orphan, *pods])
    assert blockers(movability) == {"OwnerGone"}
    assert detail(movability) == "its Deployment web is gone, so nothing would replace it"
    above["metadata"]["deletionTimestamp"] = CREATED
    assert detail(asked([above, orphan, *pods])).startswith("its Deployment web is being deleted")
    del orphan["metadata"]["ownerReferences"]
    assert blockers(asked([other, orphan, *pods])) == {None}


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        (("ReplicaFailure", "True", "FailedCreate"), "its new pods cannot be created"),
        (("Progressing", "False", "ProgressDeadlineExceeded"), "it makes no progress"),
    ],
)
def test_a_pod_whose_deployment_is_stuck_in_a_rollout_stays(
    condition: tuple[str, str, str], reason: str
) -> None:
    objects = web()
    above = objects[0]
    names = ("type", "status", "reason")
    above["status"] = {
        "replicas": 2,
        "updatedReplicas": 0,
        "conditions": [dict(zip(names, condition, strict=True))],
    }
    movability = asked(objects)
    assert blockers(movability) == {"RolloutStuck"}
    stuck = f"Deployment shop/web is stuck in a rollout: {reason} ({condition[2]})"
    assert detail(movability) == stuck
    above["spec"]["paused"] = True
    assert blockers(asked(objects)) == {None}
    above["spec"]["paused"] = False
    above["status"]["updatedReplicas"] = 2
    assert blockers(asked(objects)) == {None}


def test_an_owner_of_the_same_name_is_another_one() -> None:
    namesake = replicaset("shop/web-5d", replicas=2)
    namesake["metadata"]["uid"] = "another"
    assert blockers(asked([namesake, *web(listed=False)])) == {"OwnerGone"}


def test_owners_of_a_kind_that_is_not_listed_are_taken_on_trust() -> None:
    assert blockers(asked(web(listed=False))) == {None}


def test_a_stateful_set_of_other_people_is_not_expected_in_the_list() -> None:
    theirs = {**statefulset("shop/theirs", replicas=2), "apiVersion": "apps.acme.example/v1"}
    pods = [pod(f"shop/theirs-{number}", on="a", owner=theirs) for number in range(2)]
    assert blockers(asked([*database(2), *pods])) == {None}


def test_bare_pods_are_copied_if_that_is_allowed() -> None:
    bare = [pod("shop/bare", on="a")]
    assert blockers(asked(bare)) == {"BarePod"}
    movability = asked(bare, Policy(allow_bare_pods=True))
    assert blockers(movability) == {None}
    assert movability.mode(0) == Mode.RECREATE


def test_a_bare_pod_that_cannot_run_twice_stays() -> None:
    claim = {"name": "d", "persistentVolumeClaim": {"claimName": "d"}}
    movability = asked([pod("shop/bare", on="a", volumes=[claim])], Policy(allow_bare_pods=True))
    assert blockers(movability) == {"BarePod"}
    assert detail(movability) == (
        "it cannot be copied: pods on two nodes must not use its volume at the same time"
    )


@pytest.mark.parametrize(
    "source",
    [
        {"iscsi": {"targetPortal": "10.0.0.1:3260", "iqn": "iqn.2001-04.example:d", "lun": 0}},
        {"fc": {"targetWWNs": ["50060e801049cfd1"], "lun": 0}},
        {"hostPath": {"path": "/d"}},
    ],
)
def test_a_pod_with_a_volume_that_is_not_shared_is_evicted_and_a_bare_one_stays(
    source: dict[str, Any],
) -> None:
    policy = Policy(allow_bare_pods=True, allow_local_storage=True)
    volume = {"name": "d", **source}
    assert asked(web(volumes=[volume]), policy).mode(0) == Mode.EVICT
    assert blockers(asked([pod("shop/bare", on="a", volumes=[volume])], policy)) == {"BarePod"}


def test_a_pod_with_shared_volumes_only_is_handed_over() -> None:
    volumes = [
        {"name": "c", "configMap": {"name": "c"}},
        {"name": "e", "emptyDir": {}},
        {"name": "n", "nfs": {"server": "s", "path": "/"}},
    ]
    policy = Policy(allow_local_storage=True)
    assert asked(web(volumes=volumes), policy).mode(0) == Mode.HANDOFF


@pytest.mark.parametrize("restart_policy", ["Never", "OnFailure"])
def test_a_bare_pod_that_runs_to_completion_stays(restart_policy: str) -> None:
    bare = [pod("shop/bare", on="a", restartPolicy=restart_policy)]
    movability = asked(bare, Policy(allow_bare_pods=True))
    assert blockers(movability) == {"BarePod"}
    assert detail(movability) == (
        "it cannot be copied: it runs to completion, and a copy would do its work twice"
    )


def test_a_bare_pod_that_is_always_restarted_is_copied() -> None:
    bare = [pod("shop/bare", on="a", restartPolicy="Always"), pod("shop/default", on="a")]
    movability = asked(bare, Policy(allow_bare_pods=True))
    assert blockers(movability) == {None}


@pytest.mark.parametrize(("operator", "expected"), [("Exists", [0]), ("DoesNotExist", [1, 2])])
def test_the_policy_can_exclude_pods_by_what_migrations_have_written_on_them(
    operator: Literal["Exists", "DoesNotExist"], expected: list[int]
) -> None:
    objects = web("aab")
    objects[2]["metadata"]["labels"] |= {MIGRATION_ID: "5f3c"}
    selector = PodSelector(match_expressions=(SelectorExpression(MIGRATION_ID, operator),))
    movability = asked(objects, Policy(excluded_pod_selector=selector))
    excluded = [row for row in range(3) if not movability.movable[row]]
    assert excluded == expected
    assert {blocker.name for row in expected if (blocker := movability.blocker(row))} == {
        "ExcludedBySelector"
    }


@pytest.mark.parametrize("hash_of_file", ["5f3c", ""])
def test_a_mirror_pod_is_known_by_its_annotation_whatever_that_says(hash_of_file: str) -> None:
    mirror = pod("shop/proxy-a", on="a", annotations={MIRROR_POD: hash_of_file})
    assert blockers(asked([mirror], Policy(allow_bare_pods=True))) == {"StaticPod"}


def test_pods_of_jobs_are_evicted_if_that_is_allowed() -> None:
    owner = job("shop/import")
    objects = [owner, pod("shop/import-1", on="a", owner=owner)]
    assert blockers(asked(objects)) == {"JobPod"}
    movability = asked(objects, Policy(allow_job_pods=True))
    assert blockers(movability) == {None}
    assert movability.mode(0) == Mode.EVICT


@pytest.mark.parametrize("volume", [{"emptyDir": {}}, {"hostPath": {"path": "/d"}}])
def test_local_storage_is_given_up_if_that_is_allowed(volume: dict[str, Any]) -> None:
    objects = web(volumes=[{"name": "d", **volume}])
    assert blockers(asked(objects)) == {"LocalStorage"}
    assert blockers(asked(objects, Policy(allow_local_storage=True))) == {None}


@pytest.mark.parametrize(
    ("phase", "name", "expected"),
    [
        ("Pending", "NotRunning", "it is not running yet"),
        ("Unknown", "NotRunning", "its phase is Unknown"),
        ("Running", "NotReady", "it is not Ready, so something is wrong already"),
    ],
)
def test_a_pod_that_is_not_well_stays_and_a_node_that_is_silent_is_named(
    phase: str, name: str, expected: str
) -> None:
    objects = [node("b"), *web("aa", phase=phase, ready=False)]
    well, silent = (
        Movability(snapshot_of([node("a", ready=ready), *objects]), Policy())
        for ready in (True, False)
    )
    assert blockers(well) == blockers(silent) == {name}
    assert detail(well) == expected
    assert detail(silent) == "its node a is not Ready, so it is not known whether it runs"


def test_pods_that_their_kubelet_has_evicted_or_not_admitted_hold_nothing_up() -> None:
    """Their objects stay until somebody deletes them."""
    owner, owned, *pods = web("ab")
    left = [pod(f"shop/web-5d-x{n}", on="a", owner=owned, phase="Failed") for n in range(2)]
    for body, reason in zip(left, ("Evicted", "OutOfcpu"), strict=True):
        body["status"]["reason"] = reason
    movability = asked([owner, owned, *pods, *left])
    assert movability.movable.tolist() == [True, True, False, False]


def test_a_deployment_is_whole_though_old_pods_of_a_silent_node_never_end() -> None:
    """They were deleted and replaced, but nobody reports that they have ended."""
    owner, owned, *pods = web("ab")
    lost = pod("shop/web-5d-x", on="c", owner=owned, phase="Unknown")
    lost["metadata"]["deletionTimestamp"] = CREATED
    lost["status"]["reason"] = "NodeLost"
    movability = asked([node("c", ready=False), owner, owned, *pods, lost])
    assert movability.movable.tolist() == [True, True, False]


def test_a_pod_may_be_too_young() -> None:
    policy = Policy(min_pod_age_seconds=SecondsOrZero(300))
    young = asked(web(), policy, PlanningContext(now=STARTED + 200))
    assert blockers(young) == {"TooYoung"}
    assert detail(young) == "it is 4 min old, younger than minPodAge (5 min)"
    assert blockers(asked(web(), policy, PlanningContext(now=STARTED + 300))) == {None}
    assert blockers(asked(web(), policy)) == {None}


def test_a_pod_of_unknown_age_is_old_enough() -> None:
    objects = web()
    for each in objects:
        del each["metadata"]["creationTimestamp"]
    policy = Policy(min_pod_age_seconds=SecondsOrZero(300))
    assert blockers(asked(objects, policy, PlanningContext(now=STARTED))) == {None}


@pytest.mark.parametrize(
    ("ended", "seconds_ago", "new_pod", "outcome", "expected"),
    [
        (60, 100, "shop/web-5d-9", Outcome.LANDED, {None, "BeingMigrated"}),
        (60, 100, "shop/web-5d-9", Outcome.ELSEWHERE, {None, "BeingMigrated"}),
        # It stayed where it was.
        (60, 100, "shop/web-5d-9", Outcome.FAILED, {None}),
        # Its replacement has its name.
        (60, 100, "shop/web-5d-1", Outcome.LANDED, {None}),
        # Somebody has created another one of this name since.
        (-60, 100, "shop/web-5d-9", Outcome.LANDED, {None}),
        # The same within a second: pods do not say which fraction of it they are from.
        (0.4, 24 * 3600, "shop/web-5d-9", Outcome.LANDED, {None}),
    ],
)
def test_a_pod_that_was_moved_is_not_moved_again_before_it_is_seen_to_be_gone(
    ended: float,
    seconds_ago: float,
    new_pod: str,
    outcome: Outcome,
    expected: set[str | None],
) -> None:
    at = STARTED + ended
    past = PastMove("shop/web-5d-1", "", "a", "b", outcome, at, new_pod=new_pod)
    context = PlanningContext(now=at + seconds_ago, history=(past,))
    assert blockers(asked(web(), context=context)) == expected


def test_a_pod_that_is_being_migrated_is_not_moved_again() -> None:
    context = PlanningContext(
        in_flight=(MoveInFlight("shop/web-5d-1", "b"), MoveInFlight("shop/gone", "b"))
    )
    movability = asked(web(), context=context)
    assert blockers(movability) == {None, "BeingMigrated"}
    assert detail(movability, 1) == "it is on its way to b already"


def past(outcome: Outcome, at: float, target: str = "b", workload: str = WEB) -> PastMove:
    return PastMove("shop/web-5d-x", workload, "a", target, outcome, at)


def after(*moves: PastMove, now: float, nodes: str = "ab") -> list[str | None]:
    movability = asked(web(nodes), context=PlanningContext(now=now, history=moves))
    blockers(movability)
    found = [movability.blocker(row) for row in range(len(nodes))]
    return [None if blocker is None else blocker.name for blocker in found]


def test_a_pod_that_landed_rests_for_five_minutes_and_its_siblings_do_not() -> None:
    landed = past(Outcome.LANDED, at=1000)
    assert after(landed, now=1000 + 5 * MINUTE - 1) == [None, "RecentlyMoved"]
    assert after(landed, now=1000 + 5 * MINUTE) == [None, None]


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.CAME_BACK, Outcome.ELSEWHERE])
def test_a_workload_whose_move_did_not_work_out_is_left_alone(outcome: Outcome) -> None:
    assert after(past(outcome, at=1000), now=1000 + 10 * MINUTE - 1) == ["RecentlyMoved"] * 2
    assert after(past(outcome, at=1000), now=1000 + 10 * MINUTE) == [None] * 2


@pytest.mark.parametrize(("in_a_row", "minutes"), [(1, 10), (2, 20), (4, 80), (8, 1280), (9, 1440)])
def test_the_pause_doubles_with_each_failure_in_a_row_up_to_a_day(
    in_a_row: int, minutes: int
) -> None:
    moves = [past(Outcome.FAILED, at=1000.0 + number) for number in range(in_a_row)]
    over = moves[-1].at + minutes * MINUTE
    assert after(*moves, now=over - 1) == ["RecentlyMoved"] * 2
    assert after(*moves, now=over) == [None] * 2


def test_a_move_that_works_out_ends_the_row() -> None:
    moves = [past(Outcome.FAILED, 1000), past(Outcome.LANDED, 1001), past(Outcome.FAILED, 1002)]
    assert after(*moves, now=1002 + 10 * MINUTE) == [None] * 2


def test_other_workloads_are_not_concerned() -> None:
    failed = past(Outcome.FAILED, at=1000, workload="ReplicaSet/shop/api")
    assert after(failed, now=1001) == [None] * 2


def test_without_a_clock_nothing_is_recent() -> None:
    assert after(past(Outcome.FAILED, at=1000), now=float("inf")) == [None] * 2


def test_a_pause_says_why_and_how_long() -> None:
    history = (past(Outcome.FAILED, at=1000),)
    movability = asked(web(), context=PlanningContext(now=1180, history=history))
    assert detail(movability) == (
        "the last move of its workload failed 3 min ago; it is left alone for another 7 min"
    )
    bare = PastMove("shop/bare", "", "a", "b", Outcome.CAME_BACK, 1000)
    movability = asked(
        [pod("shop/bare", on="a"), pod("shop/other", on="a")],
        Policy(allow_bare_pods=True),
        PlanningContext(now=1000 + MINUTE, history=(bare,)),
    )
    assert detail(movability) == (
        "its last move ended where it began 60 s ago; it is left alone for another 9 min"
    )
    assert movability.blocker(1) is None


def test_budgets_count_in_their_own_namespace() -> None:
    used_up = budget("shop/db", max_unavailable=1, allowed=0)
    elsewhere = budget("bank/db", max_unavailable=1, allowed=0)
    movability = asked([*database(3), used_up])
    assert blockers(movability) == {"Budget"}
    assert [each.metadata.key for each in movability.budgets(0)] == ["shop/db"]
    assert blockers(asked([*database(3), elsewhere])) == {None}


def test_a_workload_short_of_healthy_pods_is_not_even_handed_over() -> None:
    short = budget("shop/web", min_available=3, allowed=0)
    short["status"] |= {"currentHealthy": 2, "desiredHealthy": 3}
    movability = asked([*web("aaa"), short])
    assert blockers(movability) == {"Budget"}
    assert detail(movability) == "disruption budget web has 2 of 3 healthy pods"
    short["status"]["currentHealthy"] = 3
    assert blockers(asked([*web("aaa"), short])) == {None}


POLICIES = st.builds(
    Policy,
    allow_bare_pods=st.booleans(),
    allow_job_pods=st.booleans(),
    allow_local_storage=st.booleans(),
    min_pod_age_seconds=st.sampled_from([SecondsOrZero(0), SecondsOrZero(HOUR)]),
)


@st.composite
def clusters(draw: st.DrawFn) -> Objects:
    owners = [
        None,
        replicaset("shop/web", replicas=draw(st.integers(0, 3))),
        statefulset("shop/db", replicas=draw(st.integers(0, 3))),
        daemonset("shop/agent"),
        job("shop/import"),
    ]
    listed = [owner for owner in owners if owner is not None and draw(st.booleans())]
    budgets = [
        budget(f"shop/{name}", selector={"app": "x"}, allowed=draw(st.integers(0, 2)))
        for name in "xy"[: draw(st.integers(0, 2))]
    ]
    pods = [
        pod(
            f"shop/p{number}",
            on=draw(st.sampled_from(["a", "b", "unknown", None])),
            owner=draw(st.sampled_from(owners)),
            labels=draw(st.sampled_from([{}, {"app": "x"}])),
            phase=draw(st.sampled_from([None, None, "Succeeded", "Pending"])),
            ready=draw(st.sampled_from([None, None, False])),
            created=draw(st.sampled_from([CREATED, "2025-01-01T05:00:00Z"])),
            volumes=draw(st.sampled_from([[], [{"name": "d", "emptyDir": {}}]])),
        )
        for number in range(draw(st.integers(1, 12)))
    ]
    return [*listed, *budgets, *pods]


@st.composite
def pasts(draw: st.DrawFn) -> PlanningContext:
    now = draw(st.sampled_from([float("inf"), STARTED + 5 * HOUR + 100]))
    workloads = ["", "ReplicaSet/shop/web", "StatefulSet/shop/db"]
    moves = st.builds(
        PastMove,
        pod=st.sampled_from(["shop/p0", "shop/p1", "shop/none"]),
        workload=st.sampled_from(workloads),
        source=st.just("a"),
        target=st.sampled_from("ab"),
        outcome=st.sampled_from([outcome for outcome in Outcome if outcome != Outcome.NONE]),
        at=st.sampled_from([STARTED, STARTED + 5 * HOUR]),
    )
    in_flight = st.builds(MoveInFlight, st.sampled_from(["shop/p2", "shop/none"]), st.just("b"))
    return PlanningContext(
        now,
        tuple(draw(st.lists(moves, max_size=3))),
        tuple(draw(st.lists(in_flight, max_size=1))),
    )


@settings(max_examples=200, deadline=None)
@given(clusters(), POLICIES, pasts())
def test_a_pod_is_movable_just_if_it_has_no_blocker(
    objects: Objects, policy: Policy, context: PlanningContext
) -> None:
    movability = asked(objects, policy, context)
    for row, is_movable in enumerate(movability.movable.tolist()):
        found: Blocker | None = movability.blocker(row)
        assert is_movable == (found is None)
        assert found is None or found.detail


@pytest.mark.parametrize(
    "context",
    [
        PlanningContext(ignoring_nominations=frozenset({WEB})),
        PlanningContext(placing_blocker="the API server is too old"),
    ],
)
def test_pods_that_cannot_be_placed_on_a_chosen_node_are_evicted(context: PlanningContext) -> None:
    assert asked(web()).mode(0) == Mode.HANDOFF
    assert asked(web(), context=context).mode(0) == Mode.EVICT


def test_only_the_workload_whose_scheduler_ignores_nominations_is_evicted() -> None:
    context = PlanningContext(ignoring_nominations=frozenset({"ReplicaSet/shop/api-5d"}))
    assert asked(web(), context=context).mode(0) == Mode.HANDOFF
