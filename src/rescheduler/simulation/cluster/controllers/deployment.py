"""Deployments: one ReplicaSet per version, scaled within maxSurge and maxUnavailable.

A Deployment that is scaled during a rollout is scaled in proportion, as by the real controller.
One reconciliation makes one kind of step.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from rescheduler.labels import (
    DEPLOYMENT_DESIRED_REPLICAS,
    DEPLOYMENT_MAX_REPLICAS,
    DEPLOYMENT_REVISION,
    POD_TEMPLATE_HASH,
)
from rescheduler.simulation.cluster.controllers.base import Controller, replicas_of
from rescheduler.simulation.cluster.controllers.revisions import hash_of
from rescheduler.simulation.cluster.json_objects import (
    Json,
    annotations_of,
    condition,
    controller_of,
    is_deleting,
    is_finished,
    key_of,
    reference_to,
    scaled_value,
    uid_of,
    with_conditions,
)
from rescheduler.simulation.cluster.object_store import ObjectChange
from rescheduler.simulation.cluster.resources import BY_NAME

REPLICA_SETS = BY_NAME["ReplicaSet"]
DEFAULT_HISTORY_LIMIT = 10
DEFAULT_SHARE = "25%"


@dataclass
class OwnedReplicaSets:
    """The ReplicaSets of a Deployment: that of its current template, if it exists, and others."""

    new: Json | None
    old: list[Json]

    @property
    def all(self) -> list[Json]:
        """The old ones first: the new one, if it exists, is the last."""
        return [*self.old, self.new] if self.new is not None else self.old


class DeploymentController(Controller):
    """Rolls out and scales Deployments, and writes their status."""

    def start_watching(self) -> None:
        self.watch("Deployment")
        self.store.listen("ReplicaSet", self._replica_set_changed)
        self.store.listen("Pod", self._pod_changed)

    def _replica_set_changed(self, change: ObjectChange) -> None:
        for replica_set in (change.old, change.new):
            owner = controller_of(replica_set) if replica_set is not None else None
            if owner is not None and owner["kind"] == "Deployment":
                self.enqueue(f"{change.key.partition('/')[0]}/{owner['name']}")

    def _pod_changed(self, change: ObjectChange) -> None:
        """Only deleted pods matter: with strategy Recreate, a Deployment waits for the last."""
        if change.new is not None or change.old is None:
            return
        owner = controller_of(change.old)
        if owner is not None and owner["kind"] == "ReplicaSet":
            namespace = change.key.partition("/")[0]
            found = self.store.get("ReplicaSet", f"{namespace}/{owner['name']}")
            deployment = controller_of(found) if found is not None else None
            if deployment is not None:
                self.enqueue(f"{namespace}/{deployment['name']}")

    def reconcile(self, key: str) -> None:
        deployment = self.store.get("Deployment", key)
        if deployment is None:
            return
        if not is_deleting(deployment):
            self._advance(deployment, self._owned(deployment))
        self._write_status(deployment)

    def _advance(self, deployment: Json, owned: OwnedReplicaSets) -> None:
        if deployment["spec"].get("paused") or self._is_being_scaled(deployment, owned):
            self._scale_all(deployment, owned)
        elif strategy_of(deployment) == "Recreate":
            self._recreate(deployment, owned)
        else:
            self._roll(deployment, owned)

    # ------------------------------------------------------------ ReplicaSets

    def _owned(self, deployment: Json) -> OwnedReplicaSets:
        by_key = self.store.all("ReplicaSet")
        keys = self.indexes.owned["ReplicaSet"].keys(uid_of(deployment))
        oldest_first = sorted((by_key[key] for key in keys), key=age)
        template = deployment["spec"].get("template")
        current = (
            replica_set
            for replica_set in oldest_first
            if without_hash(replica_set["spec"].get("template")) == template
        )
        new = next(current, None)
        return OwnedReplicaSets(new, [found for found in oldest_first if found is not new])

    def _create_new(self, deployment: Json, owned: OwnedReplicaSets) -> Json:
        """Create the ReplicaSet of the current template."""
        template = deployment["spec"]["template"]
        template_hash = hash_of(template)
        labels = {**template["metadata"].get("labels", {}), POD_TEMPLATE_HASH: template_hash}
        selector = deployment["spec"]["selector"]
        matched = {**selector.get("matchLabels", {}), POD_TEMPLATE_HASH: template_hash}
        revisions = [
            int(annotations_of(replica_set).get(DEPLOYMENT_REVISION, 0))
            for replica_set in owned.old
        ]
        metadata = {
            "name": f"{deployment['metadata']['name']}-{template_hash}",
            "labels": labels,
            "annotations": {
                **self._sizes(deployment),
                DEPLOYMENT_REVISION: str(max(revisions, default=0) + 1),
            },
            "ownerReferences": [reference_to(deployment)],
        }
        spec = {
            "replicas": self._replicas_of_new(deployment, owned, 0),
            "selector": {**selector, "matchLabels": matched},
            "template": {**template, "metadata": {**template["metadata"], "labels": labels}},
        }
        if min_ready := deployment["spec"].get("minReadySeconds"):
            spec["minReadySeconds"] = min_ready
        namespace = deployment["metadata"]["namespace"]
        return self.registry.create(REPLICA_SETS, namespace, {"metadata": metadata, "spec": spec})

    # ------------------------------------------------------------ rolling out

    def _roll(self, deployment: Json, owned: OwnedReplicaSets) -> None:
        if owned.new is None:
            if deployment["spec"].get("template") is not None:
                self._create_new(deployment, owned)
            return
        current, desired = replicas_of(owned.new), replicas_of(deployment)
        if current > desired:
            self._scale(deployment, owned.new, desired)
        elif current < desired:
            allowed = self._replicas_of_new(deployment, owned, current)
            if allowed > current:
                self._scale(deployment, owned.new, allowed)
                return
        if not self._scale_down_old(deployment, owned):
            self._clean_up(deployment, owned)

    def _replicas_of_new(self, deployment: Json, owned: OwnedReplicaSets, current: int) -> int:
        """How many replicas the new ReplicaSet may have now, within maxSurge."""
        desired = replicas_of(deployment)
        if strategy_of(deployment) == "Recreate":
            return desired
        room = desired + surge_of(deployment) - total(owned.all)
        return current + max(0, min(room, desired - current))

    def _scale_down_old(self, deployment: Json, owned: OwnedReplicaSets) -> bool:
        """Scale down old ReplicaSets: unhealthy pods first, then within maxUnavailable."""
        assert owned.new is not None
        old = [replica_set for replica_set in owned.old if replicas_of(replica_set)]
        min_available = replicas_of(deployment) - unavailable_of(deployment)
        missing = replicas_of(owned.new) - available_in(owned.new)
        room = total(owned.all) - min_available - missing
        if not old or room <= 0:
            return False
        if any(available_in(replica_set) > replicas_of(replica_set) for replica_set in old):
            # A scale-down is not finished yet: like the real controller, wait for it.
            return False
        sizes = {key_of(replica_set): replicas_of(replica_set) for replica_set in old}
        for replica_set in old:
            unhealthy = min(room, replicas_of(replica_set) - available_in(replica_set))
            sizes[key_of(replica_set)] -= unhealthy
            room -= unhealthy
        spare = sum(map(available_in, owned.all)) - min_available
        for replica_set in old:
            removed = max(0, min(sizes[key_of(replica_set)], spare))
            sizes[key_of(replica_set)] -= removed
            spare -= removed
        for replica_set in old:
            self._scale(deployment, replica_set, sizes[key_of(replica_set)])
        return any(sizes[key_of(replica_set)] != replicas_of(replica_set) for replica_set in old)

    def _recreate(self, deployment: Json, owned: OwnedReplicaSets) -> None:
        old = [replica_set for replica_set in owned.old if replicas_of(replica_set)]
        for replica_set in old:
            self._scale(deployment, replica_set, 0)
        if old or any(self._has_pods(replica_set) for replica_set in owned.old):
            return
        new = owned.new or self._create_new(deployment, owned)
        self._scale(deployment, new, replicas_of(deployment))
        self._clean_up(deployment, owned)

    def _has_pods(self, replica_set: Json) -> bool:
        pods = self.indexes.pods_owned_by(uid_of(replica_set))
        return bool(replica_set["status"].get("replicas")) or not all(map(is_finished, pods))

    def _clean_up(self, deployment: Json, owned: OwnedReplicaSets) -> None:
        """Delete the oldest ReplicaSets beyond the history limit."""
        limit = deployment["spec"].get("revisionHistoryLimit", DEFAULT_HISTORY_LIMIT)
        for replica_set in owned.old[: max(0, len(owned.old) - limit)]:
            if not replicas_of(replica_set) and not replica_set["status"].get("replicas"):
                self.registry.delete(REPLICA_SETS, key_of(replica_set))

    # ------------------------------------------------------------ scaling

    def _is_being_scaled(self, deployment: Json, owned: OwnedReplicaSets) -> bool:
        desired = str(replicas_of(deployment))
        noted = [
            annotations_of(replica_set).get(DEPLOYMENT_DESIRED_REPLICAS)
            for replica_set in owned.all
            if replicas_of(replica_set)
        ]
        return any(count is not None and count != desired for count in noted)

    def _scale_all(self, deployment: Json, owned: OwnedReplicaSets) -> None:
        active = [replica_set for replica_set in owned.all if replicas_of(replica_set)]
        if len(active) < 2:
            latest = [owned.new] if owned.new is not None else owned.old[-1:]
            for replica_set in active or latest:
                self._scale(deployment, replica_set, replicas_of(deployment))
        elif owned.new is not None and self._is_saturated(deployment, owned.new):
            for replica_set in owned.old:
                self._scale(deployment, replica_set, 0)
        elif strategy_of(deployment) != "Recreate":
            self._scale_in_proportion(deployment, active)

    def _is_saturated(self, deployment: Json, new: Json) -> bool:
        desired = replicas_of(deployment)
        noted = annotations_of(new).get(DEPLOYMENT_DESIRED_REPLICAS)
        return noted == str(desired) and replicas_of(new) == desired == available_in(new)

    def _scale_in_proportion(self, deployment: Json, active: list[Json]) -> None:
        desired = replicas_of(deployment)
        allowed = desired + surge_of(deployment) if desired else 0
        to_add = allowed - total(active)
        # Of equal sizes, the newest comes first when scaling up, the oldest when scaling down.
        order = sorted(active, key=age, reverse=to_add > 0)
        order.sort(key=replicas_of, reverse=True)
        added, sizes = 0, []
        for replica_set in order:
            share = self._share(deployment, replica_set, to_add, added)
            sizes.append(replicas_of(replica_set) + share)
            added += share
        sizes[0] = max(0, sizes[0] + to_add - added)
        for replica_set, size in zip(order, sizes, strict=True):
            self._scale(deployment, replica_set, size, always=True)

    def _share(self, deployment: Json, replica_set: Json, to_add: int, added: int) -> int:
        current, desired = replicas_of(replica_set), replicas_of(deployment)
        if not to_add or to_add == added:
            return 0
        if not desired:
            return -current
        before = int(annotations_of(replica_set).get(DEPLOYMENT_MAX_REPLICAS, 0)) or deployment[
            "status"
        ].get("replicas")
        if not before:
            return 0
        share = int(current * (desired + surge_of(deployment)) / before + 0.5) - current
        return min(share, to_add - added) if to_add > 0 else max(share, to_add - added)

    def _scale(
        self, deployment: Json, replica_set: Json, size: int, *, always: bool = False
    ) -> None:
        if size == replicas_of(replica_set) and not always:
            return
        annotations = {**annotations_of(replica_set), **self._sizes(deployment)}
        self.registry.set_metadata("ReplicaSet", key_of(replica_set), annotations=annotations)
        self.registry.set_spec("ReplicaSet", key_of(replica_set), replicas=size)

    def _sizes(self, deployment: Json) -> dict[str, str]:
        desired = replicas_of(deployment)
        return {
            DEPLOYMENT_DESIRED_REPLICAS: str(desired),
            DEPLOYMENT_MAX_REPLICAS: str(desired + surge_of(deployment)),
        }

    # ------------------------------------------------------------ status

    def _write_status(self, deployment: Json) -> None:
        owned = self._owned(deployment)
        statuses = [replica_set["status"] for replica_set in owned.all]
        new = owned.new["status"].get("replicas", 0) if owned.new is not None else 0
        available = sum(status.get("availableReplicas", 0) for status in statuses)
        status = {
            **deployment["status"],
            "observedGeneration": deployment["metadata"]["generation"],
            "replicas": sum(status.get("replicas", 0) for status in statuses),
            "updatedReplicas": new,
            "readyReplicas": sum(status.get("readyReplicas", 0) for status in statuses),
            "availableReplicas": available,
            "unavailableReplicas": max(0, total(owned.all) - available),
        }
        min_available = replicas_of(deployment) - unavailable_of(deployment)
        is_enough = "True" if available >= min_available else "False"
        state = condition("Available", is_enough, self.registry.now())
        self.registry.set_status("Deployment", key_of(deployment), with_conditions(status, [state]))


def strategy_of(deployment: Json) -> str:
    """The type of its rollout strategy."""
    kind: str = deployment["spec"].get("strategy", {}).get("type", "RollingUpdate")
    return kind


def surge_of(deployment: Json) -> int:
    """maxSurge as a number of pods."""
    if strategy_of(deployment) == "Recreate":
        return 0
    rolling = deployment["spec"].get("strategy", {}).get("rollingUpdate") or {}
    surge = rolling.get("maxSurge", DEFAULT_SHARE)
    return scaled_value(surge, replicas_of(deployment), round_up=True)


def unavailable_of(deployment: Json) -> int:
    """maxUnavailable as a number of pods; 1 if both it and maxSurge are 0."""
    desired = replicas_of(deployment)
    if strategy_of(deployment) == "Recreate" or not desired:
        return 0
    rolling = deployment["spec"].get("strategy", {}).get("rollingUpdate") or {}
    share = rolling.get("maxUnavailable", DEFAULT_SHARE)
    unavailable = scaled_value(share, desired, round_up=False)
    if not unavailable and not surge_of(deployment):
        return 1
    return min(unavailable, desired)


def total(replica_sets: Iterable[Json]) -> int:
    """The desired replicas of these together."""
    return sum(map(replicas_of, replica_sets))


def available_in(replica_set: Json) -> int:
    """Its available replicas."""
    count: int = replica_set["status"].get("availableReplicas", 0)
    return count


def age(replica_set: Json) -> tuple[str, str]:
    """A sort key by which the oldest comes first."""
    metadata = replica_set["metadata"]
    return metadata.get("creationTimestamp", ""), metadata["name"]


def without_hash(template: Json | None) -> Json | None:
    """A ReplicaSet's template without the hash label, as its Deployment has it."""
    if template is None:
        return None
    labels = {**(template.get("metadata") or {}).get("labels", {})}
    labels.pop(POD_TEMPLATE_HASH, None)
    metadata = {**(template.get("metadata") or {}), "labels": labels}
    return {**template, "metadata": metadata}
