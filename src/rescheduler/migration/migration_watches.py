"""Watches of Migrations and of the pods labelled with them, beside the store of the cluster."""

import asyncio
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from rescheduler.errors import NotFound, SettingsError
from rescheduler.kube.api_server import ApiServer
from rescheduler.kube.clock import WALL_CLOCK
from rescheduler.kube.listwatch import ListWatch, WatchSettings
from rescheduler.kube.live_store import (
    KindStatus,
    LiveStore,
    all_of,
    kind_status,
    no_list_of,
)
from rescheduler.labels import MIGRATION_ID, MIGRATION_NAME, ORIGINAL_POD
from rescheduler.migration import migration_labels
from rescheduler.migration.crd import NAME
from rescheduler.migration.memory.move_memory import MoveMemory
from rescheduler.migration.migration_object import MIGRATION, Migration
from rescheduler.migration.moving_pod import LABELLED_POD, MovingPod
from rescheduler.migration.new_pod import new_pod_name
from rescheduler.migration.read_your_writes import ReadYourWrites
from rescheduler.migration.workload_findings import WorkloadFindings
from rescheduler.model.tables.cluster_tables import ClusterTables
from rescheduler.model.tables.object_table import ObjectTable
from rescheduler.model.tables.table import TableChange

MigrationChanged = Callable[[TableChange, Migration | None], None]
LabelledPodChanged = Callable[[TableChange, MovingPod | None], None]


class CrdMissing(SettingsError):
    """The CustomResourceDefinition of Migrations is not installed."""

    def __init__(self) -> None:
        super().__init__(
            f"{NAME}: the API server does not know this kind; install it with: "
            "rescheduler crds | kubectl apply -f -"
        )


class MigrationWatches:
    """Lists and watches Migrations and labelled pods.

    The store is started and stopped by its owner; planning reads it as well.
    """

    def __init__(
        self,
        server: ApiServer,
        store: LiveStore,
        tables: ClusterTables,
        settings: WatchSettings | None = None,
        clock: Callable[[], float] = WALL_CLOCK.seconds,
        chance: Random | None = None,
    ) -> None:
        self._clock = clock
        self.store = store
        self.tables = tables
        self._migration_table: ObjectTable[Migration] = ObjectTable(MIGRATION)
        self._pod_table: ObjectTable[MovingPod] = ObjectTable(LABELLED_POD)
        self.migrations = ReadYourWrites(self._migration_table, lambda migration: True, clock)
        self.pods = ReadYourWrites(self._pod_table, migration_labels.is_in_progress, clock)
        self._migration_watch = ListWatch(server, self._migration_table, settings, clock, chance)
        self._pod_watch = ListWatch(server, self._pod_table, settings, clock, chance)
        # Before all other subscribers, which may read what was written.
        self._migration_watch.subscribe(self.migrations.observe)
        self.memory = MoveMemory(server, settings, clock, chance)
        """Moves that are over. Who needs them runs it: the extender does not."""
        self.findings = WorkloadFindings(self._migration_table, self.memory.with_findings)
        self._migration_watch.subscribe(self.findings.observe)
        self._pod_watch.subscribe(self.pods.observe)

    def all_migrations(self) -> list[Migration]:
        """Every Migration, in its newest known version."""
        keys = self._migration_table.by_key()
        found = (self.migrations.get(key) for key in keys)
        return [migration for migration in found if migration is not None]

    def labelled_pods(self) -> Mapping[str, MovingPod]:
        """By key: the pods labelled with a migration that may still be rolled back."""
        return self._pod_table.by_key()

    def may_be_leftover(self, pod: MovingPod) -> bool:
        """Whether no known migration takes care of a pod that is labelled with one."""
        name = pod.metadata.annotations.get(MIGRATION_NAME, "")
        migration = self.migrations.get(f"{pod.metadata.namespace}/{name}")
        return migration_labels.is_in_progress(pod) and not is_part_of(pod, migration)

    def subscribe(
        self, migration_changed: MigrationChanged, labelled_pod_changed: LabelledPodChanged
    ) -> Callable[[], None]:
        """Call back with every change, and the object as the watch shows it.

        None means that it was deleted, or that a pod has lost its label. Whoever needs it no longer
        calls what is returned.
        """
        migrations, pods = self._migration_table, self._pod_table
        subscriptions = (
            self._migration_watch.subscribe(
                lambda change: migration_changed(change, migrations.get(change.key))
            ),
            self._pod_watch.subscribe(
                lambda change: labelled_pod_changed(change, pods.get(change.key))
            ),
        )

        def unsubscribe() -> None:
            for end in subscriptions:
                end()

        return unsubscribe

    def follow(
        self,
        migration_changed: Callable[[str, Migration | None], None],
        labelled_pod_changed: Callable[[str, MovingPod | None], None],
    ) -> None:
        """`subscribe` for those who only need to know an object by its key."""
        self.subscribe(
            lambda change, migration: migration_changed(change.key, migration),
            lambda change, pod: labelled_pod_changed(change.key, pod),
        )

    def start(self) -> list[asyncio.Task[None]]:
        """Start the watches; the caller cancels the tasks."""
        return [
            asyncio.create_task(watch.run(), name=f"watch {watch.kind.plural} of migrations")
            for watch in (self._migration_watch, self._pod_watch)
        ]

    def age(self) -> float | None:
        """The age of what is oldest, the store included; None until the cluster is loaded.

        What was never listed does not count: records that nobody reads here, or Migrations in a
        dry run without their CustomResourceDefinition.
        """
        of_cluster = self.store.age()
        return None if of_cluster is None else max([of_cluster, *self._own_ages().values()])

    def ages(self) -> dict[str, float]:
        """By resource: seconds since what is known of it was last known to be up to date."""
        found = self.store.ages()
        for resource, age in self._own_ages().items():
            found[resource] = max(age, found.get(resource, 0.0))
        return found

    def _own_ages(self) -> dict[str, float]:
        now = self._clock()
        watches = (self._migration_watch, self._pod_watch, self.memory.watch)
        found = {watch.kind.plural: watch.age(now) for watch in watches}
        return {resource: age for resource, age in found.items() if age is not None}

    def status(self) -> list[KindStatus]:
        """How up to date what is known of each kind is, that of the store included."""
        watches = {**self._needed_watches(), "MoveRecord": self.memory.watch}
        own = [kind_status(name, watch, self._clock()) for name, watch in watches.items()]
        return [*self.store.status(), *own]

    def _needed_watches(self) -> dict[str, ListWatch[Any]]:
        return {"Migration": self._migration_watch, "Pod of a Migration": self._pod_watch}

    @property
    def are_listed(self) -> bool:
        """Whether Migrations and their pods have been listed once."""
        return all(watch.synced for watch in self._needed_watches().values())

    def why_not_loaded(self) -> str:
        """Why the cluster, Migrations and their pods are not known well; empty if they are."""
        if why := self.store.why_not_current():
            return why
        watches = self._needed_watches()
        waiting = {name: watch for name, watch in watches.items() if not watch.synced}
        errors = [str(watch.last_error or "") for watch in waiting.values()]
        missing = no_list_of(list(waiting), errors)
        return f"the cluster is not loaded yet: {missing}" if waiting else ""

    async def synced(self) -> None:
        """Return when everything has been listed once, the store included."""
        try:
            await self._migration_watch.wait_synced()
        except NotFound as error:
            raise CrdMissing from error
        await all_of([self._pod_watch.wait_synced(), self.store.synced()])


def is_part_of(pod: MovingPod, migration: Migration | None) -> bool:
    """Whether this migration still takes care of a labelled pod."""
    if migration is None or migration.is_finished:
        return False
    if not migration_labels.is_labelled_for(pod, migration):
        return False
    if is_unadopted_new_pod(pod):
        return pod.metadata.name == new_pod_name(migration)
    return migration.is_in_progress


def is_unadopted_new_pod(pod: MovingPod) -> bool:
    """Whether a migration has created the pod and no workload has adopted it."""
    is_new = ORIGINAL_POD in pod.metadata.annotations and pod.metadata.controller is None
    has_migration = bool(pod.metadata.labels.get(MIGRATION_ID))
    return is_new and migration_labels.is_in_progress(pod) and has_migration
