"""Options about leader election, and how they are checked."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from rescheduler.cli.options import seconds_given
from rescheduler.cli.serve_options import check_key
from rescheduler.errors import SettingsError

if TYPE_CHECKING:
    from rescheduler.controller.leader_election.elector import LeaseOptions

INSTALLED_LEASE = "rescheduler/rescheduler"
"""The Lease of an installation in its usual namespace."""
DEFAULT_LEASE = "kube-system/rescheduler"
"""The Lease where there is no such installation."""
# A write must have ended in a quarter of the time between the two: less is not enough for any.
MIN_MARGIN_SECONDS = 0.5

NoLeaderElection = Annotated[
    bool,
    typer.Option(
        "--no-leader-election",
        help="Plan and move pods without a lease. Then no other controller may run.",
    ),
]
LeaderElectionLease = Annotated[
    str | None,
    typer.Option(
        metavar="NAMESPACE/NAME",
        help="Lease that replicas compete for: only its holder plans and moves pods. "
        f"Default: {INSTALLED_LEASE} if it exists, else {DEFAULT_LEASE}, so that there is one "
        "leader in a cluster wherever it runs.",
    ),
]
LeaderElectionIdentity = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Name of this replica in the Lease; random characters are added. "
        "Default: the host name, which is the name of the pod.",
    ),
]
LeaderElectionInstance = Annotated[
    str | None,
    typer.Option(
        metavar="ID",
        help="Added to the name instead of random characters. A process with the ID of one that "
        "was killed leads again at once, and does not wait until the lease is over. Only one "
        "process at a time may have it, as the containers of one pod: its uid.",
    ),
]
LeaderElectionLeaseDuration = Annotated[
    str | None,
    typer.Option(
        metavar="DURATION",
        help="Other replicas take over when the leader has not renewed the lease for so long. "
        "Longer is slower to take over, and more patient with a slow API server. Default: 15s.",
    ),
]
LeaderElectionRenewDeadline = Annotated[
    str | None,
    typer.Option(
        metavar="DURATION",
        help="A leader that could not renew the lease for so long writes nothing more. "
        "Must be shorter than the lease. Default: 10s.",
    ),
]
LeaderElectionRetryPeriod = Annotated[
    str | None,
    typer.Option(
        metavar="DURATION",
        help="Time between two renewals, and between two looks of a replica that waits. "
        "Default: 2s.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class ElectionArguments:
    """The options about leader election as the user gave them, not checked yet."""

    is_off: bool
    lease: str | None
    identity: str | None
    instance: str | None
    lease_duration: str | None
    renew_deadline: str | None
    retry_period: str | None

    @property
    def any_given(self) -> bool:
        """Whether the user gave any of them, apart from switching it off."""
        durations = self.lease_duration or self.renew_deadline or self.retry_period
        names = self.lease or self.identity or self.instance
        return bool(names or durations)

    def options(self, *, dry_run: bool) -> "LeaseOptions | None":
        """The checked options; None if no lease is needed. A dry run writes nothing, no lease."""
        if self.is_off or dry_run:
            if self.any_given:
                option = "--no-leader-election" if self.is_off else "--dry-run"
                raise SettingsError(f"{option} cannot be combined with other options of a lease")
            return None
        import secrets
        import socket

        from rescheduler.controller.leader_election.elector import LeaseOptions
        from rescheduler.controller.leader_election.lease_timing import LeaseDurations

        if self.lease is not None:
            check_key("--leader-election-lease", self.lease)
        usual = LeaseDurations()
        durations = LeaseDurations(
            seconds("lease-duration", self.lease_duration, usual.lease_seconds),
            seconds("renew-deadline", self.renew_deadline, usual.renew_seconds),
            seconds("retry-period", self.retry_period, usual.retry_seconds),
        )
        if durations.lease_seconds < 1:
            raise SettingsError(
                f"--leader-election-lease-duration {self.lease_duration}: expected 1s or more"
            )
        if durations.margin_seconds < MIN_MARGIN_SECONDS:
            raise SettingsError(
                f"--leader-election-renew-deadline {durations.renew_seconds:g}s: expected to be "
                f"shorter than the lease duration ({durations.lease_seconds:g}s) by a hundredth of "
                f"it and {MIN_MARGIN_SECONDS:g}s; usual is two thirds of it"
            )
        if durations.retry_seconds * 2 > durations.renew_seconds:
            raise SettingsError(
                f"--leader-election-retry-period {durations.retry_seconds:g}s: expected at most "
                f"half of the renew deadline ({durations.renew_seconds:g}s)"
            )
        name = self.identity or socket.gethostname()
        identity = f"{name}_{self.instance or secrets.token_hex(4)}"
        if self.lease is not None:
            return LeaseOptions(self.lease, identity, durations)
        return LeaseOptions(DEFAULT_LEASE, identity, durations, preferred_key=INSTALLED_LEASE)


def seconds(option: str, text: str | None, default: float) -> float:
    """The duration that the user gave, or the default."""
    return default if text is None else seconds_given(f"--leader-election-{option}", text)
