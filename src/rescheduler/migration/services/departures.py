"""Remembers when pods left their Services, and when kubelets put them back.

A pod leaves its Services when its status says that it is not Ready. Its kubelet compares the
status with its own opinion every ten seconds, counted from the kubelet's start, and puts it back.
Nobody can ask a kubelet when it will do that next. But all pods of a node are put back in the same
rhythm, so it is known once it was seen.

Little is lost in a restart: since when a pod is out of its Services is in its own status, and the
rhythm of its kubelet is in a condition of the Migration that has learned it.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from operator import itemgetter

from rescheduler.migration.migration_object import (
    PUT_BACK_BY_KUBELET,
    Migration,
    MigrationCondition,
)
from rescheduler.migration.moving_pod import MovingPod
from rescheduler.migration.state_machine.observation import (
    PUT_BACK_MARGIN,
    PUT_BACK_PERIOD,
    Departure,
    KubeletRhythm,
)

# Times in a status are in whole seconds.
WHOLE_SECOND = timedelta(seconds=1)
# The clocks of two machines drift apart, and a kubelet may be restarted.
REMEMBERED = timedelta(minutes=30)


# A pod that was about to leave has done so by then, or will not.
RESERVED = timedelta(seconds=10)


@dataclass(frozen=True)
class DepartureTurn:
    """That a pod is about to leave, with all that it shares with other pods."""

    name: str
    shared: frozenset[str]
    since: datetime


@dataclass
class DepartedPod:
    """A pod that is marked as not Ready."""

    left_at: datetime
    """When it was marked, at the latest."""
    followed_since: datetime
    """Since when this process knows what became of the mark."""
    last_seen: datetime
    gone_since: datetime | None = None


class Departures:
    """What was seen of departed pods and their kubelets, as of the last looks at them."""

    def __init__(self) -> None:
        self._pods: dict[str, DepartedPod] = {}
        self._unmarked: dict[str, datetime] = {}
        """By uid of the pod: when it was last seen without a mark."""
        self._rhythms: dict[str, tuple[datetime, KubeletRhythm]] = {}
        self._recorded: dict[str, datetime] = {}
        """By node: when the rhythm of its kubelet was recorded."""
        self._turns: dict[str, DepartureTurn] = {}

    def recall(
        self, node: str, migrations: Callable[[], Iterable[Migration]], now: datetime
    ) -> None:
        """Look up what Migrations have recorded about a node's kubelet, unless that is known.

        The newest record counts. One from the future says nothing: some clock is wrong.
        """
        if node in self._recorded:
            return
        learned = newest_record(node, migrations(), now)
        if learned is None:
            return
        at, rhythm = learned
        known_at, known = self._rhythms.get(node, learned)
        if known_at <= at:
            self._rhythms[node] = learned
        elif known.is_silent != rhythm.is_silent:
            # It was refuted since.
            return
        self._recorded[node] = at

    def look(
        self,
        pod: MovingPod,
        serving: frozenset[str],
        now: datetime,
        slices_changed_at: datetime | None = None,
    ) -> Departure:
        """What is known of a pod, given the Services that still send traffic to it.

        If none does, and this process has not seen this mark before, the pod is out of the
        EndpointSlices since their last change or the mark at the latest.
        """
        self._forget_before(now - REMEMBERED)
        known = self._pods.pop(pod.uid, None)
        if not pod.has_left_services:
            self._unmarked[pod.uid] = now
            if known is not None and was_put_back(pod, known, now):
                self._note_put_back(pod.node, now)
            return self._departure(pod, serving)
        if known is None:
            gone_since = None if serving else gone_at_latest(pod, slices_changed_at, now)
            left_at = at_latest(pod.left_services_at, now)
            was_seen_before = self._unmarked.pop(pod.uid, None) is not None
            known = DepartedPod(left_at, left_at if was_seen_before else now, now, gone_since)
        known.last_seen = now
        known.gone_since = None if serving else known.gone_since or now
        self._pods[pod.uid] = known
        # Of the time before, nobody knows what the kubelet did.
        is_silent = now - known.followed_since >= PUT_BACK_PERIOD + PUT_BACK_MARGIN
        if is_silent and pod.node not in self._rhythms:
            self._rhythms[pod.node] = now, KubeletRhythm(is_silent=True)
        departure = self._departure(pod, serving)
        return replace(departure, left_since=known.left_at, gone_since=known.gone_since)

    def _note_put_back(self, node: str, now: datetime) -> None:
        before = self._rhythm(node)
        if before.is_silent:
            # The record is wrong.
            self._recorded.pop(node, None)
        self._rhythms[node] = now, before.seen_again(now)

    def _departure(self, pod: MovingPod, serving: frozenset[str]) -> Departure:
        is_known = pod.node in self._rhythms
        return Departure(
            serving=serving,
            rhythm=self._rhythm(pod.node),
            is_rhythm_recorded=not is_known or pod.node in self._recorded,
        )

    def reserve(self, pod: MovingPod, shared: frozenset[str], now: datetime) -> tuple[str, ...]:
        """Let a pod be the only one to leave of those that share something with it.

        Returns the names of those that were first. Two that ask in the same moment must not both
        leave: their Service or their budget may have no third.
        """
        rivals = tuple(
            found.name
            for uid, found in self._turns.items()
            if uid != pod.uid and found.shared & shared and now - found.since < RESERVED
        )
        if not rivals:
            self._turns[pod.uid] = DepartureTurn(pod.metadata.name, shared, now)
        return rivals

    def release(self, pod_uid: str) -> None:
        """A pod is gone, or stays."""
        self._turns.pop(pod_uid, None)

    def _rhythm(self, node: str) -> KubeletRhythm:
        _, rhythm = self._rhythms.get(node, (None, KubeletRhythm()))
        return rhythm

    def _forget_before(self, earliest: datetime) -> None:
        pods, rhythms = self._pods, self._rhythms
        self._unmarked = {uid: at for uid, at in self._unmarked.items() if at >= earliest}
        self._pods = {uid: pod for uid, pod in pods.items() if pod.last_seen >= earliest}
        self._rhythms = {node: found for node, found in rhythms.items() if found[0] >= earliest}
        self._recorded = {node: at for node, at in self._recorded.items() if at >= earliest}
        self._turns = {uid: found for uid, found in self._turns.items() if found.since >= earliest}


def at_latest(moment: datetime | None, now: datetime) -> datetime:
    """When something has happened at the latest, given its time in whole seconds, if any."""
    return now if moment is None else min(moment + WHOLE_SECOND, now)


def gone_at_latest(pod: MovingPod, slices_changed_at: datetime | None, now: datetime) -> datetime:
    """Since when a marked pod is in no EndpointSlice, at the latest.

    Slices that are older than the mark are those of an earlier departure: the pod was put back
    meanwhile, and they may still follow that.
    """
    if slices_changed_at is None:
        return now
    return at_latest(max(slices_changed_at, pod.left_services_at or slices_changed_at), now)


def newest_record(
    node: str, migrations: Iterable[Migration], now: datetime
) -> tuple[datetime, KubeletRhythm] | None:
    """What was recorded last about a node's kubelet, and when; None if nothing was."""
    found = [
        (learned.last_transition_time, rhythm_of(learned))
        for migration in migrations
        if migration.status.source_node == node
        and (learned := migration.condition(PUT_BACK_BY_KUBELET)) is not None
        and learned.last_transition_time is not None
        and learned.last_transition_time <= now
    ]
    return max(found, key=itemgetter(0), default=None)


def rhythm_of(learned: MigrationCondition) -> KubeletRhythm:
    """What a Migration has recorded about a kubelet."""
    if learned.status == "True":
        return KubeletRhythm(put_back_at=learned.last_transition_time)
    return KubeletRhythm(is_silent=True)


def was_put_back(pod: MovingPod, known: DepartedPod, now: datetime) -> bool:
    """Whether its kubelet has just made a pod Ready again.

    One that was not watched meanwhile may have been put back at any time. And a kubelet writes
    since when the pod is Ready in its own opinion, which is before the pod left. When we put a pod
    back, we write the time of that.
    """
    was_watched = now - known.last_seen <= PUT_BACK_PERIOD + PUT_BACK_MARGIN
    since = pod.ready_since
    return was_watched and since is not None and since < known.left_at - WHOLE_SECOND
