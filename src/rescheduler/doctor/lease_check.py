"""Whether somebody leads."""

from datetime import datetime, timedelta

from rescheduler.doctor.findings import Finding, bad, good
from rescheduler.model.objects import Part
from rescheduler.model.objects.parts import Timestamp


class LeaderLeaseSpec(Part, frozen=True):
    """Who holds it, and since when."""

    holder_identity: str = ""
    renew_time: Timestamp | None = None
    lease_duration_seconds: int = 15


class LeaderLease(Part, frozen=True):
    """A Lease of leader election."""

    spec: LeaderLeaseSpec = LeaderLeaseSpec()


def lease_finding(subject: str, lease: LeaderLease, now: datetime) -> Finding:
    """Whether the Lease is held. Holders write their own time, so it is compared with care."""
    spec = lease.spec
    if not spec.holder_identity:
        return bad(subject, "nobody leads, so nothing is done", "look at the logs of the replicas")
    age = now - spec.renew_time if spec.renew_time is not None else timedelta(0)
    seconds = max(0, round(age.total_seconds()))
    if age > 2 * timedelta(seconds=spec.lease_duration_seconds):
        return bad(
            subject,
            f"{spec.holder_identity} has not renewed its lease for {seconds} s",
            "look at its log: does it reach the API server, and is its clock right?",
        )
    return good(subject, f"{spec.holder_identity}, renewed {seconds} s ago")
