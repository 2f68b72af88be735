"""Make a cluster from a file complete: whatever has to be there before it can live.

A file tells what planning needs to know. To go on living, a cluster also needs what new pods are
made from, and owners that are really there. What a file leaves out is worked out from what it has,
from a workload's pods most of all, and what had to be assumed is told in notes for people.
"""

import copy
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from uuid import UUID

from rescheduler.labels import POD_TEMPLATE_HASH
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
# Labels that are a pod's own, and not its template's.
OWN_LABELS = (
    "statefulset.kubernetes.io/pod-name",
    "apps.kubernetes.io/pod-index",
    "controller-revision-hash",
    "pod-template-generation",
    "batch.kubernetes.io/controller-uid",
    "batch.kubernetes.io/job-name",
    "batch.kubernetes.io/job-completion-index",
    "controller-uid",
    "job-name",
)
PARTS = ("spec", "status")
WITHOUT_PARTS = ("Namespace", "PriorityClass", "StorageClass", "CSINode", "CSIDriver")
NAME_FIELD = "metadata.name"


@dataclass(frozen=True)
class CompletedCluster:
    """A cluster that can live, and what had to be assumed for that."""

    objects: list[Json]
    notes: tuple[str, ...]
    start: datetime
    """The midnight after everything in it was made."""


def complete_cluster(objects: Iterable[Json]) -> CompletedCluster:
    """The same cluster with everything there."""
    return _ClusterCompletion(objects).made()


class _ClusterCompletion:
    """Works out what is missing."""

    def __init__(self, objects: Iterable[Json]) -> None:
        self._by_kind: dict[str, dict[str, Json]] = defaultdict(dict)
        self._notes: list[str] = []
        self._counts: Counter[str] = Counter()
        for each in objects:
            self._by_kind[each["kind"]][key_of(each)] = with_identity(each)

    def made(self) -> CompletedCluster:
        """Pods first, for the rest follows from them."""
        self._leave_out_pods_that_end()
        self._find_owners()
        for kind in ("ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController", "Job"):
            self._give_templates(kind)
        self._give_deployments_templates()
        self._make_namespaces()
        everything = [each for kind in self._by_kind.values() for each in kind.values()]
        return CompletedCluster(everything, tuple(self._told()), start_after(everything))

    # ------------------------------------------------------------ pods

    def _leave_out_pods_that_end(self) -> None:
        pods = self._by_kind["Pod"]
        for key, pod in list(pods.items()):
            if is_finished(pod) or is_deleting(pod):
                del pods[key]
                self._counts["pods"] += 1
            else:
                pods[key] = with_times(pod)

    def _find_owners(self) -> None:
        """See to it that every pod's owner is there, and that both agree on who that is."""
        for key, pod in list(self._by_kind["Pod"].items()):
            self._by_kind["Pod"][key] = self._owned(pod)
        for key, version in list(self._by_kind["ReplicaSet"].items()):
            self._by_kind["ReplicaSet"][key] = self._owned(version)

    def _owned(self, value: Json) -> Json:
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
        made: Json = {
            "apiVersion": API_VERSIONS[kind],
            "kind": kind,
            "metadata": metadata,
            "spec": {},
        }
        hashed = labels_of(owned).get(POD_TEMPLATE_HASH)
        if kind == "ReplicaSet" and hashed and name.endswith(f"-{hashed}"):
            deployment = f"{namespace}/{name.removesuffix(f'-{hashed}')}"
            made["metadata"]["labels"] = dict(labels_of(owned))
            above = self._by_kind["Deployment"].get(deployment)
            if above is None:
                reference = {"uid": ""}
                above = self._missing_owner("Deployment", deployment, reference, made)
                self._by_kind["Deployment"][deployment] = above
                self._counts["Deployment"] += 1
            made["metadata"]["ownerReferences"] = [reference_to(above)]
        return made

    # ------------------------------------------------------------ templates

    def _give_templates(self, kind: str) -> None:
        pods = defaultdict(list)
        for pod in self._by_kind["Pod"].values():
            if (owner := controller_of(pod)) is not None and owner["kind"] == kind:
                pods[owner["uid"]].append(pod)
        for key, owner in list(self._by_kind[kind].items()):
            own = pods[owner["metadata"]["uid"]]
            if has_template(owner):
                self._by_kind[kind][key] = with_counts(owner, len(own))
            elif own:
                self._by_kind[kind][key] = with_template(owner, own)
            else:
                del self._by_kind[kind][key]
                if (owner.get("spec") or {}).get("replicas", 1):
                    self._counts[f"{kind}s without pods"] += 1

    def _give_deployments_templates(self) -> None:
        versions = defaultdict(list)
        for version in self._by_kind["ReplicaSet"].values():
            if (owner := controller_of(version)) is not None:
                versions[owner["uid"]].append(version)
        for key, deployment in list(self._by_kind["Deployment"].items()):
            own = versions[deployment["metadata"]["uid"]]
            if not own and not has_template(deployment):
                del self._by_kind["Deployment"][key]
                self._counts["Deployments without pods"] += 1
            elif own:
                self._by_kind["Deployment"][key] = deployment_of(deployment, own)

    def _make_namespaces(self) -> None:
        names = {
            each["metadata"].get("namespace", "")
            for kind in self._by_kind.values()
            for each in kind.values()
        }
        for name in sorted(names - {""} - set(self._by_kind["Namespace"])):
            self._by_kind["Namespace"][name] = with_identity(namespace_body(name))

    # ------------------------------------------------------------ notes

    def _told(self) -> Iterator[str]:
        counts = self._counts
        if counts["pods"]:
            yield f"{counts['pods']} pods that had ended, or were about to, are left out."
        made = [f"{counts[kind]} {kind}s" for kind in API_VERSIONS if counts[kind]]
        if made:
            yield f"Owners that the file names but does not have were made: {', '.join(made)}."
        for what, count in sorted(counts.items()):
            if what.startswith("owners of kind"):
                kind = what.rpartition(" ")[2]
                yield (
                    f"{count} pods or ReplicaSets belong to a {kind}, which is not simulated: "
                    "nothing brings them back."
                )
            elif what.endswith("without pods"):
                yield f"{count} {what} are left out: nothing tells what their pods would be like."
        if self._by_kind["Job"]:
            yield "How long the pods of Jobs still run is not known; they end after some minutes."


def has_template(owner: Json) -> bool:
    """Whether it says what its pods are made from."""
    template = (owner.get("spec") or {}).get("template") or {}
    return bool((template.get("spec") or {}).get("containers"))


def with_template(owner: Json, pods: list[Json]) -> Json:
    """A workload whose pods are made as the one it made last."""
    pod = max(pods, key=lambda pod: (pod["metadata"]["creationTimestamp"], key_of(pod)))
    labels = {key: value for key, value in labels_of(pod).items() if key not in OWN_LABELS}
    template: Json = {"metadata": {"labels": labels}, "spec": template_spec(pod)}
    annotations = pod["metadata"].get("annotations")
    if annotations:
        template["metadata"]["annotations"] = dict(annotations)
    spec = {**(owner.get("spec") or {}), "template": template}
    if owner["kind"] == "StatefulSet":
        claims_of_its_own(owner, spec)
    return with_counts({**owner, "spec": spec}, len(pods))


def with_counts(owner: Json, pods: int) -> Json:
    """A workload that knows how many pods it wants and how it finds them."""
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
    """What a pod was made from, without what the scheduler and controllers have added."""
    spec: Json = copy.deepcopy(pod["spec"])
    for added in ("nodeName", "hostname", "subdomain", "ephemeralContainers"):
        spec.pop(added, None)
    owner = controller_of(pod)
    if owner is not None and owner["kind"] == "DaemonSet":
        forget_own_node(spec)
    if owner is not None and owner["kind"] == "Job":
        spec.setdefault("restartPolicy", "Never")
    return spec


def forget_own_node(spec: Json) -> None:
    """Take out the need for its own node that a DaemonSet gives each of its pods."""
    node_affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    needs = node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    terms = needs.get("nodeSelectorTerms") or []
    for term in terms:
        fields = [each for each in term.get("matchFields") or () if each["key"] != NAME_FIELD]
        term["matchFields"] = fields
    if terms and not any(any(term.values()) for term in terms):
        del node_affinity["requiredDuringSchedulingIgnoredDuringExecution"]


def claims_of_its_own(owner: Json, spec: Json) -> None:
    """Move claims that a StatefulSet makes for each member from the template to where they belong.

    They are called `<template>-<set>-<ordinal>`.
    """
    inside = spec["template"]["spec"]
    kept, claims = [], []
    for volume in inside.get("volumes") or ():
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName", "")
        base, _, ordinal = claim.rpartition("-")
        name = base.removesuffix(f"-{owner['metadata']['name']}")
        if claim and ordinal.isdigit() and name != base:
            claims.append({"metadata": {"name": name}, "spec": {}})
        else:
            kept.append(volume)
    if claims:
        inside["volumes"] = kept
        spec.setdefault("volumeClaimTemplates", claims)


def deployment_of(deployment: Json, versions: list[Json]) -> Json:
    """A Deployment whose newest version is the one with most pods."""
    newest = max(
        versions, key=lambda each: (each["spec"].get("replicas") or 0, each["metadata"]["name"])
    )
    spec = dict(deployment.get("spec") or {})
    template = copy.deepcopy(newest["spec"]["template"])
    template["metadata"]["labels"].pop(POD_TEMPLATE_HASH, None)
    if not has_template(deployment):
        spec["template"] = template
    if not spec.get("selector"):
        spec["selector"] = {"matchLabels": dict(template["metadata"]["labels"])}
    spec.setdefault("replicas", sum(each["spec"].get("replicas") or 0 for each in versions))
    return {**deployment, "spec": spec}


# ------------------------------------------------------------ objects


def with_identity(value: Json) -> Json:
    """An object that has a uid and an age, and the parts that all of its kind have."""
    metadata = {"creationTimestamp": LONG_AGO, **value["metadata"]}
    metadata["uid"] = metadata.get("uid") or uid_for(value["kind"], key_of(value))
    empty: Json = {part: {} for part in PARTS if value["kind"] not in WITHOUT_PARTS}
    return {**empty, **value, "metadata": metadata}


def with_times(pod: Json) -> Json:
    """A pod whose conditions say since when they hold."""
    since = {"lastTransitionTime": pod["metadata"]["creationTimestamp"]}
    conditions = [{**since, **each} for each in pod["status"].get("conditions") or ()]
    return {**pod, "status": {**pod["status"], "conditions": conditions}}


def with_metadata(value: Json, **more: object) -> Json:
    """An object with some of its metadata new."""
    return {**value, "metadata": {**value["metadata"], **more}}


def without_owner(value: Json) -> Json:
    """An object whose owner nobody plays."""
    return with_metadata(value, ownerReferences=[])


def uid_for(kind: str, key: str) -> str:
    """The same for the same object, so that owners and owned agree."""
    return str(UUID(int=Random(f"{kind}/{key}").getrandbits(128), version=4))


def start_after(objects: Iterable[Json]) -> datetime:
    """The midnight after all of these were made."""
    times = [parse_time(each["metadata"]["creationTimestamp"]) for each in objects]
    newest = max(times, default=parse_time(format_time(datetime(2025, 1, 1, tzinfo=UTC))))
    day = newest.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return day + timedelta(days=1)
