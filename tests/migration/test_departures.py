"""When a pod leaves its Services, and when it may be stopped: from plain values."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from rescheduler.migration.migration_object import (
    Migration,
    MigrationMeta,
    MigrationSpec,
    PodReference,
)
from rescheduler.migration.moving_pod import (
    LEFT_SERVICES,
    Lifecycle,
    MovingContainer,
    MovingPod,
    MovingPodSpec,
    MovingPodStatus,
    PodCondition,
    PodMeta,
    ReadinessGate,
)
from rescheduler.migration.services.departures import Departures
from rescheduler.migration.state_machine.actions import (
    Action,
    Ask,
    PatchPod,
    Question,
    UpdateStatus,
    Wait,
)
from rescheduler.migration.state_machine.observation import (
    Departure,
    KubeletRhythm,
    Observation,
    QuestionAnswers,
    WorkloadPods,
)
from rescheduler.migration.state_machine.service_departure import (
    leave_services,
    leave_shared_services,
    rejoin_services,
    wait_for_a_quiet_moment,
    wait_past_put_back,
)
from rescheduler.migration.state_machine.status_transitions import kubelet_learned
from rescheduler.settings import MigrationOptions, SecondsOrZero

NOW = datetime(2026, 1, 1, tzinfo=UTC)
WEB = frozenset({"web"})
NONE: frozenset[str] = frozenset()
HEALTHY = PodCondition("ContainersReady", "True")
READY = (PodCondition("Ready", "True", last_transition_time=NOW - timedelta(hours=1)), HEALTHY)
LEFT = (PodCondition("Ready", "False", LEFT_SERVICES), HEALTHY)
PLAIN, HOOKED = (
    MovingContainer("main"),
    MovingContainer("main", lifecycle=Lifecycle({"sleep": {"seconds": 3}})),
)


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def pod(conditions: tuple[PodCondition, ...] = READY, *containers: MovingContainer) -> MovingPod:
    return MovingPod(
        PodMeta(name="web-1", namespace="shop", uid="old"),
        MovingPodSpec("a", containers=containers or (PLAIN,)),
        MovingPodStatus("Running", conditions=conditions),
    )


def left_at(moment: datetime) -> MovingPod:
    marked = PodCondition("Ready", "False", LEFT_SERVICES, last_transition_time=moment)
    return pod((marked, HEALTHY))


def observed(departure: Departure | None, now: datetime = NOW) -> Observation:
    migration = Migration(
        MigrationMeta(name="m", namespace="shop", uid="mig"),
        MigrationSpec(PodReference("web-1", "old"), "b"),
    )
    answers = QuestionAnswers(old_departure=departure)
    options = MigrationOptions(leave_services_seconds=SecondsOrZero(1.5))
    return Observation(now, migration, options, answers=answers)


def wait_or_fail(o: Observation, reason: str) -> Action:
    return Wait(100.0, reason)


def seconds(action: Action | None) -> float:
    assert isinstance(action, Wait)
    assert action.seconds is not None
    return action.seconds


def test_a_pod_leaves_when_another_stands_in_for_it() -> None:
    assert leave_services(observed(None), pod(), wait_or_fail) == Ask(Question.OLD_DEPARTURE)
    lonely = observed(Departure(serving=WEB, lonely=WEB))
    waits = leave_services(lonely, pod(), wait_or_fail)
    assert isinstance(waits, Wait)
    assert waits.message == "Service web does not send traffic to the new pod yet"
    marks = leave_services(observed(Departure(serving=WEB)), pod(), wait_or_fail)
    assert isinstance(marks, PatchPod)
    assert (marks.name, marks.subresource, marks.is_strategic) == ("leave-services", "status", True)


@pytest.mark.parametrize(
    ("ready_at", "waits"), [(0.0, 3.0), (-2.0, 1.0), (-3.0, None), (4.0, 7.0), (60.0, None)]
)
def test_a_pod_leaves_when_the_new_one_has_been_ready_for_a_moment(
    ready_at: float, waits: float | None
) -> None:
    """A new pod that flaps would leave nobody to serve. A node's clock may be far ahead."""
    since = PodCondition("Ready", "True", last_transition_time=after(ready_at))
    o = replace(observed(Departure(serving=WEB)), new=pod((since, HEALTHY)))
    action = leave_services(o, pod(), wait_or_fail)
    assert (action.seconds if isinstance(action, Wait) else None) == waits
    assert isinstance(action, Wait if waits else PatchPod)


def test_a_pod_that_is_evicted_stays_where_it_is_the_only_one() -> None:
    lonely = Departure(serving=WEB, lonely=WEB)
    assert leave_shared_services(observed(lonely), pod(), wait_or_fail) is None
    marks = leave_shared_services(observed(Departure(serving=WEB)), pod(), wait_or_fail)
    assert isinstance(marks, PatchPod)


def test_a_pod_that_is_evicted_waits_for_another_that_is_about_to_be_ready() -> None:
    found = Departure(serving=WEB, lonely=WEB, starting=WEB)
    assert seconds(leave_shared_services(observed(found), pod(), wait_or_fail)) < 1


def test_of_pods_that_share_a_service_one_is_evicted_at_a_time() -> None:
    found = Departure(serving=WEB, rivals=("web-0",))
    waits = leave_shared_services(observed(found), pod(), wait_or_fail)
    assert isinstance(waits, Wait)
    assert waits.message == "pod web-0 leaves its Services first"
    back = leave_shared_services(observed(found), pod(LEFT), wait_or_fail)
    assert isinstance(back, PatchPod)
    assert back.name == "rejoin-services"


def test_an_old_pod_stays_in_a_service_that_will_have_no_pod() -> None:
    found = Departure(serving=WEB | {"blue"}, forsaken=frozenset({"blue"}))
    assert leave_services(observed(found), pod(), wait_or_fail) is None


def test_it_is_stopped_when_slices_and_proxies_have_had_their_time() -> None:
    left = pod(LEFT)
    still = observed(Departure(serving=WEB, left_since=NOW))
    assert seconds(leave_services(still, left, wait_or_fail)) < 1
    gone = Departure(left_since=NOW, gone_since=after(0.5))
    assert seconds(leave_services(observed(gone, after(1)), left, wait_or_fail)) == 1.0
    assert leave_services(observed(gone, after(2)), left, wait_or_fail) is None


@pytest.mark.parametrize(
    ("containers", "leaves"), [((HOOKED,), False), ((HOOKED, PLAIN), True), ((PLAIN,), True)]
)
def test_a_pre_stop_hook_in_every_container_is_enough(
    containers: tuple[MovingContainer, ...], leaves: bool
) -> None:
    action = leave_services(observed(None), pod(READY, *containers), wait_or_fail)
    assert (action is not None) == leaves


def test_without_a_service_in_front_nothing_is_done() -> None:
    assert leave_services(observed(Departure()), pod(), wait_or_fail) is None


def test_a_pod_that_was_just_put_back_leaves_before_the_slices_show_it() -> None:
    found = Departure(unlisted=WEB)
    for leave in (leave_services, leave_shared_services):
        action = leave(observed(found), pod(), wait_or_fail)
        assert isinstance(action, PatchPod)
        assert action.name == "leave-services"
        # If they never do, it is waited for the proxies only.
        gone = replace(found, left_since=NOW, gone_since=NOW)
        assert seconds(leave(observed(gone, after(1)), pod(LEFT), wait_or_fail)) == 0.5
        assert leave(observed(gone, after(2)), pod(LEFT), wait_or_fail) is None
        # Nobody sends traffic to a pod that is ill.
        ill = pod((PodCondition("Ready", "False"), HEALTHY))
        assert leave(observed(found), ill, wait_or_fail) is None


def test_a_pod_leaves_just_after_its_kubelet_would_have_put_it_back() -> None:
    rhythm = KubeletRhythm(put_back_at=NOW)
    found = Departure(serving=WEB, rhythm=rhythm)
    early = leave_services(observed(found, after(25)), pod(), wait_or_fail)
    assert isinstance(early, PatchPod)
    late = leave_services(observed(found, after(28)), pod(), wait_or_fail)
    assert 2.0 < seconds(late) < 3.0


@pytest.mark.parametrize(
    ("departure", "now", "expected"),
    [
        (Departure(left_since=NOW), 4.0, 7.0),
        (Departure(left_since=NOW), 11.0, None),
        (Departure(left_since=NOW, rhythm=KubeletRhythm(is_silent=True)), 2.0, None),
        (Departure(left_since=NOW, rhythm=KubeletRhythm(put_back_at=NOW)), 12.0, None),
        (Departure(left_since=NOW, rhythm=KubeletRhythm(put_back_at=NOW)), 19.5, 0.8),
    ],
)
def test_a_workload_deletes_its_pod_in_a_moment_in_which_no_kubelet_puts_it_back(
    departure: Departure, now: float, expected: float | None
) -> None:
    action = wait_for_a_quiet_moment(observed(departure, after(now)), pod(LEFT))
    assert (action is None) == (expected is None)
    assert expected is None or seconds(action) == pytest.approx(expected)


def test_a_pod_is_put_back_as_its_kubelet_would_see_it() -> None:
    assert rejoin_services(pod(), NOW) is None
    assert ready_status(rejoin_services(pod(LEFT), NOW)) == "True"
    sick = pod((LEFT[0], PodCondition("ContainersReady", "False")))
    assert ready_status(rejoin_services(sick, NOW)) == "False"
    gated = pod(LEFT)
    gated = msgspec.structs.replace(
        gated, spec=msgspec.structs.replace(gated.spec, readiness_gates=(ReadinessGate("lb"),))
    )
    assert ready_status(rejoin_services(gated, NOW)) == "False"


def ready_status(action: PatchPod | None) -> str:
    assert action is not None
    (condition,) = action.patch["status"]["conditions"]
    status: str = condition["status"]
    return status


def test_a_sibling_that_has_left_its_services_is_not_ill() -> None:
    sick = pod((LEFT[0], PodCondition("ContainersReady", "False")))
    assert WorkloadPods().with_page([pod(), pod(LEFT)]).not_ready == ()
    assert len(WorkloadPods().with_page([pod(), sick]).not_ready) == 1


def test_the_rhythm_of_a_kubelet_is_learned_from_its_first_put_back() -> None:
    departures = Departures()
    assert departures.look(pod(), WEB, NOW) == Departure(serving=WEB)
    left = departures.look(pod(LEFT), WEB, after(1))
    assert (left.left_since, left.gone_since) == (after(1), None)
    gone = departures.look(pod(LEFT), NONE, after(2))
    assert (gone.left_since, gone.gone_since) == (after(1), after(2))
    put_back = departures.look(pod(), WEB, after(6))
    assert put_back.rhythm == KubeletRhythm(put_back_at=after(6))
    again = departures.look(pod(LEFT), NONE, after(7))
    assert (again.left_since, again.gone_since) == (after(7), after(7))
    assert again.rhythm == KubeletRhythm(put_back_at=after(6))
    forgotten = departures.look(pod(), WEB, after(4000))
    assert forgotten.rhythm == KubeletRhythm()


def test_a_slow_kubelet_puts_pods_back_some_time_after_it_began() -> None:
    rhythm = KubeletRhythm().seen_again(after(3))
    on_time = rhythm.seen_again(after(13))
    assert on_time == KubeletRhythm(put_back_at=after(13))
    late = on_time.seen_again(after(25.5))
    assert late == KubeletRhythm(after(23), timedelta(seconds=2.5))
    # Those that were seen first were late themselves.
    assert late.seen_again(after(32)) == KubeletRhythm(after(32), timedelta(seconds=3.5))
    # It is not believed to be slow for ever.
    assert late.seen_again(after(33)) == KubeletRhythm(after(33), timedelta(seconds=1.25))


@pytest.mark.parametrize(
    ("now", "expected"), [(21.0, 1.8), (22.5, None), (28.5, None), (29.5, 3.3), (30.0, 2.8)]
)
def test_no_pod_is_deleted_while_a_slow_kubelet_may_put_it_back(
    now: float, expected: float | None
) -> None:
    rhythm = KubeletRhythm(NOW, timedelta(seconds=2.5))
    wait = wait_past_put_back(rhythm, timedelta(seconds=1), after(now))
    assert (wait and wait.seconds) == (expected and pytest.approx(expected))


@pytest.mark.parametrize("needed", [1.0, 4.0, 9.0])
def test_however_slow_a_kubelet_is_there_is_a_moment_to_leave(needed: float) -> None:
    rhythm = KubeletRhythm(NOW, timedelta(seconds=4))
    now = after(0.5)
    while wait := wait_past_put_back(rhythm, timedelta(seconds=needed), now):
        now += timedelta(seconds=seconds(wait))
    assert now < after(12)


def test_a_pod_that_we_put_back_says_nothing_of_its_kubelet() -> None:
    departures = Departures()
    departures.look(pod(LEFT), WEB, after(1))
    ready_again = (PodCondition("Ready", "True", last_transition_time=after(3)), HEALTHY)
    assert departures.look(pod(ready_again), WEB, after(3)).rhythm == KubeletRhythm()


def test_of_two_pods_that_ask_in_the_same_moment_one_is_first() -> None:
    departures, web = Departures(), frozenset({"shop/web"})
    other = msgspec.structs.replace(pod(), metadata=PodMeta(name="web-2", uid="other"))
    assert departures.reserve(pod(), web, NOW) == ()
    assert departures.reserve(other, web, NOW) == ("web-1",)
    assert departures.reserve(other, frozenset({"shop/db"}), NOW) == ()
    departures.release("other")
    assert departures.reserve(pod(), web, after(5)) == ()
    assert departures.reserve(other, web, after(12)) == ("web-1",)
    departures.release("old")
    assert departures.reserve(other, web, after(12)) == ()


def test_a_pod_that_nobody_looked_at_was_not_put_back_just_now() -> None:
    departures = Departures()
    departures.look(pod(LEFT), NONE, NOW)
    assert departures.look(pod(), WEB, after(60)).rhythm == KubeletRhythm()


def test_a_node_whose_kubelet_never_puts_anything_back_is_remembered() -> None:
    departures = Departures()
    departures.look(pod(LEFT), NONE, NOW)
    assert departures.look(pod(LEFT), NONE, after(12)).rhythm.is_silent
    other = msgspec.structs.replace(pod(), metadata=PodMeta(name="web-2", uid="other"))
    assert departures.look(other, WEB, after(13)).rhythm.is_silent


def test_a_restarted_controller_does_not_begin_anew_to_wait_for_a_kubelet() -> None:
    """Since when the pod is out of its Services is in its status, in whole seconds."""
    marked = PodCondition("Ready", "False", LEFT_SERVICES, last_transition_time=NOW)
    restarted = Departures().look(pod((marked, HEALTHY)), NONE, after(6))
    assert restarted.left_since == after(1)
    wait = wait_for_a_quiet_moment(observed(restarted, after(6)), pod((marked, HEALTHY)))
    assert isinstance(wait, Wait)
    assert wait.seconds == 6
    # And since when it is in no EndpointSlice, in theirs.
    changed = Departures().look(pod((marked, HEALTHY)), NONE, after(6), after(2))
    assert changed.gone_since == after(3)
    assert Departures().look(pod((marked, HEALTHY)), WEB, after(6), after(2)).gone_since is None
    assert restarted.gone_since == after(6)
    # A clock that is ahead says nothing.
    assert Departures().look(pod((marked, HEALTHY)), NONE, after(-60)).left_since == after(-60)


def test_slices_of_an_earlier_departure_do_not_shorten_the_time_for_the_proxies() -> None:
    departures, slices_changed_at = Departures(), after(1)
    departures.look(left_at(NOW), NONE, after(2), slices_changed_at)
    departures.look(pod(), NONE, after(6), slices_changed_at)
    again = departures.look(left_at(after(7)), NONE, after(7.2), slices_changed_at)
    assert again.gone_since == after(7.2)
    restarted = Departures().look(left_at(after(7)), NONE, after(9), slices_changed_at)
    assert restarted.gone_since == after(8)


@pytest.mark.parametrize("is_put_back", [True, False])
def test_what_was_learned_of_a_kubelet_is_recorded_once_and_known_after_a_restart(
    is_put_back: bool,
) -> None:
    departures = Departures()
    departures.look(pod(LEFT), NONE, NOW)
    found = departures.look(pod(READY if is_put_back else LEFT), NONE, after(11))
    assert not found.is_rhythm_recorded
    o = observed(found, after(11))
    action = leave_services(o, pod(), wait_or_fail)
    assert isinstance(action, UpdateStatus)
    status = msgspec.structs.replace(action.status, source_node="a")
    recorded = msgspec.structs.replace(o.migration, status=status)
    # The watch may not show it yet.
    assert leave_services(replace(o, migration=recorded), pod(), wait_or_fail) != action
    restarted = Departures()
    restarted.recall("a", lambda: [recorded], after(15))
    known = restarted.look(pod(), WEB, after(15))
    assert known.is_rhythm_recorded
    assert known.rhythm == found.rhythm
    restarted.recall("b", lambda: [recorded], after(15))
    assert restarted.look(pod(), WEB, after(3600)).rhythm == KubeletRhythm()


def recorded(at: datetime, *, is_silent: bool = False) -> Migration:
    """A Migration that has learned something of the kubelet of node a."""
    rhythm = KubeletRhythm(is_silent=True) if is_silent else KubeletRhythm(put_back_at=at)
    o = observed(None, at)
    status = kubelet_learned(o, rhythm).status
    status = msgspec.structs.replace(status, source_node="a")
    return msgspec.structs.replace(o.migration, status=status)


@pytest.mark.parametrize("order", [1, -1])
def test_of_several_records_about_a_kubelet_the_newest_counts(order: int) -> None:
    records = [recorded(after(-3600)), recorded(after(-60)), recorded(after(60), is_silent=True)]
    departures = Departures()
    departures.recall("a", lambda: records[::order], NOW)
    found = departures.look(pod(), WEB, NOW)
    assert found.rhythm == KubeletRhythm(put_back_at=after(-60))
    assert found.is_rhythm_recorded


def test_a_kubelet_that_puts_a_pod_back_after_all_is_no_longer_recorded_as_silent() -> None:
    departures, wrong = Departures(), recorded(NOW, is_silent=True)
    departures.recall("a", lambda: [wrong], after(1))
    departures.look(pod(LEFT), NONE, after(2))
    departures.recall("a", lambda: [wrong], after(9))
    found = departures.look(pod(), NONE, after(9))
    assert found.rhythm == KubeletRhythm(put_back_at=after(9))
    o = replace(observed(found, after(9)), migration=wrong)
    action = leave_services(o, pod(), wait_or_fail)
    assert isinstance(action, UpdateStatus)
    right = msgspec.structs.replace(wrong, status=action.status)
    assert [each.status for each in right.status.conditions] == ["True"]
    # Until a Migration says so, and no longer.
    departures.recall("a", lambda: [wrong], after(10))
    assert not departures.look(pod(), NONE, after(10)).is_rhythm_recorded
    assert not isinstance(
        leave_services(replace(o, migration=right), pod(), wait_or_fail), UpdateStatus
    )
    departures.recall("a", lambda: [right], after(11))
    assert departures.look(pod(), NONE, after(11)).is_rhythm_recorded


def test_an_old_mark_alone_does_not_say_that_a_kubelet_is_silent() -> None:
    restarted = Departures()
    assert not restarted.look(left_at(NOW), NONE, after(60)).rhythm.is_silent
    found = restarted.look(left_at(NOW), NONE, after(70))
    assert not found.rhythm.is_silent
    # But it has been waited for long enough.
    assert wait_for_a_quiet_moment(observed(found, after(70)), left_at(NOW)) is None
    assert restarted.look(left_at(NOW), NONE, after(71)).rhythm.is_silent


def test_who_saw_the_pod_before_its_mark_knows_when_it_has_waited_long_enough() -> None:
    """However late it saw the mark: otherwise it would go on and have learned nothing."""
    departures = Departures()
    departures.look(pod(), WEB, NOW)
    assert not departures.look(left_at(NOW), NONE, after(4)).rhythm.is_silent
    found = departures.look(left_at(NOW), NONE, after(12))
    assert wait_for_a_quiet_moment(observed(found, after(12)), left_at(NOW)) is None
    assert found.rhythm.is_silent
