"""Who wants to know what the controller does derives from the observer, for example to count."""

import logging
from collections.abc import Callable
from datetime import datetime

from rescheduler.controller.round_cache import RoundAttempt
from rescheduler.migration.migration_object import Migration, MigrationStatus

logger = logging.getLogger(__name__)


class ControllerObserver:
    """Is called when something has happened, on the loop of migrations. Does nothing itself."""

    def round_ended(self, attempt: RoundAttempt) -> None:
        """A round has ended, with or without a plan."""

    def migration_updated(
        self, migration: Migration, status: MigrationStatus, now: datetime
    ) -> None:
        """A Migration was given this status; `migration` still has the one before."""

    def migration_withdrawn(
        self, migration: Migration, status: MigrationStatus, now: datetime
    ) -> None:
        """A Migration was deleted that had never started; with this status it would have ended."""

    def began_to_lead(self) -> None:
        """This replica plans and migrates from now on."""

    def ceased_to_lead(self) -> None:
        """This replica plans and migrates no more."""


class Observers(ControllerObserver):
    """Passes on what happens to several. If one of them fails, that is logged, and nothing else."""

    def __init__(self, *observers: ControllerObserver) -> None:
        self._observers = observers

    def round_ended(self, attempt: RoundAttempt) -> None:
        self._notify(lambda observer: observer.round_ended(attempt))

    def migration_updated(
        self, migration: Migration, status: MigrationStatus, now: datetime
    ) -> None:
        self._notify(lambda observer: observer.migration_updated(migration, status, now))

    def migration_withdrawn(
        self, migration: Migration, status: MigrationStatus, now: datetime
    ) -> None:
        self._notify(lambda observer: observer.migration_withdrawn(migration, status, now))

    def began_to_lead(self) -> None:
        self._notify(lambda observer: observer.began_to_lead())

    def ceased_to_lead(self) -> None:
        self._notify(lambda observer: observer.ceased_to_lead())

    def _notify(self, call: Callable[[ControllerObserver], None]) -> None:
        for observer in self._observers:
            try:
                call(observer)
            except Exception:
                # A metric that cannot be counted must not stop a migration.
                logger.exception("Failed to pass on what the controller did")


NO_OBSERVER = ControllerObserver()
