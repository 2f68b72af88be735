"""What the controller watches: Migrations, the pods they have marked, and the whole cluster."""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any, Literal

from rescheduler.controller import watch_index
from rescheduler.errors import NotFound, SettingsError
from rescheduler.kube.api_server import ApiServer
from rescheduler.kube.clock import WALL_CLOCK
from rescheduler.kube.listwatch import ListWatch, WatchSettings
from rescheduler.kube.live_store import LiveStore, all_of
from rescheduler.labels import MIGRATION_ID, MIGRATION_NAME
from rescheduler.migration.crd import NAME
from rescheduler.migration.leftover_cleanup import is_part_of
from rescheduler.migration.migration_object import MIGRATION, Migration
from rescheduler.migration.moving_pod import MARKED_POD, MovingPod
from rescheduler.migration.pod_marks import is_in_progress
from rescheduler.migration.read_your_writes import ReadYourWrites
from rescheduler.model.kinds import (
    BUDGET,
    DEPLOYMENT,
    NODE,
    POD,
    REPLICA_SET,
    REPLICATION_CONTROLLER,
    Kind,
)
from rescheduler.model.tables.cluster_tables import ClusterTables
from rescheduler.model.tables.object_table import ObjectTable
from rescheduler.model.tables.table import TableChange

MigrationChanged = Callable[[str, Migration | None], None]
MarkedPodChanged = Callable[[str, MovingPod | None], None]
ThingChanged = Callable[[str, str], None]
LeftoverSeen = Callable[[Literal["Pod", "PodDisruptionBudget"], str], None]

# Kinds of which a change is of interest to those who know the object by its key.
BY_KEY = (NODE, REPLICA_SET, REPLICATION_CONTROLLER, DEPLOYMENT)


class CrdMissing(SettingsError):
    """The server does not know Migrations."""

    def __init__(self) -> None:
        super().__init__(
            f"{NAME}: the API server does not know this kind; install it with: "
            "rescheduler crds | kubectl apply -f -"
        )


class MigrationWatches:
    """Watches, and who is told of what they show.

    The store is somebody else's, who starts and stops it; planning reads it as well.
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
        self.tables = tables
        self._store = store
        self._migration_table: ObjectTable[Migration] = ObjectTable(MIGRATION)
        self._pod_table: ObjectTable[MovingPod] = ObjectTable(MARKED_POD)
        self.migrations = ReadYourWrites(self._migration_table, lambda migration: True, clock)
        self.pods = ReadYourWrites(self._pod_table, is_in_progress, clock)
        self._migration_watch = ListWatch(server, self._migration_table, settings, clock, chance)
        self._pod_watch = ListWatch(server, self._pod_table, settings, clock, chance)

    def all_migrations(self) -> list[Migration]:
        """Every Migration there is, as it was last seen or written."""
        keys = self._migration_table.by_key()
        found = (self.migrations.get(key) for key in keys)
        return [migration for migration in found if migration is not None]

    def subscribe(
        self, migration_changed: MigrationChanged, thing_changed: ThingChanged, seen: LeftoverSeen
    ) -> None:
        """Tell of changes from now on."""

        def see_migration(change: TableChange) -> None:
            self.migrations.take(change)
            migration = self._migration_table.get(change.key)
            migration_changed(change.key, migration)
            if migration is None or migration.is_finished:
                self._suspect(change.uid, seen)

        def see_marked_pod(change: TableChange) -> None:
            self.pods.take(change)
            thing_changed(watch_index.MARKED_POD, change.key)
            pod = self._pod_table.get(change.key)
            if pod is not None and self._is_suspect(pod):
                seen("Pod", change.key)

        def see_budget(change: TableChange) -> None:
            thing_changed(watch_index.BUDGET_IN, change.key.partition("/")[0])
            budget = self.tables.of(BUDGET).get(change.key)
            if budget is not None and MIGRATION_ID in budget.metadata.labels:
                seen("PodDisruptionBudget", change.key)

        def see_pod(change: TableChange) -> None:
            thing_changed(watch_index.ANY_POD, change.key)
            thing_changed(watch_index.POD_IN, change.key.partition("/")[0])

        self._migration_watch.subscribe(see_migration)
        self._pod_watch.subscribe(see_marked_pod)
        self._store.subscribe(BUDGET, see_budget)
        self._store.subscribe(POD, see_pod)
        for kind in BY_KEY:
            self._store.subscribe(kind, telling(kind, thing_changed))
        self._tell_what_is_known(seen)

    def follow(
        self, migration_changed: MigrationChanged, marked_pod_changed: MarkedPodChanged
    ) -> None:
        """Tell someone who only looks on; None means that it is gone, or no longer marked."""
        migrations, pods = self._migration_table, self._pod_table
        self._migration_watch.subscribe(
            lambda change: migration_changed(change.key, migrations.get(change.key))
        )
        self._pod_watch.subscribe(
            lambda change: marked_pod_changed(change.key, pods.get(change.key))
        )

    def start(self) -> list[asyncio.Task[None]]:
        """Begin to watch."""
        return [
            asyncio.create_task(watch.run(), name=f"watch {watch.kind.plural} of migrations")
            for watch in (self._migration_watch, self._pod_watch)
        ]

    @property
    def has_synced(self) -> bool:
        """Whether Migrations and their pods have been listed once."""
        return self._migration_watch.synced and self._pod_watch.synced

    async def synced(self) -> None:
        """Return when everything has been listed once."""
        try:
            await self._migration_watch.wait_synced()
        except NotFound as error:
            raise CrdMissing from error
        await all_of([self._pod_watch.wait_synced(), self._store.synced()])

    def _is_suspect(self, pod: MovingPod) -> bool:
        """Whether a marked pod seems to have no migration that looks after it."""
        name = pod.metadata.annotations.get(MIGRATION_NAME, "")
        return not is_part_of(pod, self.migrations.get(f"{pod.metadata.namespace}/{name}"))

    def _suspect(self, uid: str, seen: LeftoverSeen) -> None:
        """A migration is over: look whether it has left anything behind."""
        for key, pod in self._pod_table.by_key().items():
            if pod.metadata.labels.get(MIGRATION_ID) == uid:
                seen("Pod", key)
        self._suspect_budgets(seen, uid)

    def _suspect_budgets(self, seen: LeftoverSeen, uid: str | None = None) -> None:
        for key, budget in self.tables.of(BUDGET).by_key().items():
            whose = budget.metadata.labels.get(MIGRATION_ID)
            if whose is not None and uid in (None, whose):
                seen("PodDisruptionBudget", key)

    def _tell_what_is_known(self, seen: LeftoverSeen) -> None:
        """The store may have been filled before anyone listened."""
        self._suspect_budgets(seen)


def telling(kind: Kind[Any], thing_changed: ThingChanged) -> Callable[[TableChange], None]:
    """Tells of objects of a kind by their key."""
    return lambda change: thing_changed(kind.name, change.key)
