"""Deployments: one ReplicaSet per version, scaled so that a rollout disturbs as much as is allowed.

An application that is scaled in the middle of a rollout is scaled in proportion, as the real
controller does it; whatever else it does, it does one kind of step at a time and looks again.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from rescheduler.labels import POD_TEMPLATE_HASH
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
DESIRED = "deployment.kubernetes.io/desired-replicas"
MOST = "deployment.kubernetes.io/max-replicas"
REVISION = "deployment.kubernetes.io/revision"
KEPT_REVISIONS = 10
DEFAULT_PERCENT = "25%"


@dataclass
class OwnedReplicaSets:
    """The ReplicaSets of a Deployment: that of its template, if there is one, and the others."""

    new: Json | None
    old: list[Json]

    @property
    def all(self) -> list[Json]:
        """All of them."""
        return [*self.old, self.new] if self.new is not None else self.old


class DeploymentController(Controller):
    """Rolls out, scales, and tells how far it is."""

    def start_watching(self) -> None:
        self.watch("Deployment")
        self.store.listen("ReplicaSet", self._replica_set_changed)
        self.store.listen("Pod", self._pod_changed)

    def _replica_set_changed(self, change: ObjectChange) -> None:
        for each in (change.old, change.new):
            owner = controller_of(each) if each is not None else None
            if owner is not None and owner["kind"] == "Deployment":
                self.enqueue(f"{change.key.partition('/')[0]}/{owner['name']}")

    def _pod_changed(self, change: ObjectChange) -> None:
        """Of pods, only that the last of them is gone is news: one that recreates waits for it."""
        if change.new is not None or change.old is None:
            return
        owner = controller_of(change.old)
        if owner is not None and owner["kind"] == "ReplicaSet":
            namespace = change.key.partition("/")[0]
            found = self.store.get("ReplicaSet", f"{namespace}/{owner['name']}")
            above = controller_of(found) if found is not None else None
            if above is not None:
                self.enqueue(f"{namespace}/{above['name']}")

    def reconcile(self, key: str) -> None:
        deployment = self.store.get("Deployment", key)
        if deployment is None:
            return
        if not is_deleting(deployment):
            self._advance(deployment, self._versions(deployment))
        self._write_status(deployment)

    def _advance(self, deployment: Json, versions: OwnedReplicaSets) -> None:
        if deployment["spec"].get("paused") or self._is_being_scaled(deployment, versions):
            self._scale_all(deployment, versions)
        elif strategy_of(deployment) == "Recreate":
            self._recreate(deployment, versions)
        else:
            self._roll(deployment, versions)

    # ------------------------------------------------------------ versions

    def _versions(self, deployment: Json) -> OwnedReplicaSets:
        sets = self.store.all("ReplicaSet")
        owned = [sets[key] for key in self.indexes.owned["ReplicaSet"].keys(uid_of(deployment))]
        owned.sort(key=age)
        template = deployment["spec"].get("template")
        same = (each for each in owned if without_hash(each["spec"].get("template")) == template)
        new = next(same, None)
        return OwnedReplicaSets(new, [each for each in owned if each is not new])

    def _create_new(self, deployment: Json, versions: OwnedReplicaSets) -> Json:
        """The ReplicaSet of a template that has none yet."""
        template = deployment["spec"]["template"]
        word = hash_of(template)
        labels = {**template["metadata"].get("labels", {}), POD_TEMPLATE_HASH: word}
        selector = deployment["spec"]["selector"]
        matched = {**selector.get("matchLabels", {}), POD_TEMPLATE_HASH: word}
        revisions = [int(annotations_of(each).get(REVISION, 0)) for each in versions.old]
        metadata = {
            "name": f"{deployment['metadata']['name']}-{word}",
            "labels": labels,
            "annotations": {
                **self._sizes(deployment),
                REVISION: str(max(revisions, default=0) + 1),
            },
            "ownerReferences": [reference_to(deployment)],
        }
        spec = {
            "replicas": self._room_for_new(deployment, versions, 0),
            "selector": {**selector, "matchLabels": matched},
            "template": {**template, "metadata": {**template["metadata"], "labels": labels}},
        }
        if settle := deployment["spec"].get("minReadySeconds"):
            spec["minReadySeconds"] = settle
        namespace = deployment["metadata"]["namespace"]
        return self.registry.create(REPLICA_SETS, namespace, {"metadata": metadata, "spec": spec})

    # ------------------------------------------------------------ rolling out

    def _roll(self, deployment: Json, versions: OwnedReplicaSets) -> None:
        if versions.new is None:
            if deployment["spec"].get("template") is not None:
                self._create_new(deployment, versions)
            return
        have, wanted = replicas_of(versions.new), replicas_of(deployment)
        if have > wanted:
            self._scale(deployment, versions.new, wanted)
        elif have < wanted:
            room = self._room_for_new(deployment, versions, have)
            if room > have:
                self._scale(deployment, versions.new, room)
                return
        if not self._scale_down_old(deployment, versions):
            self._clean_up(deployment, versions)

    def _room_for_new(self, deployment: Json, versions: OwnedReplicaSets, have: int) -> int:
        """How many pods the new version may have now."""
        wanted = replicas_of(deployment)
        if strategy_of(deployment) == "Recreate":
            return wanted
        room = wanted + surge_of(deployment) - total(versions.all)
        return have + max(0, min(room, wanted - have))

    def _scale_down_old(self, deployment: Json, versions: OwnedReplicaSets) -> bool:
        """Take away pods of old versions: those that do not serve first, then as many as may be."""
        assert versions.new is not None
        old = [each for each in versions.old if replicas_of(each)]
        least = replicas_of(deployment) - unavailable_of(deployment)
        missing = replicas_of(versions.new) - available_in(versions.new)
        room = total(versions.all) - least - missing
        if not old or room <= 0:
            return False
        if any(available_in(each) > replicas_of(each) for each in old):
            # It has yet to be scaled down as asked: the real one gives up for this time, too.
            return False
        sizes = {key_of(each): replicas_of(each) for each in old}
        for each in old:
            unhealthy = min(room, replicas_of(each) - available_in(each))
            sizes[key_of(each)] -= unhealthy
            room -= unhealthy
        spare = sum(map(available_in, versions.all)) - least
        for each in old:
            goes = max(0, min(sizes[key_of(each)], spare))
            sizes[key_of(each)] -= goes
            spare -= goes
        for each in old:
            self._scale(deployment, each, sizes[key_of(each)])
        return any(sizes[key_of(each)] != replicas_of(each) for each in old)

    def _recreate(self, deployment: Json, versions: OwnedReplicaSets) -> None:
        old = [each for each in versions.old if replicas_of(each)]
        for each in old:
            self._scale(deployment, each, 0)
        if old or any(self._still_runs(each) for each in versions.old):
            return
        new = versions.new or self._create_new(deployment, versions)
        self._scale(deployment, new, replicas_of(deployment))
        self._clean_up(deployment, versions)

    def _still_runs(self, version: Json) -> bool:
        pods = self.indexes.pods_owned_by(uid_of(version))
        return bool(version["status"].get("replicas")) or not all(map(is_finished, pods))

    def _clean_up(self, deployment: Json, versions: OwnedReplicaSets) -> None:
        """Forget the oldest versions."""
        limit = deployment["spec"].get("revisionHistoryLimit", KEPT_REVISIONS)
        for each in versions.old[: max(0, len(versions.old) - limit)]:
            if not replicas_of(each) and not each["status"].get("replicas"):
                self.registry.delete(REPLICA_SETS, key_of(each))

    # ------------------------------------------------------------ scaling

    def _is_being_scaled(self, deployment: Json, versions: OwnedReplicaSets) -> bool:
        wanted = str(replicas_of(deployment))
        noted = [annotations_of(each).get(DESIRED) for each in versions.all if replicas_of(each)]
        return any(each is not None and each != wanted for each in noted)

    def _scale_all(self, deployment: Json, versions: OwnedReplicaSets) -> None:
        active = [each for each in versions.all if replicas_of(each)]
        if len(active) < 2:
            latest = [versions.new] if versions.new is not None else versions.old[-1:]
            for one in active or latest:
                self._scale(deployment, one, replicas_of(deployment))
        elif versions.new is not None and self._is_saturated(deployment, versions.new):
            for each in versions.old:
                self._scale(deployment, each, 0)
        elif strategy_of(deployment) != "Recreate":
            self._scale_in_proportion(deployment, active)

    def _is_saturated(self, deployment: Json, new: Json) -> bool:
        wanted = replicas_of(deployment)
        noted = annotations_of(new).get(DESIRED)
        return noted == str(wanted) and replicas_of(new) == wanted == available_in(new)

    def _scale_in_proportion(self, deployment: Json, active: list[Json]) -> None:
        wanted = replicas_of(deployment)
        allowed = wanted + surge_of(deployment) if wanted else 0
        to_add = allowed - total(active)
        # The newest of equals comes first when there is to be more, the oldest when less.
        order = sorted(active, key=age, reverse=to_add > 0)
        order.sort(key=replicas_of, reverse=True)
        added, sizes = 0, []
        for each in order:
            share = self._share(deployment, each, to_add, added)
            sizes.append(replicas_of(each) + share)
            added += share
        sizes[0] = max(0, sizes[0] + to_add - added)
        for each, size in zip(order, sizes, strict=True):
            self._scale(deployment, each, size, noting=True)

    def _share(self, deployment: Json, version: Json, to_add: int, added: int) -> int:
        have, wanted = replicas_of(version), replicas_of(deployment)
        if not to_add or to_add == added:
            return 0
        if not wanted:
            return -have
        before = int(annotations_of(version).get(MOST, 0)) or deployment["status"].get("replicas")
        if not before:
            return 0
        share = int(have * (wanted + surge_of(deployment)) / before + 0.5) - have
        return min(share, to_add - added) if to_add > 0 else max(share, to_add - added)

    def _scale(self, deployment: Json, version: Json, size: int, *, noting: bool = False) -> None:
        if size == replicas_of(version) and not noting:
            return
        annotations = {**annotations_of(version), **self._sizes(deployment)}
        self.registry.set_metadata("ReplicaSet", key_of(version), annotations=annotations)
        self.registry.set_spec("ReplicaSet", key_of(version), replicas=size)

    def _sizes(self, deployment: Json) -> dict[str, str]:
        wanted = replicas_of(deployment)
        return {DESIRED: str(wanted), MOST: str(wanted + surge_of(deployment))}

    # ------------------------------------------------------------ telling

    def _write_status(self, deployment: Json) -> None:
        versions = self._versions(deployment)
        there = [each["status"] for each in versions.all]
        new = versions.new["status"].get("replicas", 0) if versions.new is not None else 0
        available = sum(each.get("availableReplicas", 0) for each in there)
        status = {
            **deployment["status"],
            "observedGeneration": deployment["metadata"]["generation"],
            "replicas": sum(each.get("replicas", 0) for each in there),
            "updatedReplicas": new,
            "readyReplicas": sum(each.get("readyReplicas", 0) for each in there),
            "availableReplicas": available,
            "unavailableReplicas": max(0, total(versions.all) - available),
        }
        least = replicas_of(deployment) - unavailable_of(deployment)
        is_enough = "True" if available >= least else "False"
        state = condition("Available", is_enough, self.registry.now())
        self.registry.set_status("Deployment", key_of(deployment), with_conditions(status, [state]))


def strategy_of(deployment: Json) -> str:
    """How it replaces its pods."""
    kind: str = deployment["spec"].get("strategy", {}).get("type", "RollingUpdate")
    return kind


def surge_of(deployment: Json) -> int:
    """How many pods more than it wants it may have in a rollout."""
    if strategy_of(deployment) == "Recreate":
        return 0
    rolling = deployment["spec"].get("strategy", {}).get("rollingUpdate") or {}
    asked = rolling.get("maxSurge", DEFAULT_PERCENT)
    return scaled_value(asked, replicas_of(deployment), round_up=True)


def unavailable_of(deployment: Json) -> int:
    """How many pods fewer than it wants it may have in a rollout."""
    wanted = replicas_of(deployment)
    if strategy_of(deployment) == "Recreate" or not wanted:
        return 0
    rolling = deployment["spec"].get("strategy", {}).get("rollingUpdate") or {}
    asked = scaled_value(rolling.get("maxUnavailable", DEFAULT_PERCENT), wanted, round_up=False)
    if not asked and not surge_of(deployment):
        return 1
    return min(asked, wanted)


def total(versions: Iterable[Json]) -> int:
    """How many pods these are to have."""
    return sum(map(replicas_of, versions))


def available_in(version: Json) -> int:
    """How many of its pods serve."""
    count: int = version["status"].get("availableReplicas", 0)
    return count


def age(version: Json) -> tuple[str, str]:
    """By which the oldest comes first."""
    metadata = version["metadata"]
    return metadata.get("creationTimestamp", ""), metadata["name"]


def without_hash(template: Json | None) -> Json | None:
    """A ReplicaSet's template as its Deployment has it."""
    if template is None:
        return None
    labels = {**(template.get("metadata") or {}).get("labels", {})}
    labels.pop(POD_TEMPLATE_HASH, None)
    metadata = {**(template.get("metadata") or {}), "labels": labels}
    return {**template, "metadata": metadata}
