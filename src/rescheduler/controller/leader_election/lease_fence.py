"""Lets writes pass while we hold the lease, and nobody else can."""

import time
from collections.abc import Callable
from itertools import count

from rescheduler.controller.leader_election.lease_timing import HeldLease
from rescheduler.errors import ApiError, NotLeading, Unavailable


def lease_clock() -> float:
    """Seconds that also pass while the machine sleeps, where the system has such a clock."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class LeaseFence:
    """Permits writes while `held` says so. The elector sets it."""

    def __init__(self, clock: Callable[[], float] = lease_clock) -> None:
        self.held: HeldLease | None = None
        self._clock = clock
        self._numbers = count()
        self._effect_by: dict[int, float] = {}
        """By permit: until when a write that was sent and not answered may have an effect."""

    def permit(self, call: str) -> "LeasePermit":
        """Permit a write that has not been sent yet."""
        held = self.held
        seconds = None if held is None else held.server_seconds(self._clock())
        if seconds is None:
            raise NotLeading(call, "not sent: this replica does not hold the lease")
        return LeasePermit(self, call, seconds, next(self._numbers))

    def has_unanswered_writes(self) -> bool:
        """Whether a write that was sent may still have an effect."""
        self._forget_past_effects()
        return bool(self._effect_by)

    def _forget_past_effects(self) -> None:
        now = self._clock()
        self._effect_by = {number: by for number, by in self._effect_by.items() if by > now}

    def refusal(self, call: str, server_seconds: float) -> ApiError | None:
        """Why a write must not be sent now, if the server may work on it for so long."""
        now, held = self._clock(), self.held
        if held is None or now >= held.leads_until:
            return NotLeading(call, "not sent: the lease was lost while it was prepared")
        if not held.may_send(now, server_seconds):
            return Unavailable(call, "not sent: it took too long to open a connection")
        return None

    def sent(self, number: int, server_seconds: float) -> None:
        """Take note of a write that is being sent."""
        held = self.held
        assert held is not None, "only a leader sends writes"
        seconds = held.durations.delivery_seconds + server_seconds
        self._forget_past_effects()
        self._effect_by[number] = self._clock() + seconds

    def answered(self, number: int) -> None:
        """Take note of the answer to a write."""
        self._effect_by.pop(number, None)


class LeasePermit:
    """The permit for one write."""

    def __init__(self, fence: LeaseFence, call: str, server_seconds: float, number: int) -> None:
        self.server_seconds = server_seconds
        self.refusal: ApiError | None = None
        self._fence = fence
        self._call = call
        self._number = number

    def send(self) -> None:
        """See `WritePermit.send`."""
        self.refusal = self._fence.refusal(self._call, self.server_seconds)
        if self.refusal is not None:
            raise self.refusal
        self._fence.sent(self._number, self.server_seconds)

    def answered(self) -> None:
        """See `WritePermit.answered`."""
        self._fence.answered(self._number)
