"""What a migration writes on pods, as merge patches, and how each is taken back.

Every object that a migration touches carries its id, so whatever is left behind can be found and
undone from the object alone, even if the Migration is long gone.
"""

import re
from datetime import UTC, datetime
from typing import Any

import msgspec

from rescheduler.labels import (
    DELETION_COST,
    MIGRATED_FROM,
    MIGRATION_ID,
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
LABELS = (MIGRATION_ID, MIGRATION_STATUS, MIGRATED_FROM, MIGRATION_REASON)
ANNOTATIONS = (MIGRATION_NAME, MIGRATION_TIME, ORIGINAL_POD, ORIGINAL_POD_NAME, STEERED_BY)
LEAST_COST = "-2147483647"
LONGEST_LABEL = 63

Patch = dict[str, Any]


def labels_of(migration: Migration, status: str) -> dict[str, str]:
    """The labels that both pods of a migration carry."""
    return {
        MIGRATION_ID: migration.metadata.uid,
        MIGRATION_STATUS: status,
        MIGRATED_FROM: label_value(migration.status.source_node),
        MIGRATION_REASON: label_value(migration.spec.strategy or "Manual"),
    }


def annotations_of(migration: Migration, now: datetime) -> dict[str, str]:
    """The annotations that both pods carry."""
    return {MIGRATION_NAME: migration.metadata.name, MIGRATION_TIME: rfc3339(now)}


def origin_of(old: MovingPod) -> dict[str, str]:
    """The annotations by which a new pod names the old one."""
    return {ORIGINAL_POD: old.uid, ORIGINAL_POD_NAME: old.metadata.name}


def marking(pod: MovingPod, migration: Migration, now: datetime) -> Patch:
    """Marks the pod that is to be moved.

    It may have been moved before, and say so: that is remembered, so that it can be put back, and
    taken off, so that it is not taken for a successor.
    """
    no_origin: dict[str, str | None] = dict.fromkeys((ORIGINAL_POD, ORIGINAL_POD_NAME))
    annotations = no_origin | annotations_of(migration, now) | remembered(pod)
    return metadata(labels_of(migration, IN_PROGRESS), annotations)


def claiming(pod: MovingPod, migration: Migration, now: datetime) -> Patch:
    """Marks the replacement that a controller has made for an evicted pod."""
    annotations = annotations_of_replacement(migration, now) | remembered(pod)
    return metadata(labels_of(migration, IN_PROGRESS), annotations)


def steering(migration: Migration, now: datetime) -> Patch:
    """Marks a replacement that is being steered to its target, before anyone has looked for it."""
    annotations = annotations_of_replacement(migration, now)
    return metadata(
        labels_of(migration, IN_PROGRESS), {**annotations, STEERED_BY: migration.metadata.uid}
    )


def annotations_of_replacement(migration: Migration, now: datetime) -> dict[str, str]:
    """The annotations of a pod that takes an evicted one's place."""
    old = migration.spec.pod
    origin = {ORIGINAL_POD: old.uid, ORIGINAL_POD_NAME: old.name}
    return annotations_of(migration, now) | origin


def is_steered(pod: MovingPod, migration: Migration) -> bool:
    """Whether the scheduler has been told where this migration wants the pod."""
    return pod.metadata.annotations.get(STEERED_BY) == migration.metadata.uid


def remembered(pod: MovingPod) -> dict[str, str]:
    """What an earlier migration had written on a pod, as an annotation."""
    written = {**pod.metadata.labels, **pod.metadata.annotations}
    earlier = {key: written[key] for key in (*LABELS, *ANNOTATIONS) if key in written}
    return {PREVIOUS_MARKS: msgspec.json.encode(earlier).decode()} if earlier else {}


def recalled(pod: MovingPod) -> dict[str, str]:
    """The same, read back; nothing if someone has tampered with it."""
    text = pod.metadata.annotations.get(PREVIOUS_MARKS, "{}")
    try:
        return msgspec.json.decode(text, type=dict[str, str])
    except msgspec.DecodeError:
        return {}


def completing() -> Patch:
    """Says that a new pod is here to stay."""
    return metadata({MIGRATION_STATUS: COMPLETED}, {})


def adopting(withheld: dict[str, str]) -> Patch:
    """Gives the new pod the labels that its workload looks for; from then on it stays."""
    return metadata({**withheld, MIGRATION_STATUS: COMPLETED}, {})


def lowering_cost(pod: MovingPod) -> Patch:
    """Makes the old pod the first to go, and remembers what it had said about that."""
    previous = pod.metadata.annotations.get(DELETION_COST, "")
    return metadata({}, {DELETION_COST: LEAST_COST, PREVIOUS_DELETION_COST: previous})


def has_lowered_cost(pod: MovingPod) -> bool:
    """Whether we made it the first to go."""
    return PREVIOUS_DELETION_COST in pod.metadata.annotations


def restoring(pod: MovingPod) -> Patch:
    """Takes back everything that we have written on a pod."""
    earlier = recalled(pod)
    annotations = {key: earlier.get(key) for key in ANNOTATIONS} | {PREVIOUS_MARKS: None}
    previous = pod.metadata.annotations.get(PREVIOUS_DELETION_COST)
    if previous is not None:
        annotations[PREVIOUS_DELETION_COST] = None
        # Someone may have set it anew meanwhile; then it is theirs.
        if pod.metadata.annotations.get(DELETION_COST) == LEAST_COST:
            annotations[DELETION_COST] = previous or None
    return metadata({key: earlier.get(key) for key in LABELS}, annotations)


def is_in_progress(pod: MovingPod) -> bool:
    """Whether its migration may still have to be undone."""
    return pod.metadata.labels.get(MIGRATION_STATUS) == IN_PROGRESS


def metadata(
    labels: dict[str, str] | dict[str, str | None],
    annotations: dict[str, str] | dict[str, str | None],
) -> Patch:
    """A merge patch of labels and annotations; None removes one."""
    return {"metadata": {"labels": labels, "annotations": annotations}}


def label_value(text: str) -> str:
    """The text as far as a label can hold it."""
    allowed = re.sub(r"[^-A-Za-z0-9_.]", "-", text)[:LONGEST_LABEL]
    return allowed.strip("-_.")


def rfc3339(moment: datetime) -> str:
    """A time as Kubernetes writes it."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
