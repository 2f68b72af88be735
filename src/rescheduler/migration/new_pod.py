"""The new pod of a migration: its name, spec and labels.

It is created with a scheduling gate. While the pod is gated its target is nominated; then the gate
is opened and the scheduler places the pod. Nothing of that remains in its spec.
"""

import copy
import hashlib
from collections.abc import Iterable
from datetime import datetime
from typing import Any

import msgspec

from rescheduler.labels import (
    ORIGINAL_POD,
    PLACING_GATE,
    POD_TEMPLATE_HASH,
    PREVIOUS_MARKS,
    TEMPLATE_HASHES,
)
from rescheduler.migration import migration_labels
from rescheduler.migration.migration_object import Migration
from rescheduler.migration.moving_pod import MovingContainer, MovingPod
from rescheduler.migration.workload_objects import ObservedWorkload
from rescheduler.model.json_decoder import without_nulls
from rescheduler.model.moves import Mode
from rescheduler.model.objects import Labels, LabelSelector, PodDisruptionBudget, Service
from rescheduler.model.rules.merged_label_keys import (
    with_merged_expressions,
    without_merged_expressions,
)
from rescheduler.model.rules.network_policies import NO_POLICIES, PolicyLabels
from rescheduler.model.rules.placing_affinity import is_new_pod, without_pin
from rescheduler.model.selectors import matches, selector_keys, selects

# The characters that Kubernetes uses for generated names: none can spell a bad word.
NAME_CHARACTERS = "bcdfghjklmnpqrstvwxz2456789"
SUFFIX_LENGTH = 5
COPY_SUFFIX_LENGTH = 8
MAX_NAME_LENGTH = 253
# A ReplicaSet shortens its name so that there is room for the suffix.
MAX_BASE_LENGTH = MAX_NAME_LENGTH - SUFFIX_LENGTH - 1
COPY_PREFIX = "rescheduled-"
OUR_GATE = {"name": PLACING_GATE}
# The API server adds a volume with such a name and the service account's token to nearly every pod.
TOKEN_VOLUME_PREFIX = "kube-api-access-"

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


def gated_replica(
    migration: Migration,
    workload: ObservedWorkload,
    old: MovingPod,
    withheld_label: str,
    now: datetime,
) -> Body:
    """A pod from the workload's template, with our gate.

    Without the withheld label, the workload does not count it yet. The running pod may have been
    resized in place, or its requests may have been changed when it was created: the new pod gets
    the same resources. It also gets what the server adds to a spec because of the withheld label.
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
    spec = with_resources_of(old, without_nulls(msgspec.json.decode(template.spec)))
    # Terms are compared, and a null in one of them makes no difference.
    running: Body = {
        "affinity": without_nulls(old.spec.affinity),
        "topologySpreadConstraints": without_nulls([*old.spec.topology_spread_constraints]),
    }
    spec = with_merged_expressions(spec, withheld_label, running, old.metadata.labels)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": gated(spec)}


def gated_copy(migration: Migration, original: Body, old: MovingPod, now: datetime) -> Body:
    """A copy of a pod without a controller, with our gate.

    `original` is the pod as the server has it. What the server or a node has added is left out.
    Unlike a replica, a copy has no `generateName`.
    """
    metadata = original["metadata"]
    uid, attempt = migration.metadata.uid, migration.status.attempts
    annotations = dict(metadata.get("annotations") or {})
    annotations.pop(PREVIOUS_MARKS, None)
    labels = metadata.get("labels") or {}
    kept = {key: metadata[key] for key in ("ownerReferences", "finalizers") if metadata.get(key)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": kept
        | {
            "name": copy_name(metadata["name"], uid, attempt),
            "namespace": metadata["namespace"],
            "labels": labels | migration_labels.pod_labels(migration, migration_labels.IN_PROGRESS),
            "annotations": annotations
            | migration_labels.pod_annotations(migration, now)
            | migration_labels.original_pod_annotations(old),
        },
        "spec": gated(original_spec(original)),
    }


def gated(spec: Body) -> Body:
    """The spec with our gate after those that it has: the scheduler waits until it is opened."""
    return {**spec, "schedulingGates": [*(spec.get("schedulingGates") or []), OUR_GATE]}


def with_resources_of(running: MovingPod, spec: Body) -> Body:
    """The spec, with the resources that a running pod has where they differ."""
    changed = {
        **spec,
        "containers": with_resources(spec["containers"], running.spec.containers),
    }
    if spec.get("initContainers"):
        init_containers = running.spec.init_containers
        changed["initContainers"] = with_resources(spec["initContainers"], init_containers)
    if running.spec.resources:
        changed["resources"] = running.spec.resources
    return changed


def with_resources(containers: list[Body], running: Iterable[MovingContainer]) -> list[Body]:
    """The containers, with the resources of the running ones of the same names."""
    resources = {container.name: container.resources for container in running}
    return [
        {**container, "resources": resources.get(container["name"], container.get("resources", {}))}
        for container in containers
    ]


def original_spec(pod: Body) -> Body:
    """A pod's spec without the additions of admission, the scheduler, debuggers and ourselves."""
    labels = pod["metadata"].get("labels") or {}
    spec: Body = without_merged_expressions(copy.deepcopy(pod["spec"]), labels)
    annotations = pod["metadata"].get("annotations") or {}
    if is_new_pod(annotations.get(ORIGINAL_POD), annotations.get(PREVIOUS_MARKS)):
        affinity = without_pin(spec.pop("affinity", None) or {})
        if affinity:
            spec["affinity"] = affinity
    for added in ("nodeName", "ephemeralContainers", "priority", "preemptionPolicy"):
        spec.pop(added, None)
    volumes = spec.get("volumes") or []
    tokens = {volume["name"] for volume in volumes if is_added_token(volume)}
    spec["volumes"] = [volume for volume in volumes if volume["name"] not in tokens]
    for container in [*spec.get("containers", []), *(spec.get("initContainers") or [])]:
        mounts = container.get("volumeMounts") or []
        container["volumeMounts"] = [mount for mount in mounts if mount["name"] not in tokens]
    return spec


def is_added_token(volume: Body) -> bool:
    """Whether admission added the volume, and adds it to a copy again.

    The name alone does not tell: users may choose such a name for any volume.
    """
    sources = (volume.get("projected") or {}).get("sources") or []
    has_token = any("serviceAccountToken" in source for source in sources)
    return has_token and volume["name"].startswith(TOKEN_VOLUME_PREFIX)


def label_to_withhold(
    workload: ObservedWorkload,
    services: Iterable[Service],
    budgets: Iterable[PodDisruptionBudget],
    policies: PolicyLabels = NO_POLICIES,
) -> str | None:
    """The label that a new pod gets only at the handover; None if no label is suitable.

    Without it the workload must not count the pod, but no policy may overlook it. Services should
    send traffic to the pod, and budgets count it as healthy, before the old one is deleted. So a
    label that neither selects by is best, a template hash first of all.
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
    return min(
        (key for key in withholdable(workload) if not policies.may_select_by(key)),
        key=lambda key: (
            key in budget_keys,
            key in service_keys,
            key not in TEMPLATE_HASHES,
            key,
        ),
        default=None,
    )


def withholdable(workload: ObservedWorkload) -> list[str]:
    """The labels without which the workload does not count a pod."""
    labels = workload.template.metadata.labels
    return [key for key in labels if is_required_by(workload.selector, labels, key)]


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


def template_hash(labels: Labels) -> str:
    """The version of the template that a pod was created from, as its labels name it."""
    return next((labels[key] for key in TEMPLATE_HASHES if key in labels), "")
