"""Who wants to know what the controller does derives from the observer, for example to count."""

from datetime import datetime

from rescheduler.controller.round_cache import RoundAttempt
from rescheduler.migration.migration_object import Migration, MigrationStatus


class ControllerObserver:
    """Is called when something has happened, on the loop of migrations. Does nothing itself."""

    def round_ended(self, attempt: RoundAttempt) -> None:
        """A round has ended, with or without a plan."""

    def migration_updated(
        self, migration: Migration, status: MigrationStatus, now: datetime
    ) -> None:
        """A Migration was given this status; `migration` still has the one before."""

    def began_to_lead(self) -> None:
        """This replica plans and migrates from now on."""

    def ceased_to_lead(self) -> None:
        """This replica plans and migrates no more."""


NO_OBSERVER = ControllerObserver()
