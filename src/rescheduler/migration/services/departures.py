"""Remembers when pods left their Services, and when kubelets put them back.

A pod leaves its Services when its status says that it is not Ready. Its kubelet compares the
status with its own opinion every ten seconds, counted from the kubelet's start, and puts it back.
Nobody can ask a kubelet when it will do that next. But all pods of a node are put back in the same
rhythm, so it is known once it was seen.

Nothing here is lost for good in a restart: it is learned anew.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

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

    first_seen: datetime
    last_seen: datetime
    gone_since: datetime | None = None


class Departures:
    """What was seen of departed pods and their kubelets, as of the last looks at them."""

    def __init__(self) -> None:
        self._pods: dict[str, DepartedPod] = {}
        self._rhythms: dict[str, tuple[datetime, KubeletRhythm]] = {}
        self._turns: dict[str, DepartureTurn] = {}

    def look(self, pod: MovingPod, serving: frozenset[str], now: datetime) -> Departure:
        """What is known of a pod, given the Services that still send traffic to it."""
        self._forget_before(now - REMEMBERED)
        known = self._pods.pop(pod.uid, None)
        if not pod.has_left_services:
            if known is not None and was_put_back(pod, known, now):
                self._rhythms[pod.node] = now, self._rhythm(pod.node).seen_again(now)
            return Departure(serving=serving, rhythm=self._rhythm(pod.node))
        known = known or DepartedPod(now, now)
        known.last_seen = now
        known.gone_since = None if serving else known.gone_since or now
        self._pods[pod.uid] = known
        is_silent = now - known.first_seen >= PUT_BACK_PERIOD + PUT_BACK_MARGIN
        if is_silent and pod.node not in self._rhythms:
            self._rhythms[pod.node] = now, KubeletRhythm(is_silent=True)
        return Departure(
            serving=serving,
            left_since=known.first_seen,
            gone_since=known.gone_since,
            rhythm=self._rhythm(pod.node),
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
        self._pods = {uid: pod for uid, pod in pods.items() if pod.last_seen >= earliest}
        self._rhythms = {node: found for node, found in rhythms.items() if found[0] >= earliest}
        self._turns = {uid: found for uid, found in self._turns.items() if found.since >= earliest}


def was_put_back(pod: MovingPod, known: DepartedPod, now: datetime) -> bool:
    """Whether its kubelet has just made a pod Ready again.

    One that was not watched meanwhile may have been put back at any time. And a kubelet writes
    since when the pod is Ready in its own opinion, which is before the pod left. When we put a pod
    back, we write the time of that.
    """
    was_watched = now - known.last_seen <= PUT_BACK_PERIOD + PUT_BACK_MARGIN
    since = pod.ready_since
    return was_watched and since is not None and since < known.first_seen - WHOLE_SECOND
