"""Migrations under way that wait for a new pod, or for room on their target.

Each migration gets one pod. Once a watch has shown that pod, its label says whose it is. Until
then the migration is reserved for a moment, so that of two pods created at the same time only one
is taken for it.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rescheduler.labels import MIGRATION_ID
from rescheduler.migration.migration_object import Migration, Step
from rescheduler.migration.migration_watches import MigrationWatches
from rescheduler.migration.moving_pod import MovingPod, PodMeta
from rescheduler.migration.replacement import (
    is_in_namespace_of,
    is_of_stateful_set,
    may_be_steered,
    waits_for_replacement,
)
from rescheduler.model.tables.cluster_tables import ClusterTables

# Longer than a watch takes to show a pod, also on a busy machine: one pod is steered for each
# migration. A pod that is refused after all, by a quota perhaps, and created again later than
# that, is steered again.
RESERVED_SECONDS = 3.0

HeldAmounts = Mapping[str, int]


@dataclass(frozen=True)
class PromisedRoom:
    """Room that a migration under way needs on its target and has not taken yet."""

    node: str
    amounts: HeldAmounts
    """How much of each resource, in the scheduler's units."""
    kept_by_scheduler: bool = False
    """Whether the new pod is nominated to the node. The scheduler then keeps the room itself, from
    pods of no higher priority. To keep it a second time would take twice the room."""


@dataclass(frozen=True)
class Reservation:
    """The pod that a migration is reserved for, and until when."""

    pod_uid: str
    """Empty in the webhook: a pod has no uid before it exists."""
    expires: float


class WaitingMigrations:
    """What is planned for new pods, kept up to date by watches."""

    def __init__(
        self,
        tables: ClusterTables,
        watching: MigrationWatches,
        on_match: Callable[[PodMeta, Migration], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tables = tables
        self._on_match = on_match
        self._clock = clock
        self._under_way: dict[str, Migration] = {}
        self._key_of_uid: dict[str, str] = {}
        self._labelled: dict[str, MovingPod] = {}
        self._labelled_for: defaultdict[str, set[str]] = defaultdict(set)
        self._held: dict[str, HeldAmounts] = {}
        self._reserved: dict[str, Reservation] = {}
        self._matched: dict[str, str] = {}
        watching.follow(self._migration_changed, self._pod_changed)

    # ------------------------------------------------------------ queries

    def migration_for(self, pod: PodMeta, *, reserve: bool = True) -> Migration | None:
        """The migration that waits for this new pod; from then on it waits for no other."""
        if not self._under_way:
            return None
        for migration in self._under_way.values():
            if may_be_steered(pod, migration) and self._is_free(migration, pod.uid):
                if reserve:
                    expires = self._clock() + RESERVED_SECONDS
                    self._reserved[migration.metadata.uid] = Reservation(pod.uid, expires)
                return migration
        return None

    def migration_of(self, pod: PodMeta) -> Migration | None:
        """The migration under way whose label a pod of the same namespace has."""
        key = self._key_of_uid.get(pod.labels.get(MIGRATION_ID, ""))
        migration = None if key is None else self._under_way[key]
        return migration if migration is not None and is_in_namespace_of(pod, migration) else None

    def target_of(self, pod: PodMeta, *, reserve: bool = True) -> str | None:
        """The node that a migration has planned for a pod, if any.

        Calls `on_match` when a migration is first found for a pod without its label. Without
        `reserve`, the answer changes nothing.
        """
        migration = self.migration_of(pod)
        if migration is None:
            migration = self.migration_for(pod, reserve=reserve)
            is_new = migration is not None and self._matched.get(migration.metadata.uid) != pod.uid
            if migration is not None and is_new and reserve:
                self._matched[migration.metadata.uid] = pod.uid
                self._on_match(pod, migration)
        return None if migration is None else migration.spec.target_node

    def promises_to_others(self, pod: PodMeta) -> Sequence[PromisedRoom]:
        """Room that migrations of other pods need on their targets and have not taken yet."""
        if not self._under_way:
            return ()
        own = self.migration_of(pod) or self.migration_for(pod, reserve=False)
        return [
            PromisedRoom(migration.spec.target_node, amounts, self._is_nominated(migration))
            for migration in self._under_way.values()
            if migration is not own and (amounts := self._promised_to(migration))
        ]

    def reservations(self) -> int:
        """How many migrations under way need room on their targets that they have not taken yet."""
        return len(self._with_promises())

    def kept_for_replacements(self) -> int:
        """For how many of these the scheduler keeps no room itself.

        Most are replacements of evicted pods. Other new pods are nominated a moment after they are
        created.
        """
        return sum(not self._is_nominated(migration) for migration in self._with_promises())

    def _with_promises(self) -> list[Migration]:
        return [each for each in self._under_way.values() if self._promised_to(each)]

    # ------------------------------------------------------------ changes that watches show

    def _migration_changed(self, key: str, migration: Migration | None) -> None:
        known = self._under_way.pop(key, None)
        if known is not None:
            del self._key_of_uid[known.metadata.uid]
        if migration is None or not migration.is_in_progress:
            for ended in (known, migration):
                if ended is not None:
                    for by_uid in (self._held, self._reserved, self._matched):
                        by_uid.pop(ended.metadata.uid, None)
            return
        self._under_way[key] = migration
        self._key_of_uid[migration.metadata.uid] = key
        self._remember_room(migration)

    def _pod_changed(self, key: str, pod: MovingPod | None) -> None:
        known = self._labelled.pop(key, None)
        if known is not None:
            migration = known.metadata.labels.get(MIGRATION_ID, "")
            self._labelled_for[migration].discard(key)
            if not self._labelled_for[migration]:
                del self._labelled_for[migration]
        if pod is not None:
            self._labelled[key] = pod
            self._labelled_for[pod.metadata.labels.get(MIGRATION_ID, "")].add(key)

    def _remember_room(self, migration: Migration) -> HeldAmounts | None:
        """What the moving pod takes up; once it is evicted, the tables no longer know."""
        uid = migration.metadata.uid
        if uid not in self._held:
            held = self._tables.pods.held_by(migration.pod_key)
            if held is not None:
                self._held[uid] = held
        return self._held.get(uid)

    # ------------------------------------------------------------ one migration

    def _is_free(self, migration: Migration, pod_uid: str) -> bool:
        """Whether no other pod has been found for it."""
        found = self._new_pods(migration)
        if found:
            # The scheduler may not have seen its mark yet.
            return all(pod.uid == pod_uid for pod in found)
        if is_of_stateful_set(migration):
            # Only one pod has its name. The StatefulSet may try to create it several times, until
            # the old pod of that name is deleted.
            return True
        reserved = self._reserved.get(migration.metadata.uid)
        if reserved is None or reserved.expires <= self._clock():
            return True
        return bool(pod_uid) and reserved.pod_uid == pod_uid

    def _promised_to(self, migration: Migration) -> HeldAmounts | None:
        """The room that a migration still needs on its target, if any."""
        needs = migration.status.step == Step.STARTING or waits_for_replacement(migration)
        if not needs or any(pod.node for pod in self._new_pods(migration)):
            return None
        return self._remember_room(migration)

    def _is_nominated(self, migration: Migration) -> bool:
        """Whether its new pod is nominated to its target."""
        nominated_node_of = self._tables.pods.nominated_node_of
        target = migration.spec.target_node
        return any(nominated_node_of(pod.key) == target for pod in self._new_pods(migration))

    def _new_pods(self, migration: Migration) -> list[MovingPod]:
        """The pods that have its label, without the one it moves."""
        keys = self._labelled_for.get(migration.metadata.uid, ())
        labelled = (self._labelled[key] for key in keys)
        return [
            pod
            for pod in labelled
            if pod.uid != migration.spec.pod.uid and is_in_namespace_of(pod.metadata, migration)
        ]
