"""The recorder: receives every change of the cluster and keeps all measurements up to date."""

from collections.abc import Callable, Mapping

import numpy as np

from rescheduler.model.rules.node_availability import NodeLabel
from rescheduler.simulation.cluster.json_objects import Json, controller_of
from rescheduler.simulation.results.measurement.attribution import (
    Attribution,
    Attributor,
    ShortageCause,
)
from rescheduler.simulation.results.measurement.blockers import BlockerCounts
from rescheduler.simulation.results.measurement.moves import MoveLog
from rescheduler.simulation.results.measurement.node_usage import NodeUsage
from rescheduler.simulation.results.measurement.peak import Peak
from rescheduler.simulation.results.measurement.pod_facts import PodFacts, RequestsCache, pod_facts
from rescheduler.simulation.results.measurement.shortages import ShortageTracker
from rescheduler.simulation.results.measurement.workload_counts import (
    REPLICATED_KINDS,
    DesiredCounts,
    desired_replicas,
    workload_of,
)
from rescheduler.simulation.results.result import NodeLoadSeries, PendingTimes, Point, Series

Callback = Callable[[Json | None, Json | None], None]
Subscribe = Callable[[str, Callback], None]

SERIES = (
    "imbalance",
    "load_deviation",
    "nodes_in_use",
    "cost",
    "pods_pending",
    "moves_in_flight",
    "pods_below_desired",
    "own_pods_below_desired",
)
# The most points that the load of each node has over time.
MAX_LOAD_POINTS = 144


class ResultRecorder:
    """Follows the cluster at every change; `sample` adds a point to every series."""

    def __init__(
        self,
        seconds: Callable[[], float],
        total_seconds: float,
        prices: Mapping[str, float],
        maintenance_label: NodeLabel,
    ) -> None:
        self._seconds = seconds
        self.usage = NodeUsage(prices, maintenance_label)
        self.moves = MoveLog()
        self.shortages = ShortageTracker(seconds)
        self.blockers = BlockerCounts()
        self.pods: dict[str, PodFacts] = {}
        self._desired = DesiredCounts()
        self._attributor = Attributor(self.usage, self.moves, self._desired)
        self._requests: RequestsCache = {}
        self._pending_since: dict[str, float] = {}
        self._pending_count = 0
        self._pending_seconds = 0.0
        self._longest_pending_seconds = 0.0
        self._pending_peak = Peak()
        self._points: dict[str, list[Point]] = {name: [] for name in SERIES}
        self._load_step = total_seconds / MAX_LOAD_POINTS
        self._loads: list[tuple[float, dict[str, float]]] = []

    def subscribe_to(self, subscribe: Subscribe) -> None:
        """Subscribe to the kinds that are measured."""
        subscribe("Node", self.usage.node_changed)
        for kind in REPLICATED_KINDS:
            subscribe(kind, self.controller_changed)
        subscribe("Pod", self.pod_changed)
        subscribe("Migration", self.moves.migration_changed)

    # ------------------------------------------------------------ changes

    def controller_changed(self, old: Json | None, new: Json | None) -> None:
        """A controller with replicas was created, changed or deleted."""
        self._desired.controller_changed(old, new)
        value = new if new is not None else old
        assert value is not None
        if controller_of(value) is not None:
            return
        desired = desired_replicas(value) if new is not None else 0
        if old is None or new is None or desired_replicas(old) != desired:
            scaling = Attribution(False, ShortageCause.SCALING)
            self.shortages.set_desired(workload_of(value), desired, scaling)

    def pod_changed(self, old: Json | None, new: Json | None) -> None:
        """A pod was created, changed or deleted."""
        value = new if new is not None else old
        assert value is not None
        uid = value["metadata"]["uid"]
        before = self.pods.get(uid)
        after = (
            pod_facts(new, self._desired.workload_of(new), self._requests)
            if new is not None
            else None
        )
        if before == after:
            return
        if after is not None:
            self.pods[uid] = after
        else:
            self.pods.pop(uid, None)
        self._update_usage(before, after)
        self._update_pending(uid, before, after)
        self._update_shortages(before, after)

    def _update_usage(self, before: PodFacts | None, after: PodFacts | None) -> None:
        if after is not None and after.occupies_node:
            self.usage.add(after, 1)
        if before is not None and before.occupies_node:
            self.usage.add(before, -1)

    def _update_pending(self, uid: str, before: PodFacts | None, after: PodFacts | None) -> None:
        was_pending = before is not None and before.is_pending
        is_pending = after is not None and after.is_pending
        if is_pending and not was_pending:
            self._pending_since[uid] = self._seconds()
            self._pending_count += 1
            self._pending_peak.set(len(self._pending_since))
        elif was_pending and not is_pending:
            seconds = self._seconds() - self._pending_since.pop(uid)
            self._pending_peak.set(len(self._pending_since))
            self._pending_seconds += seconds
            self._longest_pending_seconds = max(self._longest_pending_seconds, seconds)

    def _update_shortages(self, before: PodFacts | None, after: PodFacts | None) -> None:
        """Gains come before losses: a pod that is adopted by another owner is never missing."""
        old_owner = before.owner if before is not None and before.is_active else ""
        new_owner = after.owner if after is not None and after.is_active else ""
        was_ready_for = before.workload if before is not None and before.is_ready else ""
        is_ready_for = after.workload if after is not None and after.is_ready else ""
        if new_owner and new_owner != old_owner:
            self._desired.add_active(new_owner, 1)
        if is_ready_for and is_ready_for != was_ready_for:
            self.shortages.add_ready(is_ready_for)
        if before is not None and was_ready_for and is_ready_for != was_ready_for:
            pod = after if after is not None else before
            self.shortages.remove_ready(
                was_ready_for, lambda: self._attributor.attribution(before, pod)
            )
        if old_owner and new_owner != old_owner:
            self._desired.add_active(old_owner, -1)

    # ------------------------------------------------------------ series

    def sample(self) -> None:
        """Add a point to every series; of pods and moves, the peak since the last point."""
        now, usage = self._seconds(), self.usage.sample()
        values = (
            usage.imbalance,
            usage.deviation,
            usage.nodes_in_use,
            usage.cost,
            self._pending_peak.take(),
            self.moves.peak.take(),
            self.shortages.by_moves.peak.take(),
            self.shortages.others.peak.take(),
        )
        for name, value in zip(SERIES, values, strict=True):
            self._points[name].append(Point(round(now, 3), round(value, 6)))
        if not self._loads or now - self._loads[-1][0] >= self._load_step * 0.999:
            loads = np.round(usage.loads, 4).tolist()
            self._loads.append((now, dict(zip(usage.names, loads, strict=True))))

    def series(self, name: str) -> Series:
        """The points of a series."""
        return tuple(self._points[name])

    def node_loads(self) -> NodeLoadSeries:
        """The load of every node over time."""
        names = sorted({name for _, loads in self._loads for name in loads})
        return NodeLoadSeries(
            seconds=tuple(round(seconds, 3) for seconds, _ in self._loads),
            by_node={
                name: tuple(_load_or_none(loads.get(name)) for _, loads in self._loads)
                for name in names
            },
        )

    def pending(self) -> PendingTimes:
        """How long pods waited for a node, those that still wait included."""
        waiting = [self._seconds() - since for since in self._pending_since.values()]
        return PendingTimes(
            pods=self._pending_count,
            pod_seconds=round(self._pending_seconds + sum(waiting), 3),
            longest_seconds=round(max([self._longest_pending_seconds, *waiting]), 3),
        )

    @property
    def pods_pending(self) -> int:
        """How many pods wait for a node now."""
        return len(self._pending_since)


def _load_or_none(load: float | None) -> float | None:
    """None instead of NaN, which JSON does not have."""
    return None if load is None or load != load else load
