"""Shortages: how often workloads had fewer Ready pods than desired, and why.

A workload is a Deployment, or a ReplicaSet, ReplicationController or StatefulSet that no other
workload owns. Its *ready count* is the number of pods that it controls, that are Ready, and that
are not being deleted. The pods that are missing from `spec.replicas` are its shortages, one each.

When a change makes one more pod missing, a shortage begins; when one fewer is missing, the
shortage that began first ends. This is counted at every change of the cluster, so no shortage is
too short to be counted. A shortage is attributed once, when it begins, to what caused it:
`attribution` has the rules.
"""

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from rescheduler.simulation.results.measurement.attribution import Attribution, ShortageCause
from rescheduler.simulation.results.measurement.peak import Peak
from rescheduler.simulation.results.result import ShortageCounts


@dataclass
class WorkloadReplicas:
    """The desired and ready counts of one workload, and its open shortages, oldest first."""

    desired: int = 0
    ready: int = 0
    open: deque[tuple[float, Attribution]] = field(default_factory=deque)

    @property
    def missing(self) -> int:
        """How many Ready pods are missing; never below 0."""
        return max(self.desired - self.ready, 0)


class ShortageTotals:
    """The shortages that are attributed to moves, or all others."""

    def __init__(self) -> None:
        self.begun: Counter[str] = Counter()
        self.causes: Counter[str] = Counter()
        self.pod_seconds = 0.0
        self.peak = Peak()

    def counts(self, open_seconds: float) -> ShortageCounts:
        """`open_seconds` is how long those that are still open have lasted so far."""
        return ShortageCounts(
            total=sum(self.begun.values()),
            pod_seconds=round(self.pod_seconds + open_seconds, 3),
            by_workload=dict(sorted(self.begun.items())),
            by_cause=dict(sorted(self.causes.items())),
        )


class ShortageTracker:
    """Tracks the shortages of all workloads, from `begin` on."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self._workloads: dict[str, WorkloadReplicas] = {}
        self._has_begun = False
        self.by_moves = ShortageTotals()
        self.others = ShortageTotals()

    def begin(self) -> None:
        """Track from now on. Pods that are missing now count as missing from the start."""
        self._has_begun = True
        for workload, replicas in self._workloads.items():
            self._update(workload, replicas, Attribution(False, ShortageCause.START))

    def set_desired(self, workload: str, count: int, attribution: Attribution) -> None:
        """The desired count of a workload has changed."""
        replicas = self._replicas(workload)
        replicas.desired = count
        self._update(workload, replicas, attribution)

    def add_ready(self, workload: str) -> None:
        """One more pod is Ready."""
        replicas = self._replicas(workload)
        replicas.ready += 1
        self._update(workload, replicas, None)

    def remove_ready(self, workload: str, attribution: Callable[[], Attribution]) -> None:
        """One pod fewer is Ready; `attribution` is called only if a shortage begins."""
        replicas = self._replicas(workload)
        replicas.ready -= 1
        if self._has_begun and replicas.missing > len(replicas.open):
            self._update(workload, replicas, attribution())

    def counts(self) -> tuple[ShortageCounts, ShortageCounts]:
        """The shortages attributed to moves, and all others; with those that are still open."""
        now, open_seconds = self._seconds(), [0.0, 0.0]
        for replicas in self._workloads.values():
            for since, attribution in replicas.open:
                open_seconds[attribution.is_move] += now - since
        return self.by_moves.counts(open_seconds[True]), self.others.counts(open_seconds[False])

    def _replicas(self, workload: str) -> WorkloadReplicas:
        found = self._workloads.get(workload)
        if found is None:
            found = self._workloads[workload] = WorkloadReplicas()
        return found

    def _update(
        self, workload: str, replicas: WorkloadReplicas, attribution: Attribution | None
    ) -> None:
        if not self._has_begun:
            return
        missing, now = replicas.missing, self._seconds()
        while len(replicas.open) > missing:
            since, earlier = replicas.open.popleft()
            totals = self._totals(earlier)
            totals.pod_seconds += now - since
            totals.peak.set(totals.peak.now - 1)
        while len(replicas.open) < missing:
            assert attribution is not None, "more Ready pods cause no shortage"
            replicas.open.append((now, attribution))
            totals = self._totals(attribution)
            totals.begun[workload] += 1
            totals.causes[attribution.cause] += 1
            totals.peak.set(totals.peak.now + 1)

    def _totals(self, attribution: Attribution) -> ShortageTotals:
        return self.by_moves if attribution.is_move else self.others
