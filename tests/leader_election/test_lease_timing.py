"""When a replica may write, and when the lease of another one has expired."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.controller.leader_election.lease_fence import LeaseFence
from rescheduler.controller.leader_election.lease_object import LeaseSpec
from rescheduler.controller.leader_election.lease_timing import (
    CLOCK_DRIFT,
    HeldLease,
    LeaseDurations,
    ObservedLease,
)
from rescheduler.errors import NotLeading, Unavailable

USUAL = LeaseDurations(lease_seconds=15, renew_seconds=10, retry_seconds=2)
THEIRS = LeaseSpec("other_1", 15, "2026-01-01T00:00:00.000000Z", "2026-01-01T00:00:00.000000Z", 3)

durations = st.builds(
    lambda renew, margin: LeaseDurations((renew + margin) / (1 - CLOCK_DRIFT), renew, renew / 5),
    st.floats(0.5, 100),
    st.floats(0.5, 100),
)
moments = st.floats(0, 1000)


@given(durations, moments, moments, moments)
def test_no_write_has_an_effect_when_another_replica_may_lead(
    durations: LeaseDurations, renewed_at: float, prepared_after: float, sent_after: float
) -> None:
    held = HeldLease(renewed_at, durations)
    prepared_at = renewed_at + prepared_after
    server_seconds = held.server_seconds(prepared_at)
    if server_seconds is None or not held.may_send(prepared_at + sent_after, server_seconds):
        return
    assert server_seconds > 0
    arrives_by = prepared_at + sent_after + durations.delivery_seconds
    # Another replica sees the renewal at the earliest when it is sent, by a clock that may be fast.
    taken_at = renewed_at + durations.lease_seconds * (1 - CLOCK_DRIFT)
    assert arrives_by + server_seconds <= taken_at + 1e-6


@given(durations, moments, st.floats(0, 1, exclude_max=True))
def test_a_leader_may_write_until_its_renew_deadline(
    durations: LeaseDurations, renewed_at: float, fraction: float
) -> None:
    held = HeldLease(renewed_at, durations)
    now = renewed_at + fraction * durations.renew_seconds
    if now < held.leads_until:
        server_seconds = held.server_seconds(now)
        assert server_seconds is not None
        assert held.may_send(now, server_seconds)
        assert server_seconds >= durations.margin_seconds / 2 - 1e-6
    assert held.server_seconds(held.leads_until) is None
    assert not held.may_send(held.leads_until, 0)


def test_the_usual_durations_leave_the_server_ten_seconds_while_the_lease_is_renewed() -> None:
    held = HeldLease(100, USUAL)
    seconds = held.server_seconds(100 + USUAL.retry_seconds)
    assert seconds is not None
    assert seconds > 10


def test_a_lease_that_does_not_change_expires_after_the_duration_that_its_holder_wrote() -> None:
    seen = ObservedLease(THEIRS, seen_at=100)
    assert not seen.may_be_taken("me", 114.9, default_seconds=1)
    assert seen.may_be_taken("me", 115, default_seconds=1)


def test_a_lease_is_counted_from_when_it_was_first_seen_however_old_its_times_are() -> None:
    assert not ObservedLease(THEIRS, seen_at=100).may_be_taken("me", 101, default_seconds=15)


def test_every_renewal_starts_the_time_anew() -> None:
    renewed = LeaseSpec("other_1", 15, THEIRS.acquire_time, "2026-01-01T00:00:10.000000Z", 3)
    seen = ObservedLease(THEIRS, seen_at=100).seen_again(THEIRS, now=110)
    assert seen.seen_at == 100
    seen = seen.seen_again(renewed, now=112)
    assert not seen.may_be_taken("me", 126, default_seconds=15)
    assert seen.may_be_taken("me", 127, default_seconds=15)


def test_a_lease_that_is_released_or_ours_may_be_taken_at_once() -> None:
    assert ObservedLease(LeaseSpec("", 15), 100).may_be_taken("me", 100, default_seconds=15)
    assert ObservedLease(LeaseSpec("me", 15), 100).may_be_taken("me", 100, default_seconds=15)


class ClockByHand:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_fence_without_a_lease_lets_nothing_pass() -> None:
    with pytest.raises(NotLeading, match="POST /x: not sent: this replica does not hold the lease"):
        LeaseFence().permit("POST /x")


def test_a_write_is_stopped_when_the_lease_ends_before_it_is_sent() -> None:
    clock = ClockByHand()
    fence = LeaseFence(clock)
    fence.held = HeldLease(100, USUAL)
    permit = fence.permit("POST /x")
    clock.now = 110
    with pytest.raises(NotLeading, match="the lease was lost while it was prepared"):
        permit.send()
    assert isinstance(permit.refusal, NotLeading)


def test_a_write_whose_connection_took_too_long_is_tried_again() -> None:
    clock = ClockByHand()
    fence = LeaseFence(clock)
    fence.held = HeldLease(100, USUAL)
    permit = fence.permit("POST /x")
    clock.now += 3
    with pytest.raises(Unavailable, match="too long to open a connection"):
        permit.send()
    fence.held = HeldLease(102, USUAL)
    permit.send()


def test_a_write_without_an_answer_counts_until_it_can_have_no_effect() -> None:
    clock = ClockByHand()
    fence = LeaseFence(clock)
    fence.held = HeldLease(100, USUAL)
    answered, lost = fence.permit("POST /x"), fence.permit("POST /x")
    answered.send()
    answered.answered()
    assert not fence.has_unanswered_writes()
    lost.send()
    fence.held = None
    assert fence.has_unanswered_writes()
    clock.now += USUAL.delivery_seconds + lost.server_seconds
    assert not fence.has_unanswered_writes()
