"""Adds to a cluster from a file what controllers need and planning does not.

A file has what planning reads. To be simulated, a cluster also needs the pod templates of workloads
and every owner that pods name. What is missing is derived from the objects in the file, mostly from
a workload's pods. What had to be assumed is returned as notes for people.
"""

import copy
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from uuid import UUID

from rescheduler.labels import (
    JOB_COMPLETION_INDEX,
    JOB_CONTROLLER_UID,
    JOB_NAME,
    MIGRATION_LABELS,
    OLD_JOB_CONTROLLER_UID,
    OLD_JOB_NAME,
    ORIGINAL_POD,
    POD_TEMPLATE_GENERATION,
    POD_TEMPLATE_HASH,
    PREVIOUS_MARKS,
    REVISION_HASH,
    STATEFUL_SET_POD_INDEX,
    STATEFUL_SET_POD_NAME,
    STEERED_BY,
)
from rescheduler.migration.migration_labels import ANNOTATIONS
from rescheduler.model.rules.placing_affinity import is_new_pod, without_pin, without_steering
from rescheduler.simulation.cluster.json_objects import (
    Json,
    controller_of,
    format_time,
    is_deleting,
    is_finished,
    key_of,
    labels_of,
    parse_time,
    reference_to,
)
from rescheduler.simulation.scenario.object_builders import namespace_body

LONG_AGO = "2025-01-01T00:00:00Z"
API_VERSIONS = {
    "Deployment": "apps/v1",
    "ReplicaSet": "apps/v1",
    "StatefulSet": "apps/v1",
    "DaemonSet": "apps/v1",
    "ReplicationController": "v1",
    "Job": "batch/v1",
}
# Labels that controllers write on single pods, which are not in the template.
LABELS_BY_CONTROLLERS = (
    STATEFUL_SET_POD_NAME,
    STATEFUL_SET_POD_INDEX,
    REVISION_HASH,
    POD_TEMPLATE_GENERATION,
    JOB_CONTROLLER_UID,
    JOB_NAME,
    JOB_COMPLETION_INDEX,
    OLD_JOB_CONTROLLER_UID,
    OLD_JOB_NAME,
    *MIGRATION_LABELS,
)
PARTS = ("spec", "status")
KINDS_WITHOUT_PARTS = ("Namespace", "PriorityClass", "StorageClass", "CSINode", "CSIDriver")
NAME_FIELD = "metadata.name"


@dataclass(frozen=True)
class CompletedCluster:
    """A cluster that can be simulated, and what had to be assumed for that."""

    objects: list[Json]
    notes: tuple[str, ...]
    start: datetime
    """The midnight after its newest object was created."""


def complete_cluster(objects: Iterable[Json]) -> CompletedCluster:
    """The cluster with templates, owners and namespaces added."""
    return _ClusterCompletion(objects).result()


class _ClusterCompletion:
    def __init__(self, objects: Iterable[Json]) -> None:
        self._by_kind: dict[str, dict[str, Json]] = defaultdict(dict)
        self._counts: Counter[str] = Counter()
        for value in objects:
            self._by_kind[value["kind"]][key_of(value)] = with_identity(value)

    def result(self) -> CompletedCluster:
        self._leave_out_finished_pods()
        self._leave_out_pods_without_their_node()
        self._add_owners()
        for kind in ("ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController", "Job"):
            self._add_templates(kind)
        self._add_deployment_templates()
        self._add_namespaces()
        objects = [value for by_key in self._by_kind.values() for value in by_key.values()]
        return CompletedCluster(objects, tuple(self._notes_for_people()), start_after(objects))

    # ------------------------------------------------------------ pods

    def _leave_out_finished_pods(self) -> None:
        pods = self._by_kind["Pod"]
        for key, pod in list(pods.items()):
            if is_finished(pod) or is_deleting(pod):
                del pods[key]
                self._counts["pods"] += 1
            else:
                pods[key] = with_times(pod)

    def _leave_out_pods_without_their_node(self) -> None:
        """Kubernetes would delete these pods at once; their owners replace them."""
        pods, nodes = self._by_kind["Pod"], self._by_kind["Node"]
        for key, pod in list(pods.items()):
            if (node := pod["spec"].get("nodeName")) and node not in nodes:
                del pods[key]
                self._counts["pods on missing nodes"] += 1

    def _add_owners(self) -> None:
        """Add owners that pods and ReplicaSets name, and make references name their uids."""
        for key, pod in list(self._by_kind["Pod"].items()):
            self._by_kind["Pod"][key] = self._with_owner(pod)
        for key, replica_set in list(self._by_kind["ReplicaSet"].items()):
            self._by_kind["ReplicaSet"][key] = self._with_owner(replica_set)

    def _with_owner(self, value: Json) -> Json:
        reference = controller_of(value)
        if reference is None:
            return value
        kind, namespace = reference["kind"], value["metadata"]["namespace"]
        if kind not in API_VERSIONS:
            if kind != "Node":
                self._counts[f"owners of kind {kind}"] += 1
            return without_owner(value)
        key = f"{namespace}/{reference['name']}"
        if key not in self._by_kind[kind]:
            self._by_kind[kind][key] = self._missing_owner(kind, key, reference, value)
            self._counts[kind] += 1
        owner = self._by_kind[kind][key]
        return with_metadata(value, ownerReferences=[reference_to(owner)])

    def _missing_owner(self, kind: str, key: str, reference: Json, owned: Json) -> Json:
        namespace, _, name = key.partition("/")
        metadata: Json = {"name": name, "namespace": namespace, "creationTimestamp": LONG_AGO}
        metadata["uid"] = reference.get("uid") or uid_for(kind, key)
        owner: Json = {
            "apiVersion": API_VERSIONS[kind],
            "kind": kind,
            "metadata": metadata,
            "spec": {},
        }
        template_hash = labels_of(owned).get(POD_TEMPLATE_HASH)
        if kind == "ReplicaSet" and template_hash and name.endswith(f"-{template_hash}"):
            deployment_key = f"{namespace}/{name.removesuffix(f'-{template_hash}')}"
            owner["metadata"]["labels"] = dict(labels_of(owned))
            deployment = self._by_kind["Deployment"].get(deployment_key)
            if deployment is None:
                reference = {"uid": ""}
                deployment = self._missing_owner("Deployment", deployment_key, reference, owner)
                self._by_kind["Deployment"][deployment_key] = deployment
                self._counts["Deployment"] += 1
            owner["metadata"]["ownerReferences"] = [reference_to(deployment)]
        return owner

    # ------------------------------------------------------------ templates

    def _add_templates(self, kind: str) -> None:
        pods = defaultdict(list)
        for pod in self._by_kind["Pod"].values():
            if (owner := controller_of(pod)) is not None and owner["kind"] == kind:
                pods[owner["uid"]].append(pod)
        for key, owner in list(self._by_kind[kind].items()):
            own_pods = pods[owner["metadata"]["uid"]]
            if has_template(owner):
                self._by_kind[kind][key] = with_counts(owner, len(own_pods))
            elif own_pods:
                self._by_kind[kind][key] = with_template(owner, own_pods)
            else:
                del self._by_kind[kind][key]
                if (owner.get("spec") or {}).get("replicas", 1):
                    self._counts[f"{kind}s without pods"] += 1

    def _add_deployment_templates(self) -> None:
        replica_sets = defaultdict(list)
        for replica_set in self._by_kind["ReplicaSet"].values():
            if (owner := controller_of(replica_set)) is not None:
                replica_sets[owner["uid"]].append(replica_set)
        for key, deployment in list(self._by_kind["Deployment"].items()):
            own = replica_sets[deployment["metadata"]["uid"]]
            if not own and not has_template(deployment):
                del self._by_kind["Deployment"][key]
                self._counts["Deployments without pods"] += 1
            elif own:
                self._by_kind["Deployment"][key] = with_newest_template(deployment, own)

    def _add_namespaces(self) -> None:
        names = {
            value["metadata"].get("namespace", "")
            for by_key in self._by_kind.values()
            for value in by_key.values()
        }
        for name in sorted(names - {""} - set(self._by_kind["Namespace"])):
            self._by_kind["Namespace"][name] = with_identity(namespace_body(name))

    # ------------------------------------------------------------ notes

    def _notes_for_people(self) -> Iterator[str]:
        counts = self._counts
        if counts["pods"]:
            yield f"{counts['pods']} pods that were finished or being deleted are left out."
        if count := counts["pods on missing nodes"]:
            yield f"{count} pods on nodes that are not in the file are left out."
        added = [f"{counts[kind]} {kind}s" for kind in API_VERSIONS if counts[kind]]
        if added:
            yield f"Owners that the file names but does not have were added: {', '.join(added)}."
        for what, count in sorted(counts.items()):
            if what.startswith("owners of kind"):
                kind = what.rpartition(" ")[2]
                yield (
                    f"{count} pods or ReplicaSets belong to a {kind}, which is not simulated: "
                    "nothing replaces them."
                )
            elif what.endswith("without pods"):
                yield f"{count} {what} are left out: their pod template is not known."
        if self._by_kind["Job"]:
            yield "How long the pods of Jobs still run is not known; they end after some minutes."


def has_template(owner: Json) -> bool:
    """Whether it has a pod template with containers."""
    template = (owner.get("spec") or {}).get("template") or {}
    return bool((template.get("spec") or {}).get("containers"))


def with_template(owner: Json, pods: list[Json]) -> Json:
    """A workload with a template that is derived from its newest pod."""
    pod = max(pods, key=lambda pod: (pod["metadata"]["creationTimestamp"], key_of(pod)))
    labels = {
        key: value for key, value in labels_of(pod).items() if key not in LABELS_BY_CONTROLLERS
    }
    template: Json = {"metadata": {"labels": labels}, "spec": template_spec(pod)}
    annotations = {
        key: value
        for key, value in annotations_of(pod).items()
        if key not in (*ANNOTATIONS, PREVIOUS_MARKS)
    }
    if annotations:
        template["metadata"]["annotations"] = annotations
    spec = {**(owner.get("spec") or {}), "template": template}
    if owner["kind"] == "StatefulSet":
        move_claims_out_of_template(owner, spec)
    return with_counts({**owner, "spec": spec}, len(pods))


def with_counts(owner: Json, pods: int) -> Json:
    """A workload with its counts and selector, as far as they are missing."""
    kind, spec = owner["kind"], dict(owner.get("spec") or {})
    labels = spec["template"].get("metadata", {}).get("labels") or {}
    if kind == "Job":
        spec.setdefault("parallelism", pods)
        spec.setdefault("completions", pods)
        return {**owner, "spec": spec}
    if kind == "ReplicationController":
        spec["selector"] = spec.get("selector") or dict(labels)
    elif not spec.get("selector"):
        spec["selector"] = {"matchLabels": dict(labels)}
    if kind == "DaemonSet":
        return {**owner, "spec": spec}
    spec.setdefault("replicas", pods)
    return {**owner, "spec": spec}


def template_spec(pod: Json) -> Json:
    """The spec of a pod without what the scheduler, controllers and migrations have added."""
    spec: Json = copy.deepcopy(pod["spec"])
    for added in ("nodeName", "hostname", "subdomain", "ephemeralContainers", "schedulingGates"):
        spec.pop(added, None)
    remove_placing(pod, spec)
    owner = controller_of(pod)
    if owner is not None and owner["kind"] == "DaemonSet":
        remove_own_node(spec)
    if owner is not None and owner["kind"] == "Job":
        spec.setdefault("restartPolicy", "Never")
    return spec


def annotations_of(pod: Json) -> Json:
    """The annotations of a pod."""
    annotations: Json = pod["metadata"].get("annotations") or {}
    return annotations


def remove_placing(pod: Json, spec: Json) -> None:
    """Remove the affinity with which a migration has placed the pod."""
    annotations, affinity = annotations_of(pod), spec.pop("affinity", None) or {}
    if is_new_pod(annotations.get(ORIGINAL_POD), annotations.get(PREVIOUS_MARKS)):
        affinity = without_pin(affinity)
    if STEERED_BY in annotations:
        affinity = without_steering(affinity)
    if affinity:
        spec["affinity"] = affinity


def remove_own_node(spec: Json) -> None:
    """Remove the affinity to one node that the DaemonSet controller gives to each pod."""
    node_affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    terms = required.get("nodeSelectorTerms") or []
    for term in terms:
        fields = term.get("matchFields") or ()
        term["matchFields"] = [field for field in fields if field["key"] != NAME_FIELD]
    if terms and not any(any(term.values()) for term in terms):
        del node_affinity["requiredDuringSchedulingIgnoredDuringExecution"]


def move_claims_out_of_template(owner: Json, spec: Json) -> None:
    """Turn the volumes of a StatefulSet's own claims into volumeClaimTemplates.

    Such claims are called `<template>-<set>-<ordinal>`.
    """
    pod_spec = spec["template"]["spec"]
    kept, claims = [], []
    for volume in pod_spec.get("volumes") or ():
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName", "")
        base, _, ordinal = claim.rpartition("-")
        name = base.removesuffix(f"-{owner['metadata']['name']}")
        if claim and ordinal.isdigit() and name != base:
            claims.append({"metadata": {"name": name}, "spec": {}})
        else:
            kept.append(volume)
    if claims:
        pod_spec["volumes"] = kept
        spec.setdefault("volumeClaimTemplates", claims)


def with_newest_template(deployment: Json, replica_sets: list[Json]) -> Json:
    """A Deployment with the template of its ReplicaSet with most replicas."""
    newest = max(
        replica_sets,
        key=lambda owned: (owned["spec"].get("replicas") or 0, owned["metadata"]["name"]),
    )
    spec = dict(deployment.get("spec") or {})
    template = copy.deepcopy(newest["spec"]["template"])
    template["metadata"]["labels"].pop(POD_TEMPLATE_HASH, None)
    if not has_template(deployment):
        spec["template"] = template
    if not spec.get("selector"):
        spec["selector"] = {"matchLabels": dict(template["metadata"]["labels"])}
    spec.setdefault("replicas", sum(owned["spec"].get("replicas") or 0 for owned in replica_sets))
    return {**deployment, "spec": spec}


# ------------------------------------------------------------ objects


def with_identity(value: Json) -> Json:
    """An object with a uid, a creation time, a spec and a status."""
    metadata = {"creationTimestamp": LONG_AGO, **value["metadata"]}
    metadata["uid"] = metadata.get("uid") or uid_for(value["kind"], key_of(value))
    empty: Json = {part: {} for part in PARTS if value["kind"] not in KINDS_WITHOUT_PARTS}
    return {**empty, **value, "metadata": metadata}


def with_times(pod: Json) -> Json:
    """A pod whose conditions have a transition time: by default, its creation."""
    since = {"lastTransitionTime": pod["metadata"]["creationTimestamp"]}
    conditions = [{**since, **condition} for condition in pod["status"].get("conditions") or ()]
    return {**pod, "status": {**pod["status"], "conditions": conditions}}


def with_metadata(value: Json, **more: object) -> Json:
    """An object with some of its metadata replaced."""
    return {**value, "metadata": {**value["metadata"], **more}}


def without_owner(value: Json) -> Json:
    """An object without owner: its kind is not simulated."""
    return with_metadata(value, ownerReferences=[])


def uid_for(kind: str, key: str) -> str:
    """A uid that follows from kind and key, so that references agree."""
    return str(UUID(int=Random(f"{kind}/{key}").getrandbits(128), version=4))


def start_after(objects: Iterable[Json]) -> datetime:
    """The midnight after the newest of these was created."""
    times = [parse_time(value["metadata"]["creationTimestamp"]) for value in objects]
    newest = max(times, default=parse_time(format_time(datetime(2025, 1, 1, tzinfo=UTC))))
    day = newest.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return day + timedelta(days=1)
