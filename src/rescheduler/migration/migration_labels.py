"""The labels and annotations that a migration writes on pods, as merge patches, and their removal.

Every object that a migration touches carries the Migration's uid. So what is left behind can be
found and restored from the object alone, even if the Migration no longer exists.
"""

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import msgspec

from rescheduler.labels import (
    DELETION_COST,
    MIGRATED_FROM,
    MIGRATION_ID,
    MIGRATION_LABELS,
    MIGRATION_NAME,
    MIGRATION_REASON,
    MIGRATION_STATUS,
    MIGRATION_TIME,
    ORIGINAL_POD,
    ORIGINAL_POD_NAME,
    PREVIOUS_DELETION_COST,
    PREVIOUS_MARKS,
    STEERED_BY,
)
from rescheduler.migration.migration_object import Migration
from rescheduler.migration.moving_pod import MovingPod

IN_PROGRESS, COMPLETED = "in-progress", "completed"
ANNOTATIONS = (MIGRATION_NAME, MIGRATION_TIME, ORIGINAL_POD, ORIGINAL_POD_NAME, STEERED_BY)
LOWEST_DELETION_COST = "-2147483647"
AS_LOW_DELETION_COSTS = (LOWEST_DELETION_COST, "-2147483648")
MAX_LABEL_LENGTH = 63

Patch = dict[str, Any]


def pod_labels(migration: Migration, status: str) -> dict[str, str]:
    """The labels that both pods of a migration carry."""
    return {
        MIGRATION_ID: migration.metadata.uid,
        MIGRATION_STATUS: status,
        MIGRATED_FROM: label_value(migration.status.source_node),
        MIGRATION_REASON: label_value(migration.spec.strategy or "Manual"),
    }


def pod_annotations(migration: Migration, now: datetime) -> dict[str, str]:
    """The annotations that both pods carry."""
    return {MIGRATION_NAME: migration.metadata.name, MIGRATION_TIME: rfc3339(now)}


def original_pod_annotations(old: MovingPod) -> dict[str, str]:
    """The annotations by which a new pod names the old one."""
    return {ORIGINAL_POD: old.uid, ORIGINAL_POD_NAME: old.metadata.name}


def is_labelled_for(pod: MovingPod, migration: Migration) -> bool:
    """Whether a pod carries the uid of this migration."""
    return pod.metadata.labels.get(MIGRATION_ID) == migration.metadata.uid


def is_in_progress(pod: MovingPod) -> bool:
    """Whether the pod's migration may still be rolled back."""
    return pod.metadata.labels.get(MIGRATION_STATUS) == IN_PROGRESS


def is_steered(pod: MovingPod, migration: Migration) -> bool:
    """Whether the scheduler was steered to this migration's target when it placed the pod."""
    return pod.metadata.annotations.get(STEERED_BY) == migration.metadata.uid


def label_old_pod_patch(pod: MovingPod, migration: Migration, now: datetime) -> Patch:
    """Labels the pod to be moved.

    It may carry labels and annotations of an earlier migration. They are saved, so that a rollback
    can restore them, and the original pod's name is removed, so that it does not pass for a new
    pod.
    """
    no_original: dict[str, str | None] = dict.fromkeys((ORIGINAL_POD, ORIGINAL_POD_NAME))
    annotations = no_original | pod_annotations(migration, now) | saved_metadata(pod)
    return metadata_patch(pod_labels(migration, IN_PROGRESS), annotations)


def claim_patch(pod: MovingPod, migration: Migration, now: datetime) -> Patch:
    """Labels the replacement that a controller has created for an evicted pod."""
    annotations = replacement_annotations(migration, now) | saved_metadata(pod)
    return metadata_patch(pod_labels(migration, IN_PROGRESS), annotations)


def steered_patch(migration: Migration, now: datetime) -> Patch:
    """Labels a replacement that is steered to its target, before the controller looks for it."""
    annotations = replacement_annotations(migration, now)
    return metadata_patch(
        pod_labels(migration, IN_PROGRESS),
        {**annotations, STEERED_BY: migration.metadata.uid},
    )


def replacement_annotations(migration: Migration, now: datetime) -> dict[str, str]:
    """The annotations of a pod that replaces an evicted one."""
    old = migration.spec.pod
    original = {ORIGINAL_POD: old.uid, ORIGINAL_POD_NAME: old.name}
    return pod_annotations(migration, now) | original


def completed_patch() -> Patch:
    """Says that a new pod stays, whatever happens to the migration."""
    return metadata_patch({MIGRATION_STATUS: COMPLETED}, {})


def adoption_patch(withheld: dict[str, str]) -> Patch:
    """Gives the new pod the labels that its workload selects by; from then on it stays."""
    return metadata_patch({**withheld, MIGRATION_STATUS: COMPLETED}, {})


def take_back_patch(required_labels: Iterable[str]) -> Patch:
    """Takes a new pod that was not adopted away from its workload again."""
    labels: dict[str, str | None] = dict.fromkeys(required_labels)
    return metadata_patch({**labels, MIGRATION_STATUS: IN_PROGRESS}, {})


def lower_deletion_cost_patch(pod: MovingPod) -> Patch:
    """Makes the old pod the first that its ReplicaSet deletes, and saves its own deletion cost."""
    previous = pod.metadata.annotations.get(DELETION_COST, "")
    return metadata_patch(
        {}, {DELETION_COST: LOWEST_DELETION_COST, PREVIOUS_DELETION_COST: previous}
    )


def has_lowered_deletion_cost(pod: MovingPod) -> bool:
    """Whether a migration has lowered the pod's deletion cost, and nobody has changed it since.

    The saved cost alone does not tell: a pod template may have that annotation, copied from a pod.
    """
    annotations = pod.metadata.annotations
    is_lowest = annotations.get(DELETION_COST) == LOWEST_DELETION_COST
    return is_lowest and PREVIOUS_DELETION_COST in annotations


def has_as_low_a_deletion_cost(pod: MovingPod) -> bool:
    """Whether somebody else has given a pod a deletion cost as low as that of an old pod."""
    is_as_low = pod.metadata.annotations.get(DELETION_COST) in AS_LOW_DELETION_COSTS
    return is_as_low and not has_lowered_deletion_cost(pod)


def restore_patch(pod: MovingPod) -> Patch:
    """Restores the labels and annotations that the pod had before its migration.

    Saved values that the server would refuse are left out. Anyone who may write a pod may write
    them, and a refused patch would be sent again and again.
    """
    saved = read_saved_metadata(pod)
    annotations = {key: saved.get(key) for key in ANNOTATIONS} | {PREVIOUS_MARKS: None}
    previous = pod.metadata.annotations.get(PREVIOUS_DELETION_COST)
    if previous is not None:
        annotations[PREVIOUS_DELETION_COST] = None
        # A cost that somebody has set meanwhile is theirs.
        if pod.metadata.annotations.get(DELETION_COST) == LOWEST_DELETION_COST:
            annotations[DELETION_COST] = previous if is_deletion_cost(previous) else None
    labels = {
        key: saved.get(key) if is_label_value(saved.get(key, "")) else None
        for key in MIGRATION_LABELS
    }
    return metadata_patch(labels, annotations)


def saved_metadata(pod: MovingPod) -> dict[str, str]:
    """The labels and annotations of an earlier migration, saved in one annotation."""
    present = {**pod.metadata.labels, **pod.metadata.annotations}
    earlier = {key: present[key] for key in (*MIGRATION_LABELS, *ANNOTATIONS) if key in present}
    return {PREVIOUS_MARKS: msgspec.json.encode(earlier).decode()} if earlier else {}


def read_saved_metadata(pod: MovingPod) -> dict[str, str]:
    """What `saved_metadata` has saved; nothing if the annotation has been damaged."""
    text = pod.metadata.annotations.get(PREVIOUS_MARKS, "{}")
    try:
        return msgspec.json.decode(text, type=dict[str, str])
    except msgspec.DecodeError:
        return {}


def metadata_patch(
    labels: dict[str, str] | dict[str, str | None],
    annotations: dict[str, str] | dict[str, str | None],
) -> Patch:
    """A merge patch of labels and annotations; None removes one."""
    return {"metadata": {"labels": labels, "annotations": annotations}}


def label_value(text: str) -> str:
    """The text in characters that a label value may have, cut to its length."""
    allowed = re.sub(r"[^-A-Za-z0-9_.]", "-", text)[:MAX_LABEL_LENGTH]
    return allowed.strip("-_.")


def is_label_value(text: str) -> bool:
    """Whether the server accepts the text as the value of a label."""
    return label_value(text) == text


def is_deletion_cost(text: str) -> bool:
    """Whether the server accepts the text as a deletion cost."""
    is_integer = re.fullmatch(r"0|-?[1-9][0-9]{0,9}", text, re.ASCII) is not None
    return is_integer and -(1 << 31) <= int(text) < 1 << 31


def rfc3339(moment: datetime) -> str:
    """A time as Kubernetes writes it."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
