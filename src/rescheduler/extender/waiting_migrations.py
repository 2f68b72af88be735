"""Migrations under way, as the scheduler side sees them: who waits for a pod, and for room.

Each migration gets one pod. Once that pod exists its mark shows whose it is; until a watch has
shown it, the place is reserved for a moment, so that two pods made in the same moment are
not both taken for it.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rescheduler.extender.promised_room import Promise
from rescheduler.extender.webhook.steering import may_be_steered
from rescheduler.labels import MIGRATION_ID
from rescheduler.migration.migration_object import Migration, Step
from rescheduler.migration.migration_watches import MigrationWatches
from rescheduler.migration.moving_pod import MovingPod, PodMeta
from rescheduler.migration.replacement import is_of_stateful_set, waits_for_replacement
from rescheduler.model.tables.cluster_tables import ClusterTables

# Longer than a watch takes to show a pod, also on a busy machine: one pod is steered for each
# migration. One that is refused after all, by a quota perhaps, and made again later than that, is
# steered again.
RESERVED_SECONDS = 3.0

Amounts = Mapping[str, int]


@dataclass(frozen=True)
class Reservation:
    """For whom a migration is spoken for, and until when; without a uid the pod is just made."""

    pod: str
    until: float


class WaitingMigrations:
    """What is planned for pods that come, kept up to date by watches."""

    def __init__(
        self,
        tables: ClusterTables,
        watching: MigrationWatches,
        matched: Callable[[PodMeta, Migration], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tables = tables
        self._matched = matched
        self._clock = clock
        self._under_way: dict[str, Migration] = {}
        self._key_of: dict[str, str] = {}
        self._marked: dict[str, MovingPod] = {}
        self._marked_for: defaultdict[str, set[str]] = defaultdict(set)
        self._held: dict[str, Amounts] = {}
        self._reserved: dict[str, Reservation] = {}
        self._told: dict[str, str] = {}
        watching.follow(self._migration_changed, self._pod_changed)

    # ------------------------------------------------------------ questions

    def migration_for(self, pod: PodMeta, *, reserve: bool = True) -> Migration | None:
        """The migration that waits for this new pod; from then on it waits for no other."""
        if not self._under_way:
            return None
        for migration in self._under_way.values():
            if may_be_steered(pod, migration) and self._is_free(migration, pod.uid):
                if reserve:
                    until = self._clock() + RESERVED_SECONDS
                    self._reserved[migration.metadata.uid] = Reservation(pod.uid, until)
                return migration
        return None

    def migration_of(self, pod: PodMeta) -> Migration | None:
        """The migration under way whose mark a pod carries."""
        key = self._key_of.get(pod.labels.get(MIGRATION_ID, ""))
        return None if key is None else self._under_way[key]

    def target_of(self, pod: PodMeta) -> str | None:
        """The node that is planned for a pod, if any; tells when it is first found for one."""
        migration = self.migration_of(pod)
        if migration is None:
            migration = self.migration_for(pod)
            if migration is not None and self._told.get(migration.metadata.uid) != pod.uid:
                self._told[migration.metadata.uid] = pod.uid
                self._matched(pod, migration)
        return None if migration is None else migration.spec.target_node

    def promises_to_others(self, pod: PodMeta) -> Sequence[Promise]:
        """Room that migrations need on their targets and have not taken yet."""
        if not self._under_way:
            return ()
        own = self.migration_of(pod) or self.migration_for(pod)
        return [
            Promise(migration.metadata.uid, migration.spec.target_node, held)
            for migration in self._under_way.values()
            if migration is not own and (held := self._promised_to(migration))
        ]

    # ------------------------------------------------------------ what watches show

    def _migration_changed(self, key: str, migration: Migration | None) -> None:
        known = self._under_way.pop(key, None)
        if known is not None:
            del self._key_of[known.metadata.uid]
        if migration is None or not migration.is_in_progress:
            for forgotten in (known, migration):
                if forgotten is not None:
                    for known_by_uid in (self._held, self._reserved, self._told):
                        known_by_uid.pop(forgotten.metadata.uid, None)
            return
        self._under_way[key] = migration
        self._key_of[migration.metadata.uid] = key
        self._remember_room(migration)

    def _pod_changed(self, key: str, pod: MovingPod | None) -> None:
        known = self._marked.pop(key, None)
        if known is not None:
            migration = known.metadata.labels.get(MIGRATION_ID, "")
            self._marked_for[migration].discard(key)
            if not self._marked_for[migration]:
                del self._marked_for[migration]
        if pod is not None:
            self._marked[key] = pod
            self._marked_for[pod.metadata.labels.get(MIGRATION_ID, "")].add(key)

    def _remember_room(self, migration: Migration) -> Amounts | None:
        """What the pod takes up: when it has been evicted, nobody can tell any more."""
        uid = migration.metadata.uid
        if uid not in self._held:
            held = self._tables.pods.held_by(migration.pod_key)
            if held is not None:
                self._held[uid] = held
        return self._held.get(uid)

    # ------------------------------------------------------------ one migration

    def _is_free(self, migration: Migration, pod: str) -> bool:
        """Whether no other pod has been found for it."""
        if self._new_pods(migration):
            return False
        if is_of_stateful_set(migration):
            # Only one pod has its name. Making it may be tried several times, until the old one of
            # that name is gone.
            return True
        reserved = self._reserved.get(migration.metadata.uid)
        if reserved is None or reserved.until <= self._clock():
            return True
        return bool(pod) and reserved.pod == pod

    def _promised_to(self, migration: Migration) -> Amounts | None:
        """The room that a migration still needs on its target, if any."""
        needs = migration.status.step == Step.STARTING or waits_for_replacement(migration)
        if not needs or any(pod.node for pod in self._new_pods(migration)):
            return None
        return self._remember_room(migration)

    def _new_pods(self, migration: Migration) -> list[MovingPod]:
        """The pods that carry its mark, without the one it moves."""
        keys = self._marked_for.get(migration.metadata.uid, ())
        marked = (self._marked[key] for key in keys)
        return [pod for pod in marked if pod.uid != migration.spec.pod.uid]
