"""The new pod: what it is called, what it is made from, and how it is kept for its target."""

import copy
import hashlib
from collections.abc import Iterable
from datetime import datetime
from typing import Any

import msgspec

from rescheduler.labels import ORIGINAL_POD, POD_TEMPLATE_HASH, PREVIOUS_MARKS, TEMPLATE_HASHES
from rescheduler.migration import pod_marks
from rescheduler.migration.migration_object import Migration
from rescheduler.migration.moving_pod import MovingPod
from rescheduler.migration.state_machine.observation import ObservedWorkload
from rescheduler.migration.workload_objects import PodTemplate
from rescheduler.model.moves import Mode
from rescheduler.model.objects import Labels, LabelSelector, PodDisruptionBudget, Service
from rescheduler.model.selectors import matches, selects

# The characters of which Kubernetes makes the ends of names: none can spell a bad word.
NAME_CHARACTERS = "bcdfghjklmnpqrstvwxz2456789"
SUFFIX_LENGTH = 5
COPY_SUFFIX_LENGTH = 8
LONGEST_NAME = 253
# A ReplicaSet leaves room for the end of its pods' names.
LONGEST_BASE = LONGEST_NAME - SUFFIX_LENGTH - 1
COPY_PREFIX = "rescheduled-"
TOKEN_VOLUME = "kube-api-access-"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
NODE_NAME = "metadata.name"

Body = dict[str, Any]


def suffix(migration_uid: str, attempt: int, length: int) -> str:
    """Letters that are the same for the same attempt: making its pod twice is a conflict."""
    digest = hashlib.sha256(f"{migration_uid}/{attempt}".encode()).digest()
    return "".join(NAME_CHARACTERS[byte % len(NAME_CHARACTERS)] for byte in digest[:length])


def replica_name(workload: str, migration_uid: str, attempt: int) -> str:
    """The name of a new pod of a workload, as the workload names its own."""
    return f"{workload[:LONGEST_BASE]}-{suffix(migration_uid, attempt, SUFFIX_LENGTH)}"


def name_of_copy(original: str, migration_uid: str, attempt: int) -> str:
    """The name of a copy; a copy of a copy has no longer name than the copy."""
    base = original
    if base.startswith(COPY_PREFIX) and "-" in base.removeprefix(COPY_PREFIX):
        base = base.removeprefix(COPY_PREFIX).rpartition("-")[0]
    end = suffix(migration_uid, attempt, COPY_SUFFIX_LENGTH)
    room = LONGEST_NAME - len(COPY_PREFIX) - len(end) - 1
    return f"{COPY_PREFIX}{base[:room]}-{end}"


def new_pod_name(migration: Migration) -> str:
    """The name of the pod that this attempt makes, or nothing if it makes none."""
    status = migration.status
    if status.mode == Mode.HANDOFF and status.workload is not None:
        return replica_name(status.workload.name, migration.metadata.uid, status.attempts)
    if status.mode == Mode.RECREATE:
        return name_of_copy(migration.spec.pod.name, migration.metadata.uid, status.attempts)
    return ""


def replica_on_target(
    migration: Migration, workload: ObservedWorkload, old: MovingPod, withheld: str, now: datetime
) -> Body:
    """A pod of the workload's template that it does not count yet, kept for the target."""
    template: PodTemplate = workload.template
    base = workload.owner.metadata.name
    labels = {key: value for key, value in template.metadata.labels.items() if key != withheld}
    metadata: Body = {
        "name": replica_name(base, migration.metadata.uid, migration.status.attempts),
        "generateName": f"{base}-",
        "namespace": migration.metadata.namespace,
        "labels": labels | pod_marks.labels_of(migration, pod_marks.IN_PROGRESS),
        "annotations": template.metadata.annotations
        | pod_marks.annotations_of(migration, now)
        | pod_marks.origin_of(old),
    }
    if template.metadata.finalizers:
        metadata["finalizers"] = list(template.metadata.finalizers)
    spec = kept_for(migration.spec.target_node, msgspec.json.decode(template.spec))
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def copy_of(migration: Migration, original: Body, old: MovingPod, now: datetime) -> Body:
    """A copy of a pod without a controller, kept for the target.

    `original` is the pod as the server has it; what the server or a node has added is left out.
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
            "name": name_of_copy(metadata["name"], uid, attempt),
            "namespace": metadata["namespace"],
            "labels": labels | pod_marks.labels_of(migration, pod_marks.IN_PROGRESS),
            "annotations": annotations
            | pod_marks.annotations_of(migration, now)
            | pod_marks.origin_of(old),
        },
        "spec": kept_for(migration.spec.target_node, as_first_asked_for(original)),
    }


def as_first_asked_for(pod: Body) -> Body:
    """A pod's spec without what admission, the scheduler, debuggers and we have added to it."""
    made: Body = copy.deepcopy(pod["spec"])
    if is_kept_by_us(pod):
        release(made)
    for added in ("nodeName", "ephemeralContainers", "priority", "preemptionPolicy"):
        made.pop(added, None)
    volumes = made.get("volumes") or []
    tokens = {each["name"] for each in volumes if each["name"].startswith(TOKEN_VOLUME)}
    made["volumes"] = [each for each in volumes if each["name"] not in tokens]
    for container in [*made.get("containers", []), *(made.get("initContainers") or [])]:
        mounts = container.get("volumeMounts") or []
        container["volumeMounts"] = [each for each in mounts if each["name"] not in tokens]
    return made


def is_kept_by_us(pod: Body) -> bool:
    """Whether a pod is a copy of ours, and so was kept for a node."""
    annotations = pod["metadata"].get("annotations") or {}
    return ORIGINAL_POD in (annotations.get(PREVIOUS_MARKS) or "")


def release(spec: Body) -> None:
    """Undo `kept_for`, in a copy that is to be copied in its turn."""
    needs = spec["affinity"]["nodeAffinity"].pop(REQUIRED)
    terms = [
        {**term, "matchFields": [each for each in term["matchFields"] if each["key"] != NODE_NAME]}
        for term in needs["nodeSelectorTerms"]
    ]
    left = [term for term in terms if any(term.values())]
    if left:
        spec["affinity"]["nodeAffinity"][REQUIRED] = {"nodeSelectorTerms": left}


def kept_for(node: str, spec: Body) -> Body:
    """The spec with the node as an additional need.

    The scheduler then still checks everything else; `nodeName` would bypass it. The terms of a
    node selector are alternatives, so each of them gets the need.
    """
    made = copy.deepcopy(spec)
    affinity = made["affinity"] = made.get("affinity") or {}
    node_affinity = affinity["nodeAffinity"] = affinity.get("nodeAffinity") or {}
    needs = node_affinity.get(REQUIRED) or {"nodeSelectorTerms": [{}]}
    here = {"key": NODE_NAME, "operator": "In", "values": [node]}
    node_affinity[REQUIRED] = {
        "nodeSelectorTerms": [
            {**term, "matchFields": [*(term.get("matchFields") or []), here]}
            for term in needs["nodeSelectorTerms"]
        ]
    }
    return made


def label_to_withhold(
    workload: ObservedWorkload, services: Iterable[Service], budgets: Iterable[PodDisruptionBudget]
) -> str | None:
    """The label that a new pod goes without until it is handed over; None if none will do.

    Without it the workload must not count the pod. But Services should send traffic to it, and
    budgets count it as healthy, before the old one goes: so a label that neither selects by, a
    template hash first of all.
    """
    if is_versioned(workload):
        return POD_TEMPLATE_HASH
    labels = workload.template.metadata.labels
    needed_by_budget = keys_needed((each.spec.selector for each in budgets), labels)
    needed_by_service = keys_needed(
        (LabelSelector(match_labels=each.spec.selector) for each in services if each.spec.selector),
        labels,
    )
    usable = [key for key in labels if hides(workload.selector, labels, key)]
    return min(
        usable,
        key=lambda key: (
            key in needed_by_budget,
            key in needed_by_service,
            key not in TEMPLATE_HASHES,
            key,
        ),
        default=None,
    )


def is_versioned(workload: ObservedWorkload) -> bool:
    """Whether a Deployment has given it the label that nobody else has a use for."""
    return POD_TEMPLATE_HASH in workload.selector.match_labels


def hides(selector: LabelSelector, labels: Labels, key: str) -> bool:
    """Whether the selector no longer matches without this label."""
    without = {other: value for other, value in labels.items() if other != key}
    return matches(selector, labels) and not matches(selector, without)


def keys_needed(selectors: Iterable[LabelSelector | None], labels: Labels) -> set[str]:
    """The labels by which any of these selectors selects a pod with such labels."""
    return {
        key
        for selector in selectors
        if selector is not None and selects(selector, labels)
        for key in selector_keys(selector)
    }


def selector_keys(selector: LabelSelector) -> set[str]:
    """The labels that a selector asks about."""
    return {*selector.match_labels, *(each.key for each in selector.match_expressions)}


def template_hash(labels: Labels) -> str:
    """The version of the template that a pod was made from, as its labels tell."""
    return next((labels[key] for key in TEMPLATE_HASHES if key in labels), "")
