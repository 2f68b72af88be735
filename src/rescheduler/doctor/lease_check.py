"""Whether somebody leads."""

from datetime import datetime, timedelta

from rescheduler.controller.leader_election.lease_object import (
    UNKNOWN_HOLDER,
    LeaseAnnotations,
    LeaseSpec,
)
from rescheduler.doctor.findings import Finding, bad, doubtful, good


def lease_finding(subject: str, spec: LeaseSpec, now: datetime) -> Finding:
    """Whether a Lease is held. Holders write their own time, so it is compared with care."""
    age = now - datetime.fromisoformat(spec.renew_time) if spec.renew_time else timedelta(0)
    seconds = max(0, round(age.total_seconds()))
    is_over = age > 2 * timedelta(seconds=spec.lease_duration_seconds)
    if spec.holder_identity == UNKNOWN_HOLDER and not is_over:
        wait = f"for {spec.lease_duration_seconds} s, and ask again: the Lease is new"
        return doubtful(subject, "nobody leads yet", f"wait {wait}")
    if not spec.leader:
        return bad(subject, "nobody leads, so nothing is done", "look at the logs of the replicas")
    if is_over:
        return bad(
            subject,
            f"{spec.holder_identity} has not renewed its lease for {seconds} s",
            "look at its log: does it reach the API server, and is its clock right?",
        )
    return good(subject, f"{spec.holder_identity}, renewed {seconds} s ago")


def policy_finding(annotations: LeaseAnnotations) -> Finding:
    """Whether the leader goes by the policy that it was given last."""
    if not annotations.policy_problem:
        return good("policy", "the leader has refused none")
    return bad(
        "policy",
        f"is not valid, and the leader goes on with the one before: {annotations.policy_problem}",
        "correct it; with the shipped install, in the ConfigMap rescheduler-config",
    )
