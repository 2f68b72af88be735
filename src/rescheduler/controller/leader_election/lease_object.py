# mypy: disable-error-code="misc"
# (mypy does not see that structs inherit being frozen)
"""The Lease object, and what a leader writes into it.

The times in it are for people. No replica decides by what another one has written there.
"""

import math
from datetime import datetime
from typing import Any

import msgspec

from rescheduler.labels import LAST_VALID_POLICY, POLICY_PROBLEM
from rescheduler.model.kinds import Kind
from rescheduler.model.objects import Identity, Part
from rescheduler.model.objects.parts import Int32

API_VERSION = "coordination.k8s.io/v1"

UNKNOWN_HOLDER = "unknown"
"""The holder of a Lease that was just created. It never renews, so its lease expires."""


class LeaseSpec(Part):
    """Who holds a lease. Times are texts: they are only compared with what they were before."""

    holder_identity: str = ""
    lease_duration_seconds: Int32 = 0
    acquire_time: str = ""
    renew_time: str = ""
    lease_transitions: Int32 = 0

    @property
    def leader(self) -> str:
        """The replica that holds it; empty if there is none, or it is not known yet."""
        return "" if self.holder_identity == UNKNOWN_HOLDER else self.holder_identity


class LeaseAnnotations(Part):
    """What the leader has written about the policy."""

    last_valid_policy: str = msgspec.field(default="", name=LAST_VALID_POLICY)
    policy_problem: str = msgspec.field(default="", name=POLICY_PROBLEM)


class LeaseMeta(Identity):
    """Which Lease it is, and what is written on it."""

    annotations: LeaseAnnotations = LeaseAnnotations()


class Lease(Part):
    """A Lease of the API group coordination.k8s.io."""

    metadata: LeaseMeta
    spec: LeaseSpec = LeaseSpec()


LEASE = Kind("Lease", API_VERSION, "leases", True, Lease)


def new_lease(key: str, lease_seconds: float, now: datetime) -> dict[str, Any]:
    """A Lease where there is none. Nobody holds it until a lease of usual length has expired.

    The Lease of a leader may just have been deleted, and that leader may write until then.
    """
    namespace, _, name = key.partition("/")
    return {
        "apiVersion": API_VERSION,
        "kind": "Lease",
        "metadata": {"namespace": namespace, "name": name},
        "spec": held_by(UNKNOWN_HOLDER, lease_seconds, now),
    }


def claim(lease: Lease, identity: str, lease_seconds: float, now: datetime) -> dict[str, Any]:
    """The patch by which we take over this version of a Lease, or hold it again."""
    spec = held_by(identity, lease_seconds, now)
    if lease.spec.holder_identity != identity:
        transitions = lease.spec.lease_transitions + 1
        spec |= {"acquireTime": micro_time(now), "leaseTransitions": transitions}
    return of_version(lease, spec)


def release(lease: Lease, now: datetime) -> dict[str, Any]:
    """The patch by which we give up this version of a Lease, so that nobody has to wait."""
    return of_version(lease, {"holderIdentity": None, "renewTime": micro_time(now)})


def held_by(identity: str, lease_seconds: float, now: datetime) -> dict[str, Any]:
    """The part of the spec that every renewal writes."""
    return {
        "holderIdentity": identity,
        # Whole seconds; longer rather than shorter.
        "leaseDurationSeconds": math.ceil(lease_seconds),
        "renewTime": micro_time(now),
    }


def of_version(lease: Lease, spec: dict[str, Any]) -> dict[str, Any]:
    """A merge patch that the server rejects if anybody has changed the Lease since."""
    metadata = {"resourceVersion": lease.metadata.resource_version, "uid": lease.metadata.uid}
    return {"metadata": metadata, "spec": spec}


def micro_time(now: datetime) -> str:
    """A time as the Lease has it."""
    return now.isoformat(timespec="microseconds").replace("+00:00", "Z")
