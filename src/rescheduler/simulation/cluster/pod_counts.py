"""Pods, counted as they change: by their controllers, and by their labels.

A ReplicaSet wants to know how many pods it has and a budget how many of them serve, each time one
changes. Counting them anew would look at all pods of an application for every one that changes.
"""

from collections.abc import Mapping
from typing import NamedTuple

from rescheduler.model.objects import LabelSelector
from rescheduler.model.selectors import matches
from rescheduler.simulation.cluster.json_objects import (
    Json,
    controller_of,
    is_active,
    is_deleting,
    is_ready,
    labels_of,
)
from rescheduler.simulation.cluster.object_store import ObjectChange


class PodGroup:
    """The pods of a namespace that have the same labels."""

    __slots__ = ("healthy", "labels", "namespace", "owners", "pods")

    def __init__(self, namespace: str, labels: Mapping[str, str]) -> None:
        self.namespace = namespace
        self.labels = labels
        self.pods: dict[str, None] = {}
        self.healthy = 0
        """How many are Ready and not on their way out."""
        self.owners: dict[str, tuple[int, Json]] = {}
        """By uid: how many of them a controller has, and the reference to it."""


class CountedPod(NamedTuple):
    """What is counted of a pod."""

    group: PodGroup
    owner: Json | None
    is_active: bool
    is_ready: bool
    is_healthy: bool


class OwnedPodCounts(NamedTuple):
    """The pods of a controller that count for it, and how many of them are Ready."""

    active: int
    ready: int


NONE = OwnedPodCounts(0, 0)


class PodCounts:
    """Counts the pods of a store; listen with `take` before anyone who reads it."""

    def __init__(self) -> None:
        self._facts: dict[str, CountedPod] = {}
        self._tallies: dict[str, OwnedPodCounts] = {}
        self._groups: dict[tuple[str, frozenset[tuple[str, str]]], PodGroup] = {}
        self._groups_with: dict[str, dict[PodGroup, None]] = {}
        self._groups_in: dict[str, dict[PodGroup, None]] = {}

    def owned_by(self, owner: str) -> OwnedPodCounts:
        """The pods of the controller with this uid."""
        return self._tallies.get(owner, NONE)

    def group_of(self, pod: str) -> PodGroup:
        """The group that a pod is in."""
        return self._facts[pod].group

    def is_healthy(self, pod: str) -> bool:
        """Whether a pod is there and serves."""
        facts = self._facts.get(pod)
        return facts is not None and facts.is_healthy

    def selected(self, namespace: str, selector: LabelSelector) -> list[PodGroup]:
        """The groups of a namespace that a selector selects, as few as possible looked at."""
        words = [label_key(namespace, *pair) for pair in required_labels(selector)]
        found = self._groups_in.get(namespace, {})
        for each in words:
            found = min(found, self._groups_with.get(each, {}), key=len)
        return [group for group in found if matches(selector, group.labels)]

    def take(self, change: ObjectChange) -> None:
        """Follow a change of a pod."""
        before = self._facts.pop(change.key, None)
        if change.new is None:
            if before is not None:
                self._leave(change.key, before)
            return
        group = self._group(change.new, before)
        ready, active = is_ready(change.new), is_active(change.new)
        healthy = ready and not is_deleting(change.new)
        facts = CountedPod(group, controller_of(change.new), active, active and ready, healthy)
        if before is not None and before != facts:
            self._leave(change.key, before)
        if before is None or before != facts:
            self._enter(change.key, facts)
        self._facts[change.key] = facts

    def _group(self, pod: Json, before: CountedPod | None) -> PodGroup:
        labels, namespace = labels_of(pod), pod["metadata"]["namespace"]
        if before is not None and before.group.labels == labels:
            return before.group
        key = namespace, frozenset(labels.items())
        group = self._groups.get(key)
        return group if group is not None else PodGroup(namespace, labels)

    def _enter(self, pod: str, facts: CountedPod) -> None:
        group = facts.group
        if not group.pods:
            self._open(group)
        group.pods[pod] = None
        group.healthy += facts.is_healthy
        if facts.owner is not None:
            uid = facts.owner["uid"]
            count, _ = group.owners.get(uid, (0, None))
            group.owners[uid] = count + 1, facts.owner
            active, ready = self.owned_by(uid)
            self._tallies[uid] = OwnedPodCounts(active + facts.is_active, ready + facts.is_ready)

    def _leave(self, pod: str, facts: CountedPod) -> None:
        group = facts.group
        del group.pods[pod]
        group.healthy -= facts.is_healthy
        if facts.owner is not None:
            uid = facts.owner["uid"]
            count, reference = group.owners.pop(uid)
            if count > 1:
                group.owners[uid] = count - 1, reference
            active, ready = self._tallies.pop(uid)
            self._tallies[uid] = OwnedPodCounts(active - facts.is_active, ready - facts.is_ready)
        if not group.pods:
            self._close(group)

    def _open(self, group: PodGroup) -> None:
        self._groups[group.namespace, frozenset(group.labels.items())] = group
        self._groups_in.setdefault(group.namespace, {})[group] = None
        for pair in group.labels.items():
            self._groups_with.setdefault(label_key(group.namespace, *pair), {})[group] = None

    def _close(self, group: PodGroup) -> None:
        del self._groups[group.namespace, frozenset(group.labels.items())]
        del self._groups_in[group.namespace][group]
        for pair in group.labels.items():
            groups = self._groups_with[label_key(group.namespace, *pair)]
            del groups[group]
            if not groups:
                del self._groups_with[label_key(group.namespace, *pair)]


def label_key(namespace: str, key: str, value: str) -> str:
    """A label in a namespace."""
    return f"{namespace}/{key}={value}"


def required_labels(selector: LabelSelector) -> list[tuple[str, str]]:
    """The labels that everything selected has."""
    single = [
        (each.key, each.values[0])
        for each in selector.match_expressions
        if each.operator == "In" and len(each.values) == 1
    ]
    return [*selector.match_labels.items(), *single]
