"""The new pod of a migration: its name, spec and labels, and how it is pinned to its target."""

import copy
import hashlib
from collections.abc import Iterable
from datetime import datetime
from typing import Any

import msgspec

from rescheduler.labels import ORIGINAL_POD, POD_TEMPLATE_HASH, PREVIOUS_MARKS, TEMPLATE_HASHES
from rescheduler.migration import migration_labels
from rescheduler.migration.migration_object import Migration
from rescheduler.migration.moving_pod import MovingPod
from rescheduler.migration.workload_objects import ObservedWorkload
from rescheduler.model.moves import Mode
from rescheduler.model.objects import Labels, LabelSelector, PodDisruptionBudget, Service
from rescheduler.model.selectors import matches, selects

# The characters that Kubernetes uses for generated names: none can spell a bad word.
NAME_CHARACTERS = "bcdfghjklmnpqrstvwxz2456789"
SUFFIX_LENGTH = 5
COPY_SUFFIX_LENGTH = 8
MAX_NAME_LENGTH = 253
# A ReplicaSet shortens its name so that there is room for the suffix.
MAX_BASE_LENGTH = MAX_NAME_LENGTH - SUFFIX_LENGTH - 1
COPY_PREFIX = "rescheduled-"
TOKEN_VOLUME_PREFIX = "kube-api-access-"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
NODE_NAME = "metadata.name"

Body = dict[str, Any]


def suffix(migration_uid: str, attempt: int, length: int) -> str:
    """The same for the same attempt, so that creating its pod twice is a conflict."""
    digest = hashlib.sha256(f"{migration_uid}/{attempt}".encode()).digest()
    return "".join(NAME_CHARACTERS[byte % len(NAME_CHARACTERS)] for byte in digest[:length])


def replica_name(workload: str, migration_uid: str, attempt: int) -> str:
    """The name of a new pod of a workload, in the form that the workload uses itself."""
    return f"{workload[:MAX_BASE_LENGTH]}-{suffix(migration_uid, attempt, SUFFIX_LENGTH)}"


def copy_name(original: str, migration_uid: str, attempt: int) -> str:
    """The name of a copy. A copy of a copy has no longer name than the copy."""
    base = original
    if base.startswith(COPY_PREFIX) and "-" in base.removeprefix(COPY_PREFIX):
        base = base.removeprefix(COPY_PREFIX).rpartition("-")[0]
    end = suffix(migration_uid, attempt, COPY_SUFFIX_LENGTH)
    max_base_length = MAX_NAME_LENGTH - len(COPY_PREFIX) - len(end) - 1
    return f"{COPY_PREFIX}{base[:max_base_length]}-{end}"


def new_pod_name(migration: Migration) -> str:
    """The name of the pod that this attempt creates; empty if its mode creates none."""
    status = migration.status
    if status.mode == Mode.HANDOFF and status.workload is not None:
        return replica_name(status.workload.name, migration.metadata.uid, status.attempts)
    if status.mode == Mode.RECREATE:
        return copy_name(migration.spec.pod.name, migration.metadata.uid, status.attempts)
    return ""


def replica_on_target(
    migration: Migration,
    workload: ObservedWorkload,
    old: MovingPod,
    withheld_label: str,
    now: datetime,
) -> Body:
    """A pod from the workload's template, pinned to the target.

    Without the withheld label, the workload does not count it yet.
    """
    template = workload.template
    base = workload.owner.metadata.name
    labels = {
        key: value for key, value in template.metadata.labels.items() if key != withheld_label
    }
    metadata: Body = {
        "name": replica_name(base, migration.metadata.uid, migration.status.attempts),
        "generateName": f"{base}-",
        "namespace": migration.metadata.namespace,
        "labels": labels | migration_labels.pod_labels(migration, migration_labels.IN_PROGRESS),
        "annotations": template.metadata.annotations
        | migration_labels.pod_annotations(migration, now)
        | migration_labels.original_pod_annotations(old),
    }
    if template.metadata.finalizers:
        metadata["finalizers"] = list(template.metadata.finalizers)
    spec = pinned_to(migration.spec.target_node, msgspec.json.decode(template.spec))
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def copy_on_target(migration: Migration, original: Body, old: MovingPod, now: datetime) -> Body:
    """A copy of a pod without a controller, pinned to the target.

    `original` is the pod as the server has it. What the server or a node has added is left out.
    """
    metadata = original["metadata"]
    uid, attempt = migration.metadata.uid, migration.status.attempts
    annotations = dict(metadata.get("annotations") or {})
    annotations.pop(PREVIOUS_MARKS, None)
    labels = metadata.get("labels") or {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": copy_name(metadata["name"], uid, attempt),
            "namespace": metadata["namespace"],
            "labels": labels | migration_labels.pod_labels(migration, migration_labels.IN_PROGRESS),
            "annotations": annotations
            | migration_labels.pod_annotations(migration, now)
            | migration_labels.original_pod_annotations(old),
        },
        "spec": pinned_to(migration.spec.target_node, original_spec(original)),
    }


def original_spec(pod: Body) -> Body:
    """A pod's spec without the additions of admission, the scheduler, debuggers and ourselves."""
    spec: Body = copy.deepcopy(pod["spec"])
    if is_pinned_by_us(pod):
        unpin(spec)
    for added in ("nodeName", "ephemeralContainers", "priority", "preemptionPolicy"):
        spec.pop(added, None)
    volumes = spec.get("volumes") or []
    tokens = {
        volume["name"] for volume in volumes if volume["name"].startswith(TOKEN_VOLUME_PREFIX)
    }
    spec["volumes"] = [volume for volume in volumes if volume["name"] not in tokens]
    for container in [*spec.get("containers", []), *(spec.get("initContainers") or [])]:
        mounts = container.get("volumeMounts") or []
        container["volumeMounts"] = [mount for mount in mounts if mount["name"] not in tokens]
    return spec


def is_pinned_by_us(pod: Body) -> bool:
    """Whether a pod is a copy of an earlier migration, which has pinned it to a node."""
    annotations = pod["metadata"].get("annotations") or {}
    return ORIGINAL_POD in (annotations.get(PREVIOUS_MARKS) or "")


def unpin(spec: Body) -> None:
    """Reverse `pinned_to`, in a copy that is copied again."""
    required = spec["affinity"]["nodeAffinity"].pop(REQUIRED)
    terms = [
        {
            **term,
            "matchFields": [field for field in term["matchFields"] if field["key"] != NODE_NAME],
        }
        for term in required["nodeSelectorTerms"]
    ]
    remaining = [term for term in terms if any(term.values())]
    if remaining:
        spec["affinity"]["nodeAffinity"][REQUIRED] = {"nodeSelectorTerms": remaining}


def pinned_to(node: str, spec: Body) -> Body:
    """The spec with the node as an additional required node affinity.

    The scheduler then still checks everything else; `nodeName` would bypass it. The terms of a
    node selector are alternatives, so the node is added to each of them.
    """
    pinned = copy.deepcopy(spec)
    affinity = pinned["affinity"] = pinned.get("affinity") or {}
    node_affinity = affinity["nodeAffinity"] = affinity.get("nodeAffinity") or {}
    required = node_affinity.get(REQUIRED) or {"nodeSelectorTerms": [{}]}
    only_here = {"key": NODE_NAME, "operator": "In", "values": [node]}
    node_affinity[REQUIRED] = {
        "nodeSelectorTerms": [
            {**term, "matchFields": [*(term.get("matchFields") or []), only_here]}
            for term in required["nodeSelectorTerms"]
        ]
    }
    return pinned


def label_to_withhold(
    workload: ObservedWorkload,
    services: Iterable[Service],
    budgets: Iterable[PodDisruptionBudget],
) -> str | None:
    """The label that a new pod gets only at the handover; None if no label is suitable.

    Without it the workload must not count the pod. But Services should send traffic to the pod,
    and budgets count it as healthy, before the old one is deleted. So a label that neither selects
    by is best, a template hash first of all.
    """
    if has_template_hash_label(workload):
        return POD_TEMPLATE_HASH
    labels = workload.template.metadata.labels
    budget_keys = selecting_keys((budget.spec.selector for budget in budgets), labels)
    service_keys = selecting_keys(
        (
            LabelSelector(match_labels=service.spec.selector)
            for service in services
            if service.spec.selector
        ),
        labels,
    )
    suitable = [key for key in labels if is_required_by(workload.selector, labels, key)]
    return min(
        suitable,
        key=lambda key: (
            key in budget_keys,
            key in service_keys,
            key not in TEMPLATE_HASHES,
            key,
        ),
        default=None,
    )


def has_template_hash_label(workload: ObservedWorkload) -> bool:
    """Whether it selects by the label of Deployments, which Services and budgets do not use."""
    return POD_TEMPLATE_HASH in workload.selector.match_labels


def is_required_by(selector: LabelSelector, labels: Labels, key: str) -> bool:
    """Whether the selector matches these labels, but not without this one."""
    without = {other: value for other, value in labels.items() if other != key}
    return matches(selector, labels) and not matches(selector, without)


def selecting_keys(selectors: Iterable[LabelSelector | None], labels: Labels) -> set[str]:
    """The label keys in those of the selectors that select a pod with these labels."""
    return {
        key
        for selector in selectors
        if selector is not None and selects(selector, labels)
        for key in selector_keys(selector)
    }


def selector_keys(selector: LabelSelector) -> set[str]:
    """The label keys that a selector refers to."""
    expressions = selector.match_expressions
    return {*selector.match_labels, *(expression.key for expression in expressions)}


def template_hash(labels: Labels) -> str:
    """The version of the template that a pod was created from, as its labels name it."""
    return next((labels[key] for key in TEMPLATE_HASHES if key in labels), "")
