"""Puts keys into the work queue when watches show changes."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Literal, NamedTuple

from rescheduler.controller import watch_index
from rescheduler.controller.in_flight_limiter import InFlightLimiter
from rescheduler.controller.watch_index import WatchIndex
from rescheduler.controller.work_queue import WorkQueue
from rescheduler.labels import MIGRATION_ID
from rescheduler.migration.migration_object import Migration
from rescheduler.migration.migration_watches import MigrationWatches
from rescheduler.migration.moving_pod import MovingPod
from rescheduler.model.kinds import (
    BUDGET,
    DEPLOYMENT,
    NODE,
    POD,
    REPLICA_SET,
    REPLICATION_CONTROLLER,
    Kind,
)
from rescheduler.model.tables.table import TableChange

# Kinds whose objects migrations watch by key.
WATCHED_BY_KEY = (NODE, REPLICA_SET, REPLICATION_CONTROLLER, DEPLOYMENT)


class WorkItem(NamedTuple):
    """A key in the queue: a Migration to reconcile, or an object that may be a leftover."""

    kind: Literal["Migration", "Pod", "PodDisruptionBudget"]
    key: str


class ChangeHandlers:
    """Queues a Migration when it or an object it depends on changes, and possible leftovers."""

    def __init__(
        self,
        watches: MigrationWatches,
        index: WatchIndex,
        limiter: InFlightLimiter,
        queue: WorkQueue[WorkItem],
    ) -> None:
        self._watches = watches
        self._index = index
        self._limiter = limiter
        self._queue = queue

    @contextmanager
    def subscribed(self) -> Iterator[None]:
        """Handle every change while the block runs, and first what the watches already show."""
        store = self._watches.store
        with ExitStack() as stack:
            stack.callback(
                self._watches.subscribe(self._migration_changed, self._labelled_pod_changed)
            )
            stack.callback(store.subscribe(BUDGET, self._budget_changed))
            stack.callback(store.subscribe(POD, self._pod_changed))
            for kind in WATCHED_BY_KEY:
                stack.callback(store.subscribe(kind, self._handler_for(kind)))
            self._handle_known_objects()
            yield

    def _handle_known_objects(self) -> None:
        for migration in self._watches.all_migrations():
            change = TableChange("Added", migration.key, migration.metadata.uid)
            self._migration_changed(change, migration)
        for key, pod in self._watches.labelled_pods().items():
            self._labelled_pod_changed(TableChange("Added", key, pod.uid), pod)
        self._queue_budgets()

    def _migration_changed(self, change: TableChange, migration: Migration | None) -> None:
        # One that another process has started takes up a slot before any worker looks at it.
        if migration is not None and migration.is_in_progress:
            self._limiter.update(change.key, migration)
        self._queue.add(WorkItem("Migration", change.key))
        if migration is None or migration.is_finished:
            self._queue_objects_of(change.uid)

    def _labelled_pod_changed(self, change: TableChange, pod: MovingPod | None) -> None:
        self._queue_watching(watch_index.LABELLED_POD, change.key)
        if pod is not None and self._watches.may_be_leftover(pod):
            self._queue.add(WorkItem("Pod", change.key))

    def _budget_changed(self, change: TableChange) -> None:
        self._queue_watching(watch_index.BUDGET_IN_NAMESPACE, change.key.partition("/")[0])
        budget = self._watches.tables.of(BUDGET).get(change.key)
        if budget is not None and MIGRATION_ID in budget.metadata.labels:
            self._queue.add(WorkItem("PodDisruptionBudget", change.key))

    def _pod_changed(self, change: TableChange) -> None:
        self._queue_watching(watch_index.ANY_POD, change.key)
        owner = self._watches.tables.pods.owner_uid_of(change.key)
        if owner:
            self._queue_watching(watch_index.POD_OF_OWNER, owner)

    def _handler_for(self, kind: Kind[Any]) -> Callable[[TableChange], None]:
        return lambda change: self._queue_watching(kind.name, change.key)

    def _queue_watching(self, kind: str, key: str) -> None:
        for migration in self._index.migrations_watching(kind, key):
            self._queue.add(WorkItem("Migration", migration))

    # ------------------------------------------------------------ leftovers

    def _queue_objects_of(self, migration_uid: str) -> None:
        """A migration is over: check whether it has left anything behind."""
        for key, pod in self._watches.labelled_pods().items():
            if pod.metadata.labels.get(MIGRATION_ID) == migration_uid:
                self._queue.add(WorkItem("Pod", key))
        self._queue_budgets(migration_uid)

    def _queue_budgets(self, migration_uid: str | None = None) -> None:
        """Check the temporary budgets of one migration, or of all."""
        for key, budget in self._watches.tables.of(BUDGET).by_key().items():
            labelled_with = budget.metadata.labels.get(MIGRATION_ID)
            if labelled_with is not None and migration_uid in (None, labelled_with):
                self._queue.add(WorkItem("PodDisruptionBudget", key))
