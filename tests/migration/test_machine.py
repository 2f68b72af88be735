"""The machine decides from plain values: no cluster, no clock."""

from datetime import UTC, datetime, timedelta

import msgspec

from rescheduler.controller.in_flight_limits import InFlightSlot, next_to_start, why_no_slot
from rescheduler.controller.past_moves import moves_in_flight, past_moves
from rescheduler.migration import pod_marks
from rescheduler.migration.migration_object import (
    Migration,
    MigrationMeta,
    MigrationSpec,
    MigrationStatus,
    Phase,
    PodReference,
    Step,
    WorkloadReference,
)
from rescheduler.migration.moving_pod import (
    MovingPod,
    PlacedSpec,
    PodCondition,
    PodMeta,
    PodProgress,
)
from rescheduler.migration.state_machine.actions import (
    Ask,
    DeleteBudget,
    DeletePod,
    Forget,
    PatchPod,
    Record,
    Wait,
)
from rescheduler.migration.state_machine.machine import decide
from rescheduler.migration.state_machine.observation import Answers, EvictionAnswer, Observation
from rescheduler.model.moves import Mode, Outcome
from rescheduler.model.objects import Condition, Node, ObjectMeta, OwnerReference
from rescheduler.model.objects.nodes import NodeStatus
from rescheduler.model.objects.workloads import BudgetStatus, PodDisruptionBudget
from rescheduler.settings import Limit, MigrationOptions

NOW = datetime(2026, 1, 1, tzinfo=UTC)
OPTIONS = MigrationOptions()
STATEFUL = OwnerReference(kind="StatefulSet", name="db", uid="sts", controller=True)


def migration(**status: object) -> Migration:
    return Migration(
        MigrationMeta(name="m", namespace="shop", uid="mig", resource_version="1"),
        MigrationSpec(PodReference("db-0", "old"), "b"),
        MigrationStatus(**status),  # type: ignore[arg-type]
    )


def pod(uid: str = "old", node: str = "a", labels: dict[str, str] | None = None) -> MovingPod:
    return MovingPod(
        PodMeta(
            name="db-0",
            namespace="shop",
            uid=uid,
            labels=labels or {},
            owner_references=(STATEFUL,),
            creation_timestamp=NOW,
        ),
        PlacedSpec(node_name=node),
        PodProgress("Running", conditions=(PodCondition("Ready", "True"),)),
    )


def node(name: str = "b") -> Node:
    ready = Condition("Ready", "True")
    return Node(ObjectMeta(name=name), status=NodeStatus(conditions=(ready,)))


def seen(of: Migration, **more: object) -> Observation:
    given = {"old": pod(), "target": node(), **more}
    return Observation(NOW, of, OPTIONS, **given)  # type: ignore[arg-type]


def test_budgets_are_asked_before_anything_is_touched() -> None:
    assert decide(seen(migration())) == Ask("eviction")  # type: ignore[arg-type]
    refused = Answers(eviction=EvictionAnswer(False, by_budget=True, text="budget db"))
    assert decide(seen(migration(), answers=refused)) == Wait(message="waits: budget db")


def test_an_attempt_is_recorded_before_anything_is_touched() -> None:
    allowed = Answers(eviction=EvictionAnswer(True))
    action = decide(seen(migration(), answers=allowed))
    assert isinstance(action, Record)
    assert (action.status.phase, action.status.step) == (Phase.IN_PROGRESS, Step.EVICTING)
    assert (action.status.attempts, action.status.source_node) == (1, "a")


def test_the_same_observation_gives_the_same_decision() -> None:
    o = seen(migration(), answers=Answers(eviction=EvictionAnswer(True)))
    assert decide(o) == decide(o)


def test_another_pod_of_the_same_name_is_left_alone() -> None:
    action = decide(seen(migration(), old=None))
    assert isinstance(action, Record)
    assert action.status.phase == Phase.CANCELLED
    assert "uid old" in action.status.message


def test_a_migration_without_a_place_waits_and_touches_nothing() -> None:
    assert decide(seen(migration(), no_place="20 of 20")) == Wait()


def test_a_pod_that_another_migration_moves_is_waited_for() -> None:
    other = pod_marks.labels_of(migration(), pod_marks.IN_PROGRESS) | {
        "scheduler.alpha.kubernetes.io/migration-id": "other"
    }
    action = decide(seen(migration(), old=pod(labels=other)))
    assert isinstance(action, Wait)
    assert "is moving the pod" in action.message


def in_progress(**more: object) -> Migration:
    workload = WorkloadReference("StatefulSet", "db", "sts")
    return migration(
        phase=Phase.IN_PROGRESS,
        mode=Mode.EVICT,
        attempts=1,
        workload=workload,
        step_started_at=NOW,
        **more,
    )


def test_undoing_restores_the_pod_before_it_ends() -> None:
    of = in_progress(step=Step.UNDOING, after_undoing=Phase.FAILED, message="because")
    marked = pod(labels=pod_marks.labels_of(of, pod_marks.IN_PROGRESS))
    action = decide(seen(of, old=marked))
    assert isinstance(action, PatchPod)
    assert action.name == "restore-old"
    action = decide(seen(of))
    assert isinstance(action, Record)
    assert (action.status.phase, action.status.message) == (Phase.FAILED, "because")


def test_a_temporary_budget_that_a_broken_off_eviction_used_up_is_made_anew() -> None:
    of = in_progress(step=Step.EVICTING)
    marked = pod(labels=pod_marks.labels_of(of, pod_marks.IN_PROGRESS))
    refused = Answers(eviction=EvictionAnswer(False, by_budget=True, text="budget db"))
    own = PodDisruptionBudget(
        ObjectMeta(name="own", namespace="shop", uid="b"),
        status=BudgetStatus(observed_generation=1, disrupted_pods={"db-0": "2026-01-01T00:00:00Z"}),
    )
    action = decide(seen(of, old=marked, own_budget=own, answers=refused))
    assert action == DeleteBudget("delete-budget", "shop/own", "b")
    used_by_another = msgspec.structs.replace(own, status=BudgetStatus(observed_generation=1))
    action = decide(seen(of, old=marked, own_budget=used_by_another, answers=refused))
    assert isinstance(action, Wait)


def test_an_undoing_never_deletes_a_pod_that_has_a_controller() -> None:
    of = in_progress(step=Step.UNDOING, after_undoing=Phase.FAILED)
    adopted = pod("new", "b", pod_marks.labels_of(of, pod_marks.IN_PROGRESS))
    assert not isinstance(decide(seen(of, new=adopted)), DeletePod)


def test_failures_are_retried_later_each_time_and_not_for_ever() -> None:
    for failures, expected in ((0, 10), (1, 20), (2, 40)):
        of = in_progress(
            step=Step.UNDOING, after_undoing=Phase.PENDING, failures=failures + 1, message="x"
        )
        action = decide(seen(of))
        assert isinstance(action, Record)
        assert action.status.retry_at == NOW + timedelta(seconds=expected)
    broken = msgspec.structs.replace(node(), status=NodeStatus())
    action = decide(seen(in_progress(step=Step.EVICTING, failures=3), target=broken))
    assert isinstance(action, Record)
    assert action.status.after_undoing == Phase.FAILED


def test_a_finished_migration_is_kept_for_a_while() -> None:
    done = {"phase": Phase.COMPLETED, "outcome": Outcome.LANDED}
    assert decide(seen(migration(**done, finished_at=NOW))) == Wait(3600)
    assert decide(seen(migration(**done, finished_at=NOW - timedelta(hours=1)))) == Forget()


# ------------------------------------------------------------ limits


def flight(source: str, target: str, workload: str = "w", replicas: int = 4) -> InFlightSlot:
    return InFlightSlot("shop", source, target, workload, replicas)


def test_each_limit_holds() -> None:
    options = MigrationOptions(
        max_in_flight=4, max_per_node=2, max_per_namespace=3, max_per_workload=Limit("1")
    )
    flying = [flight("a", "b", "x"), flight("a", "c", "y")]
    assert "node a" in why_no_slot(flight("a", "d"), flying, options)
    assert "node a" in why_no_slot(flight("d", "a"), flying, options)
    assert "workload" in why_no_slot(flight("d", "e", "x"), flying, options)
    assert why_no_slot(flight("d", "e"), flying, options) == ""
    more = [*flying, flight("f", "g", "z")]
    assert "namespace shop" in why_no_slot(flight("d", "e"), more, options)
    assert "in flight" in why_no_slot(flight("d", "e"), [*more, flight("h", "i", "v")], options)


def test_those_that_wait_do_not_count_against_each_other() -> None:
    options = MigrationOptions(max_in_flight=3, max_per_node=1)
    waiting = {f"m{number}": flight("a", f"t{number}", f"w{number}") for number in range(50)}
    waiting["last"] = flight("b", "c", "v")
    assert next_to_start(waiting, [], options) == ["m0", "last"]


# ------------------------------------------------------------ memory


def ended(outcome: Outcome, minutes_ago: int, phase: Phase = Phase.COMPLETED) -> Migration:
    when = NOW - timedelta(minutes=minutes_ago)
    workload = WorkloadReference("StatefulSet", "db", "sts")
    return migration(
        phase=phase, outcome=outcome, finished_at=when, workload=workload, source_node="a"
    )


def test_what_became_of_a_move_is_remembered() -> None:
    (move,) = past_moves([ended(Outcome.CAME_BACK, 1)])
    assert (move.pod, move.workload) == ("shop/db-0", "StatefulSet/shop/db")
    assert (move.source, move.target, str(move.outcome)) == ("a", "b", "CameBack")
    assert past_moves([ended(Outcome.NONE, 1, Phase.CANCELLED)]) == ()


def test_moves_in_flight_are_those_that_have_not_ended() -> None:
    found = moves_in_flight([in_progress(), migration(), ended(Outcome.LANDED, 1)])
    assert [(move.pod, move.target) for move in found] == [("shop/db-0", "b")] * 2
