"""Moments below the desired count: how often workloads had a Ready pod too few, and why.

A workload is a Deployment, or a ReplicaSet, ReplicationController or StatefulSet that no other
workload owns. Its *ready count* is the number of pods that it controls, that are Ready, and that
nobody has asked to go. Its *shortage* is what is missing from `spec.replicas`, and never below 0.

Whenever a change makes the shortage grow by one, a moment begins; when it shrinks by one, the
moment that began first ends. So the accounts are kept at every change of the cluster, however
short it lasts. A moment is charged once, when it begins, to what made it begin:

- `Scaling`: more replicas were asked for;
- `NodeFailure`: the pod's node is not ready, or gone;
- a move: we asked the pod to go (mode Evict or Recreate), or its workload retired a pod of its
  while a move of one of its pods was under way (mode Handoff), unless by a rollout;
- `Rollout`: two versions of the Deployment run side by side;
- `Start`: it was so from the start;
- `Other`: whatever else, such as a pod that was preempted.
"""

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from rescheduler.simulation.results.peak import Peak
from rescheduler.simulation.results.result import Moments


class Cause(StrEnum):
    """What a moment is charged to, if not to a move."""

    SCALING = "Scaling"
    NODE_FAILURE = "NodeFailure"
    ROLLOUT = "Rollout"
    START = "Start"
    OTHER = "Other"


@dataclass(frozen=True)
class Charge:
    """Whom a moment is charged to."""

    is_move: bool
    cause: str


@dataclass
class Account:
    """One workload's."""

    desired: int = 0
    ready: int = 0
    open: deque[tuple[float, Charge]] = field(default_factory=deque)

    @property
    def shortage(self) -> int:
        """How many pods are missing."""
        return max(self.desired - self.ready, 0)


class Tally:
    """The moments charged to one side."""

    def __init__(self) -> None:
        self.begun: Counter[str] = Counter()
        self.causes: Counter[str] = Counter()
        self.pod_seconds = 0.0
        self.peak = Peak()

    def moments(self, still_open_seconds: float) -> Moments:
        """All of it, with those that last."""
        return Moments(
            total=sum(self.begun.values()),
            pod_seconds=round(self.pod_seconds + still_open_seconds, 3),
            by_workload=dict(sorted(self.begun.items())),
            by_cause=dict(sorted(self.causes.items())),
        )


class Shortages:
    """The accounts of all workloads."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self._accounts: dict[str, Account] = {}
        self._is_open = False
        self.by_moves = Tally()
        self.own = Tally()

    def begin(self) -> None:
        """Keep accounts from now on: what is missing now has been missing from the start."""
        self._is_open = True
        for workload, account in self._accounts.items():
            self._settle(workload, account, Charge(False, Cause.START))

    def desire(self, workload: str, count: int, charge: Charge) -> None:
        """So many replicas are asked for."""
        account = self._account(workload)
        account.desired = count
        self._settle(workload, account, charge)

    def add_ready(self, workload: str) -> None:
        """There is one more Ready pod."""
        account = self._account(workload)
        account.ready += 1
        self._settle(workload, account, None)

    def lose_ready(self, workload: str, charge: Callable[[], Charge]) -> None:
        """There is one less; the charge is only asked for where a moment begins."""
        account = self._account(workload)
        account.ready -= 1
        if self._is_open and account.shortage > len(account.open):
            self._settle(workload, account, charge())

    def moments(self) -> tuple[Moments, Moments]:
        """Those charged to moves, and the others."""
        now, lasting = self._seconds(), [0.0, 0.0]
        for account in self._accounts.values():
            for since, charge in account.open:
                lasting[charge.is_move] += now - since
        return self.by_moves.moments(lasting[True]), self.own.moments(lasting[False])

    def _account(self, workload: str) -> Account:
        found = self._accounts.get(workload)
        if found is None:
            found = self._accounts[workload] = Account()
        return found

    def _settle(self, workload: str, account: Account, charge: Charge | None) -> None:
        if not self._is_open:
            return
        shortage, now = account.shortage, self._seconds()
        while len(account.open) > shortage:
            since, earlier = account.open.popleft()
            tally = self._tally(earlier)
            tally.pod_seconds += now - since
            tally.peak.follow(tally.peak.now - 1)
        while len(account.open) < shortage:
            assert charge is not None, "more Ready pods make no shortage"
            account.open.append((now, charge))
            tally = self._tally(charge)
            tally.begun[workload] += 1
            tally.causes[charge.cause] += 1
            tally.peak.follow(tally.peak.now + 1)

    def _tally(self, charge: Charge) -> Tally:
        return self.by_moves if charge.is_move else self.own
