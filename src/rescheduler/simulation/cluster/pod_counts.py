"""Counts of pods by controller and by labels, updated at every change of a pod.

ReplicaSets and budgets need these counts each time one of their pods changes. Counting all pods of
an application every time would be slow.
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
        """How many are Ready and not being deleted."""
        self.owners: dict[str, tuple[int, Json]] = {}
        """By uid of a controller: how many of them it owns, and the reference to it."""


class CountedPod(NamedTuple):
    """What counts of a pod."""

    group: PodGroup
    owner: Json | None
    is_active: bool
    is_ready: bool
    is_healthy: bool


class OwnedPodCounts(NamedTuple):
    """How many active pods a controller owns, and how many of them are Ready."""

    active: int
    ready: int


NO_PODS = OwnedPodCounts(0, 0)


class PodCounts:
    """The counts; `update` must be the first listener of a store's pods."""

    def __init__(self) -> None:
        self._pods: dict[str, CountedPod] = {}
        self._owned: dict[str, OwnedPodCounts] = {}
        self._groups: dict[tuple[str, frozenset[tuple[str, str]]], PodGroup] = {}
        self._groups_with: dict[str, dict[PodGroup, None]] = {}
        self._groups_in: dict[str, dict[PodGroup, None]] = {}

    def owned_by(self, owner: str) -> OwnedPodCounts:
        """The pods of the controller with this uid."""
        return self._owned.get(owner, NO_PODS)

    def is_healthy(self, pod: str) -> bool:
        """Whether a pod exists, is Ready and is not being deleted."""
        counted = self._pods.get(pod)
        return counted is not None and counted.is_healthy

    def selected(self, namespace: str, selector: LabelSelector) -> list[PodGroup]:
        """The groups of a namespace that a selector matches."""
        candidates = self._groups_in.get(namespace, {})
        for label in required_labels(selector):
            with_label = self._groups_with.get(label_key(namespace, *label), {})
            candidates = min(candidates, with_label, key=len)
        return [group for group in candidates if matches(selector, group.labels)]

    def update(self, change: ObjectChange) -> None:
        """A pod was created, changed or deleted."""
        before = self._pods.pop(change.key, None)
        if change.new is None:
            if before is not None:
                self._remove(change.key, before)
            return
        group = self._group(change.new, before)
        ready, active = is_ready(change.new), is_active(change.new)
        healthy = ready and not is_deleting(change.new)
        after = CountedPod(group, controller_of(change.new), active, active and ready, healthy)
        if before is not None and before != after:
            self._remove(change.key, before)
        if before is None or before != after:
            self._add(change.key, after)
        self._pods[change.key] = after

    def _group(self, pod: Json, before: CountedPod | None) -> PodGroup:
        labels, namespace = labels_of(pod), pod["metadata"]["namespace"]
        if before is not None and before.group.labels == labels:
            return before.group
        key = namespace, frozenset(labels.items())
        group = self._groups.get(key)
        return group if group is not None else PodGroup(namespace, labels)

    def _add(self, pod: str, counted: CountedPod) -> None:
        group = counted.group
        if not group.pods:
            self._add_group(group)
        group.pods[pod] = None
        group.healthy += counted.is_healthy
        if counted.owner is not None:
            uid = counted.owner["uid"]
            count, _ = group.owners.get(uid, (0, None))
            group.owners[uid] = count + 1, counted.owner
            active, ready = self.owned_by(uid)
            self._owned[uid] = OwnedPodCounts(active + counted.is_active, ready + counted.is_ready)

    def _remove(self, pod: str, counted: CountedPod) -> None:
        group = counted.group
        del group.pods[pod]
        group.healthy -= counted.is_healthy
        if counted.owner is not None:
            uid = counted.owner["uid"]
            count, reference = group.owners.pop(uid)
            if count > 1:
                group.owners[uid] = count - 1, reference
            active, ready = self._owned.pop(uid)
            self._owned[uid] = OwnedPodCounts(active - counted.is_active, ready - counted.is_ready)
        if not group.pods:
            self._remove_group(group)

    def _add_group(self, group: PodGroup) -> None:
        self._groups[group.namespace, frozenset(group.labels.items())] = group
        self._groups_in.setdefault(group.namespace, {})[group] = None
        for pair in group.labels.items():
            self._groups_with.setdefault(label_key(group.namespace, *pair), {})[group] = None

    def _remove_group(self, group: PodGroup) -> None:
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
    """Labels that every match of the selector has."""
    single = [
        (requirement.key, requirement.values[0])
        for requirement in selector.match_expressions
        if requirement.operator == "In" and len(requirement.values) == 1
    ]
    return [*selector.match_labels.items(), *single]
