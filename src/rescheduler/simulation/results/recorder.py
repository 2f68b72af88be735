"""The recorder: is told of every change of the cluster, and keeps the sums."""

from collections.abc import Callable, Mapping

import numpy as np

from rescheduler.model.moves import Mode
from rescheduler.model.rules.node_availability import NodeLabel
from rescheduler.simulation.cluster.json_objects import Json, controller_of
from rescheduler.simulation.results.blockers import BlockerCounts
from rescheduler.simulation.results.moves import MoveLog
from rescheduler.simulation.results.node_usage import NodeUsage
from rescheduler.simulation.results.peak import Peak
from rescheduler.simulation.results.pod_facts import PodSeen, Sizes, seen
from rescheduler.simulation.results.result import NodeLoads, Pending, Point, Series
from rescheduler.simulation.results.shortages import Cause, Charge, Shortages
from rescheduler.simulation.results.workload_counts import (
    COUNTING,
    DesiredCounts,
    desired_by,
    workload_of,
)

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
# So many columns has a strip of node loads at most.
STRIP_COLUMNS = 144


class ResultRecorder:
    """Sums that follow the cluster, and series that are sampled from them."""

    def __init__(
        self,
        seconds: Callable[[], float],
        total_seconds: float,
        prices: Mapping[str, float],
        maintenance_label: NodeLabel,
    ) -> None:
        self._seconds = seconds
        self.loads = NodeUsage(prices, maintenance_label)
        self.moves = MoveLog()
        self.shortages = Shortages(seconds)
        self.blockers = BlockerCounts()
        self.pods: dict[str, PodSeen] = {}
        self._owners = DesiredCounts()
        self._sizes: Sizes = {}
        self._waiting: dict[str, float] = {}
        self._waited: list[float] = [0.0, 0.0]
        self._ever_waited = 0
        self._waiting_peak = Peak()
        self._points: dict[str, list[Point]] = {name: [] for name in SERIES}
        self._strip_step = total_seconds / STRIP_COLUMNS
        self._strip: list[tuple[float, dict[str, float]]] = []

    def subscribe_to(self, subscribe: Subscribe) -> None:
        """Be told of everything that matters here."""
        subscribe("Node", self.loads.node_changed)
        for kind in COUNTING:
            subscribe(kind, self.owner_changed)
        subscribe("Pod", self.pod_changed)
        subscribe("Migration", self.moves.changed)

    # ------------------------------------------------------------ changes

    def owner_changed(self, old: Json | None, new: Json | None) -> None:
        """Follow a change of something that wants pods."""
        self._owners.changed(old, new)
        value = new if new is not None else old
        assert value is not None
        if controller_of(value) is not None:
            return
        wanted = desired_by(value) if new is not None else 0
        if old is None or new is None or desired_by(old) != wanted:
            charge = Charge(False, Cause.SCALING)
            self.shortages.desire(workload_of(value), wanted, charge)

    def pod_changed(self, old: Json | None, new: Json | None) -> None:
        """Follow a change of a pod."""
        value = new if new is not None else old
        assert value is not None
        uid = value["metadata"]["uid"]
        before = self.pods.get(uid)
        after = seen(new, self._owners.workload_of(new), self._sizes) if new is not None else None
        if before == after:
            return
        if after is not None:
            self.pods[uid] = after
        else:
            self.pods.pop(uid, None)
        self._move_load(before, after)
        self._wait(uid, before, after)
        self._count(before, after)

    def _move_load(self, before: PodSeen | None, after: PodSeen | None) -> None:
        if after is not None and after.holds:
            self.loads.add(after, 1)
        if before is not None and before.holds:
            self.loads.add(before, -1)

    def _wait(self, uid: str, before: PodSeen | None, after: PodSeen | None) -> None:
        waited = before is not None and before.waits
        waits = after is not None and after.waits
        if waits and not waited:
            self._waiting[uid] = self._seconds()
            self._ever_waited += 1
            self._waiting_peak.follow(len(self._waiting))
        elif waited and not waits:
            seconds = self._seconds() - self._waiting.pop(uid)
            self._waiting_peak.follow(len(self._waiting))
            self._waited[0] += seconds
            self._waited[1] = max(self._waited[1], seconds)

    def _count(self, before: PodSeen | None, after: PodSeen | None) -> None:
        """Gains before losses: a pod that changes hands is missing at no moment."""
        had = before.owner if before is not None and before.active else ""
        has = after.owner if after is not None and after.active else ""
        served = before.workload if before is not None and before.ready else ""
        serves = after.workload if after is not None and after.ready else ""
        if has and has != had:
            self._owners.add_active(has, 1)
        if serves and serves != served:
            self.shortages.add_ready(serves)
        if before is not None and served and serves != served:
            pod = after if after is not None else before
            self.shortages.lose_ready(served, lambda: self._charge(before, pod))
        if had and has != had:
            self._owners.add_active(had, -1)

    def _charge(self, before: PodSeen, after: PodSeen) -> Charge:
        """Whom a pod's going is charged to; `shortages` tells the rules."""
        if self.loads.has_failed(before.node):
            return Charge(False, Cause.NODE_FAILURE)
        move = self.moves.by_uid.get(after.migration or before.migration)
        if move is not None and move.is_under_way and move.mode in (Mode.EVICT, Mode.RECREATE):
            return Charge(True, move.mode)
        if self._owners.is_rolled_out(before.workload):
            return Charge(False, Cause.ROLLOUT)
        if move is not None or self.moves.owners[before.owner] > 0:
            return Charge(True, move.mode if move is not None else Mode.HANDOFF)
        return Charge(False, Cause.OTHER)

    # ------------------------------------------------------------ series

    def sample(self) -> None:
        """Add a point to every series: of what comes and goes, the most since the last point."""
        now, moment = self._seconds(), self.loads.moment()
        values = (
            moment.imbalance,
            moment.deviation,
            moment.nodes_in_use,
            moment.cost,
            self._waiting_peak.taken(),
            self.moves.peak.taken(),
            self.shortages.by_moves.peak.taken(),
            self.shortages.own.peak.taken(),
        )
        for name, value in zip(SERIES, values, strict=True):
            self._points[name].append(Point(round(now, 3), round(value, 6)))
        if not self._strip or now - self._strip[-1][0] >= self._strip_step * 0.999:
            loads = np.round(moment.loads, 4).tolist()
            self._strip.append((now, dict(zip(moment.names, loads, strict=True))))

    def series(self, name: str) -> Series:
        """The points of a series."""
        return tuple(self._points[name])

    def node_loads(self) -> NodeLoads:
        """How full nodes were over time."""
        names = sorted({name for _, loads in self._strip for name in loads})
        return NodeLoads(
            seconds=tuple(round(seconds, 3) for seconds, _ in self._strip),
            by_node={
                name: tuple(_known(loads.get(name)) for _, loads in self._strip) for name in names
            },
        )

    def pending(self) -> Pending:
        """How long pods waited for a node, those that still do included."""
        lasting = [self._seconds() - since for since in self._waiting.values()]
        return Pending(
            pods=self._ever_waited,
            pod_seconds=round(self._waited[0] + sum(lasting), 3),
            longest_seconds=round(max([self._waited[1], *lasting]), 3),
        )

    @property
    def waiting(self) -> int:
        """How many pods wait for a node now."""
        return len(self._waiting)


def _known(load: float | None) -> float | None:
    """A load, unless there is none: NaN is not JSON."""
    return None if load is None or load != load else load
