"""Which pod takes the place of an evicted one.

A replacement is recognized by its owner, its age and the version of its template. Pods of a
StatefulSet keep their name, so there the name decides.
"""

from rescheduler.labels import MIGRATION_ID
from rescheduler.migration.migration_object import Migration, Step
from rescheduler.migration.moving_pod import PodMeta
from rescheduler.migration.new_pod import template_hash
from rescheduler.model.moves import Mode


def waits_for_replacement(migration: Migration) -> bool:
    """Whether a pod created now may be the replacement.

    `Evicting` counts: the replacement can exist before the status says that the old pod is gone.
    """
    status = migration.status
    return (
        migration.is_in_progress
        and status.mode == Mode.EVICT
        and status.step in (Step.EVICTING, Step.LANDING)
    )


def has_same_role(pod: PodMeta, migration: Migration) -> bool:
    """Whether a pod does the work of the moved one, for the same controller.

    In a StatefulSet that is the pod of the same name, elsewhere any pod of the same version.
    """
    workload, owner = migration.status.workload, pod.controller
    if workload is None or owner is None or owner.uid != workload.uid:
        return False
    if is_of_stateful_set(migration):
        return pod.name == migration.spec.pod.name
    return template_hash(pod.labels) == workload.template_hash


def is_in_namespace_of(pod: PodMeta, migration: Migration) -> bool:
    """Whether a pod can belong to a migration.

    In other namespaces, others may use its label or the uid of its workload.
    """
    return pod.namespace == migration.metadata.namespace


def existed_before(pod: PodMeta, migration: Migration) -> bool:
    """Whether a pod is older than the eviction, as far as that is known, or than the Migration.

    A pod that was steered is its replacement, even if it was created just before the eviction. All
    of these times are by the server's clock: ours may be off by minutes.
    """
    if pod.labels.get(MIGRATION_ID) == migration.metadata.uid:
        return False
    created, status = pod.creation_timestamp, migration.status
    if created is None:
        return False
    if status.newest_sibling_at is not None and created <= status.newest_sibling_at:
        return True
    earliest = status.evicted_at or migration.metadata.creation_timestamp
    return earliest is not None and created < earliest


def is_of_stateful_set(migration: Migration) -> bool:
    """Whether the moved pod belongs to a StatefulSet."""
    workload = migration.status.workload
    return workload is not None and workload.kind == "StatefulSet"


def may_be_steered(pod: PodMeta, migration: Migration) -> bool:
    """Whether a new pod is one that this migration waits for."""
    return (
        waits_for_replacement(migration)
        and is_in_namespace_of(pod, migration)
        and MIGRATION_ID not in pod.labels
        and not existed_before(pod, migration)
        and has_same_role(pod, migration)
    )
