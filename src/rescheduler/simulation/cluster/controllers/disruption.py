"""PodDisruptionBudgets: how many more pods may be disrupted now."""

from collections.abc import Mapping
from datetime import timedelta

from rescheduler.model.selectors import matches
from rescheduler.simulation.cluster.controllers.base import (
    Controller,
    ControllerContext,
    replicas_of,
)
from rescheduler.simulation.cluster.json_objects import (
    Json,
    controller_of,
    is_deleting,
    key_of,
    labels_of,
    parse_time,
    scaled_value,
)
from rescheduler.simulation.cluster.object_store import ObjectChange
from rescheduler.simulation.cluster.pod_counts import PodGroup

# A disrupted pod that is not deleted by then was not evicted.
DISRUPTION_TIMEOUT = timedelta(minutes=2)
SCALABLE = ("ReplicaSet", "ReplicationController", "StatefulSet")
CACHE_SIZE = 1000


class Unscalable(Exception):
    """A pod's controller has no replica count."""


class DisruptionController(Controller):
    """Keeps statuses up to date. As in Kubernetes, a pod's changes update only one budget."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._budget_for: dict[str, dict[frozenset[tuple[str, str]], str]] = {}

    def start_watching(self) -> None:
        self.store.listen("PodDisruptionBudget", self._budget_changed)
        self.watch("PodDisruptionBudget", with_status=True)
        self.store.listen("Pod", self._pod_changed)

    # ------------------------------------------------------------ the budget of a pod

    def _budget_changed(self, change: ObjectChange) -> None:
        old, new = change.old, change.new
        if old is None or new is None or old["spec"] is not new["spec"]:
            self._budget_for.pop(change.key.partition("/")[0], None)

    def _pod_changed(self, change: ObjectChange) -> None:
        old, new = change.old, change.new
        if old is not None and (new is None or labels_of(old) != labels_of(new)):
            self._enqueue_for(old)
        if new is not None:
            self._enqueue_for(new)

    def _enqueue_for(self, pod: Json) -> None:
        budget = self._first_for(pod["metadata"]["namespace"], labels_of(pod))
        if budget:
            self.enqueue(budget)

    def _first_for(self, namespace: str, labels: Mapping[str, str]) -> str:
        """The key of the first budget that selects these labels, or empty."""
        known = self._budget_for.setdefault(namespace, {})
        labels_key = frozenset(labels.items())
        found = known.get(labels_key)
        if found is None:
            if len(known) > CACHE_SIZE:
                known.clear()
            found = known[labels_key] = self._find(namespace, labels)
        return found

    def _find(self, namespace: str, labels: Mapping[str, str]) -> str:
        for budget in self.indexes.objects_in("PodDisruptionBudget", namespace):
            selector = budget["spec"].get("selector")
            if selector is not None and matches(self.registry.selectors.of(selector), labels):
                return key_of(budget)
        return ""

    # ------------------------------------------------------------ one budget

    def reconcile(self, key: str) -> None:
        budget = self.store.get("PodDisruptionBudget", key)
        if budget is None:
            return
        selector = budget["spec"].get("selector")
        namespace = budget["metadata"]["namespace"]
        groups = []
        if selector is not None:
            groups = self.indexes.pod_counts.selected(
                namespace, self.registry.selectors.of(selector)
            )
        try:
            expected, desired = self._expected(budget, groups)
        except Unscalable:
            # The expected number of pods is not known, so no disruption is allowed.
            status = {**budget["status"], "disruptionsAllowed": 0}
            status["observedGeneration"] = budget["metadata"]["generation"]
            self.registry.set_status("PodDisruptionBudget", key, status)
            return
        self._write_status(budget, groups, expected, desired)

    def _write_status(
        self, budget: Json, groups: list[PodGroup], expected: int, desired: int
    ) -> None:
        disrupted = self._disrupted(budget)
        namespace = budget["metadata"]["namespace"]
        healthy = sum(group.healthy for group in groups)
        healthy -= sum(
            self.indexes.pod_counts.is_healthy(f"{namespace}/{name}") for name in disrupted
        )
        status = {
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "expectedPods": expected,
            "disruptionsAllowed": max(0, healthy - desired) if expected > 0 else 0,
            "observedGeneration": budget["metadata"]["generation"],
        }
        if disrupted:
            status["disruptedPods"] = disrupted
        self.registry.set_status("PodDisruptionBudget", key_of(budget), status)

    def _disrupted(self, budget: Json) -> dict[str, str]:
        """Pods whose eviction was allowed and that are not deleted yet, with the time."""
        noted = budget["status"].get("disruptedPods")
        if not noted:
            return {}
        namespace = budget["metadata"]["namespace"]
        pods = {name: self.store.get("Pod", f"{namespace}/{name}") for name in noted}
        present = [name for name, pod in pods.items() if pod is not None and not is_deleting(pod)]
        ends = {name: parse_time(noted[name]) + DISRUPTION_TIMEOUT for name in present}
        now = self.clock.now()
        kept = {name: noted[name] for name in present if ends[name] >= now}
        if kept:
            left = min(ends[name] for name in kept) - now
            self.enqueue_after(key_of(budget), left.total_seconds() + 1)
        return kept

    def _expected(self, budget: Json, groups: list[PodGroup]) -> tuple[int, int]:
        """The expected number of pods, and how many of them must be healthy."""
        spec = budget["spec"]
        if (max_unavailable := spec.get("maxUnavailable")) is not None:
            expected = self._scale(groups)
            return expected, max(
                0, expected - scaled_value(max_unavailable, expected, round_up=True)
            )
        min_available = spec.get("minAvailable", 0)
        if isinstance(min_available, int):
            return sum(len(group.pods) for group in groups), min_available
        expected = self._scale(groups)
        return expected, scaled_value(min_available, expected, round_up=True)

    def _scale(self, groups: list[PodGroup]) -> int:
        """The desired replicas of the pods' controllers together."""
        scales: dict[str, int] = {}
        for group in groups:
            for _, owner in group.owners.values():
                uid, replicas = self._replicas_of(owner, group.namespace)
                scales[uid] = replicas
        return sum(scales.values())

    def _replicas_of(self, owner: Json, namespace: str) -> tuple[str, int]:
        found = None
        if owner["kind"] in SCALABLE:
            found = self.store.get(owner["kind"], f"{namespace}/{owner['name']}")
        if found is None or found["metadata"]["uid"] != owner["uid"]:
            raise Unscalable
        reference = controller_of(found)
        if reference is not None and reference["kind"] == "Deployment":
            deployment = self.store.get("Deployment", f"{namespace}/{reference['name']}")
            if deployment is not None:
                return reference["uid"], replicas_of(deployment)
        return owner["uid"], replicas_of(found)
