"""When a replica may write, and when the lease of another one has expired.

Every time here is of the clock of this machine, which only moves forward. No time that another
machine has written is ever compared with it.

Two facts make it safe. A replica counts its lease from the moment *before* it sent the renewal, and
others count from the moment *after* they saw the renewal, which is later. And whatever a leader
sends has had its effect, or never will, before the lease is over:

    renewed_at              leads_until          ends_at   lease over
        |------------------------|------------------|----------|
        writes may be sent       only what was sent still      another replica
                                 takes effect                  may lead
"""

from dataclasses import dataclass

from rescheduler.controller.leader_election.lease_object import LeaseSpec

# How much faster the clock of another machine may run: a hundredth. Real ones differ by a
# thousandth at most.
CLOCK_DRIFT = 0.01


@dataclass(frozen=True)
class LeaseDurations:
    """How long a lease is valid, and how a leader keeps it."""

    lease_seconds: float = 15.0
    """A leader that has not renewed for so long may be replaced."""
    renew_seconds: float = 10.0
    """A leader that could not renew for so long stops writing."""
    retry_seconds: float = 2.0
    """Between two renewals, and between two looks of a replica that does not lead."""

    @property
    def margin_seconds(self) -> float:
        """Between the last write of a leader that cannot renew and the end of its lease."""
        return self.lease_seconds * (1 - CLOCK_DRIFT) - self.renew_seconds

    @property
    def delivery_seconds(self) -> float:
        """How long a request may be on its way to the server."""
        return self.margin_seconds / 4


@dataclass(frozen=True)
class HeldLease:
    """A lease that we hold."""

    renewed_at: float
    """When the last renewal that succeeded was sent."""
    durations: LeaseDurations

    @property
    def leads_until(self) -> float:
        """No write is sent from this moment on."""
        return self.renewed_at + self.durations.renew_seconds

    @property
    def ends_at(self) -> float:
        """No write has an effect from this moment on."""
        return self.leads_until + self.durations.margin_seconds

    def server_seconds(self, now: float) -> float | None:
        """How long the server may work on a write that is prepared now; None if none may be sent.

        Delivery is left out, and as much time again for opening a connection.
        """
        if now >= self.leads_until:
            return None
        return self.ends_at - now - 2 * self.durations.delivery_seconds

    def may_send(self, now: float, server_seconds: float) -> bool:
        """Whether a write that is sent now can have no effect after the lease."""
        effect_by = now + self.durations.delivery_seconds + server_seconds
        return now < self.leads_until and effect_by <= self.ends_at


@dataclass(frozen=True)
class ObservedLease:
    """The lease of another replica, as we have seen it unchanged for a while."""

    spec: LeaseSpec
    seen_at: float
    """When we first saw it like this."""

    def seen_again(self, spec: LeaseSpec, now: float) -> "ObservedLease":
        """The observation after another look."""
        return self if spec == self.spec else ObservedLease(spec, now)

    def may_be_taken(self, identity: str, now: float, default_seconds: float) -> bool:
        """Whether nobody holds it, or we do, or its holder has not renewed it in time.

        How long it is valid is what its holder has written, or else `default_seconds`.
        """
        if self.spec.holder_identity in ("", identity):
            return True
        seconds = self.spec.lease_duration_seconds or default_seconds
        return now - self.seen_at >= seconds
