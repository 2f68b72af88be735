"""Disruption budgets: how many pods of an application may be missing now."""

from datetime import timedelta

from rescheduler.simulation.controllers.worker import Worker, replicas_of
from rescheduler.simulation.objects import (
    Json,
    controller_of,
    is_deleting,
    is_ready,
    key_of,
    matches_labels,
    moment_of,
    scaled,
)
from rescheduler.simulation.store import Change

# A pod that was to be evicted and is still there by then was not evicted.
EVICTED_WITHIN = timedelta(minutes=2)
SCALABLE = ("ReplicaSet", "ReplicationController", "StatefulSet")


class Unscalable(Exception):
    """A pod's controller has no number of pods that it wants."""


class Budgets(Worker):
    """Counts healthy pods. Of two budgets for a pod only one hears of its changes, as is real."""

    def watches(self) -> None:
        self.follow("PodDisruptionBudget")
        self.store.listen("Pod", self._pod_changed)

    def _pod_changed(self, change: Change) -> None:
        for pod in (change.old, change.new):
            if pod is not None:
                self._want_for(pod)

    def _want_for(self, pod: Json) -> None:
        for budget in self.indexes.objects_in("PodDisruptionBudget", pod["metadata"]["namespace"]):
            selector = budget["spec"].get("selector")
            if selector is not None and matches_labels(self.registry.selectors.of(selector), pod):
                self.want(key_of(budget))
                return

    def look_at(self, key: str) -> None:
        budget = self.store.get("PodDisruptionBudget", key)
        if budget is None:
            return
        selector = budget["spec"].get("selector")
        namespace = budget["metadata"]["namespace"]
        pods = []
        if selector is not None:
            pods = self.indexes.selected_pods(namespace, self.registry.selectors.of(selector))
        try:
            expected, desired = self._expected(budget, pods)
        except Unscalable:
            status = {**budget["status"], "disruptionsAllowed": 0}
            status["observedGeneration"] = budget["metadata"]["generation"]
            self.registry.set_status("PodDisruptionBudget", key, status)
            return
        self._write(budget, pods, expected, desired)

    def _write(self, budget: Json, pods: list[Json], expected: int, desired: int) -> None:
        disrupted = self._disrupted(budget, pods)
        healthy = sum(
            is_ready(pod) and not is_deleting(pod) and pod["metadata"]["name"] not in disrupted
            for pod in pods
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

    def _disrupted(self, budget: Json, pods: list[Json]) -> dict[str, str]:
        """The pods that are as good as evicted."""
        noted = budget["status"].get("disruptedPods")
        if not noted:
            return {}
        there = {pod["metadata"]["name"] for pod in pods if not is_deleting(pod)}
        ends = {name: moment_of(since) + EVICTED_WITHIN for name, since in noted.items()}
        now = self.clock.now()
        kept = {name: noted[name] for name in noted if name in there and ends[name] >= now}
        if kept:
            left = min(ends[name] for name in kept) - now
            self.want_after(key_of(budget), left.total_seconds() + 1)
        return kept

    def _expected(self, budget: Json, pods: list[Json]) -> tuple[int, int]:
        """How many pods there should be, and how many of them have to be healthy."""
        spec = budget["spec"]
        if (most := spec.get("maxUnavailable")) is not None:
            expected = self._scale(pods)
            return expected, max(0, expected - scaled(most, expected, round_up=True))
        least = spec.get("minAvailable", 0)
        if isinstance(least, int):
            return len(pods), least
        expected = self._scale(pods)
        return expected, scaled(least, expected, round_up=True)

    def _scale(self, pods: list[Json]) -> int:
        """How many pods their controllers want together."""
        scales: dict[str, int] = {}
        for pod in pods:
            owner = controller_of(pod)
            if owner is not None and owner["uid"] not in scales:
                uid, wanted = self._wanted_by(owner, pod["metadata"]["namespace"])
                scales[uid] = wanted
        return sum(scales.values())

    def _wanted_by(self, owner: Json, namespace: str) -> tuple[str, int]:
        found = None
        if owner["kind"] in SCALABLE:
            found = self.store.get(owner["kind"], f"{namespace}/{owner['name']}")
        if found is None or found["metadata"]["uid"] != owner["uid"]:
            raise Unscalable
        above = controller_of(found)
        if above is not None and above["kind"] == "Deployment":
            deployment = self.store.get("Deployment", f"{namespace}/{above['name']}")
            if deployment is not None:
                return above["uid"], replicas_of(deployment)
        return owner["uid"], replicas_of(found)
