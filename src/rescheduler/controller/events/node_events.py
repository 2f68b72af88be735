"""Kubernetes Events about nodes: what a drain or a maintenance label does to them.

A round reports what has changed since the last one. So a node has an Event when it begins to be
emptied, when it is empty, and when only pods are left that stay; not one per round.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from rescheduler.kube.event_correlator import shape_of
from rescheduler.kube.event_recorder import EventRecorder, about_node
from rescheduler.model.objects import Node
from rescheduler.model.pod_templates import PodTemplate
from rescheduler.model.rules.immovable_pods import is_daemon_pod, is_static_pod
from rescheduler.model.rules.node_availability import NodeLabel, is_under_maintenance
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.movability.blocker import PASSING
from rescheduler.planning.plan import BlockedPod, Plan

MOST_NAMED = 3


class NodeEvent(StrEnum):
    """The Events of a node, by their reasons."""

    MAINTENANCE_STARTED = "MaintenanceStarted"
    """The node has the maintenance label, and its pods are to leave it."""
    MAINTENANCE_ENDED = "MaintenanceEnded"
    """The label is gone: pods may run on the node again."""
    DRAIN_STARTED = "DrainStarted"
    """`rescheduler drain` has cordoned the node and moves its pods."""
    EMPTIED = "NodeEmptied"
    """All pods have left the node, except those that belong to it (DaemonSets, static pods)."""
    PODS_STAY = "PodsStay"
    """Only pods are left that cannot be moved; the message names them, and why."""


@dataclass
class _Progress:
    name: str
    label: NodeLabel
    """The label that it is emptied for."""
    had_pods: bool = False
    staying: Mapping[str, str] = field(default_factory=dict)
    """The pods that were last said to stay, and why, without numbers."""


class MaintenanceReporter:
    """Reports how far nodes under maintenance are."""

    def __init__(self, recorder: EventRecorder) -> None:
        self._recorder = recorder
        self._progress: dict[str, _Progress] = {}
        """By the uid of a node that was under maintenance in the last round."""

    def report(self, snapshot: Snapshot, plan: Plan, label: NodeLabel | None) -> None:
        """Record what has changed since the last round.

        The label is None if no enabled strategy empties nodes: what is labelled is then no news.
        """
        if label is None:
            self._progress.clear()
            return
        nodes = {node.metadata.uid: node for node in snapshot.nodes.objects}
        labelled = {uid for uid, node in nodes.items() if is_under_maintenance(node, label)}
        for uid in self._progress.keys() - labelled:
            progress = self._progress.pop(uid)
            if uid in nodes:
                text = ended(nodes[uid], progress.label, label)
                self._record(nodes[uid], NodeEvent.MAINTENANCE_ENDED, text)
        blockers = {blocked.pod: blocked for blocked in plan.blocked} if labelled else {}
        for uid in sorted(labelled, key=lambda uid: nodes[uid].metadata.name):
            self._report_node(nodes[uid], snapshot, blockers, label)

    def _report_node(
        self, node: Node, snapshot: Snapshot, blockers: Mapping[str, BlockedPod], label: NodeLabel
    ) -> None:
        name = node.metadata.name
        progress = self._progress.setdefault(node.metadata.uid, _Progress(name, label))
        progress.label = label
        leaving = leaving_pods(snapshot, name)
        if not leaving:
            # A node that was empty from the beginning was not emptied.
            if progress.had_pods:
                self._record(node, NodeEvent.EMPTIED, emptied(name))
            progress.had_pods, progress.staying = False, {}
            return
        if not progress.had_pods:
            progress.had_pods = True
            text = f"Emptying node {name}, because it has the label {label}: {left(len(leaving))}."
            self._record(node, NodeEvent.MAINTENANCE_STARTED, text)
        why = {pod: blockers[pod].detail for pod in leaving if is_stuck(blockers.get(pod))}
        # As long as others are on their way, what keeps a pod back may pass.
        if len(why) < len(leaving):
            return
        # A reason may say how long something has been so: that changes with every round.
        staying = {pod: shape_of(reason) for pod, reason in why.items()}
        if staying != progress.staying:
            progress.staying = staying
            self._record(node, NodeEvent.PODS_STAY, pods_stay(name, why))

    def _record(self, node: Node, event: NodeEvent, message: str) -> None:
        about = about_node(node.metadata.name, node.metadata.uid)
        self._recorder.record(about, event, message, warning=event == NodeEvent.PODS_STAY)


def leaving_pods(snapshot: Snapshot, node: str) -> list[str]:
    """The pods on a node, without those that belong to it."""
    pods = snapshot.pods
    on_node = pods.placed & (pods.node == snapshot.nodes.index[node])
    return [
        pods.keys[row]
        for row in np.flatnonzero(on_node).tolist()
        if not stays_with_node(snapshot.template_of(row))
    ]


def is_stuck(blocked: BlockedPod | None) -> bool:
    """Whether a pod stays until somebody changes something: it is not moved, nor on its way, nor
    waits for its turn."""
    return blocked is not None and blocked.blocker not in PASSING


def stays_with_node(pod: PodTemplate) -> bool:
    """Whether nobody expects the pod to leave the node: a DaemonSet's, or a static pod."""
    kind = pod.owner_kind
    return is_daemon_pod(kind) or is_static_pod(kind, pod.annotations.mirror)


def ended(node: Node, old: NodeLabel, new: NodeLabel) -> str:
    """Why a node is no longer emptied: its label is gone, or the policy has another one."""
    has_changed = is_under_maintenance(node, old)
    why = (
        f"the policy's label is {new} now, not {old}" if has_changed else f"its label {old} is gone"
    )
    return f"Node {node.metadata.name} is no longer under maintenance: {why}."


def emptied(node: str) -> str:
    """That nothing is left to do."""
    return f"Node {node} is empty: all pods that had to leave it have left."


def pods_stay(node: str, why: Mapping[str, str]) -> str:
    """Which pods stay on a node, and why; only a few are named."""
    pods: Sequence[str] = sorted(why)
    number = "a pod" if len(pods) == 1 else f"{len(pods)} pods"
    named = [f"{pod} ({why[pod].rstrip('.')})" for pod in pods[:MOST_NAMED]]
    if len(pods) > MOST_NAMED:
        named.append(f"and {len(pods) - MOST_NAMED} more")
    return f"Node {node} keeps {number} that cannot be moved: {', '.join(named)}."


def left(number: int) -> str:
    """How many pods are left."""
    return "1 pod has to leave it" if number == 1 else f"{number} pods have to leave it"
