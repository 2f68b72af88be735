"""Who is in flight and who waits for a place."""

from rescheduler.controller.in_flight_limits import (
    InFlightSlot,
    next_to_start,
    slot_of,
    why_no_slot,
)
from rescheduler.migration.migration_object import Migration
from rescheduler.migration.state_machine.observation import Observation
from rescheduler.settings import MigrationOptions


class InFlightLimiter:
    """Keeps migrations within the limits. A place is reserved in the moment it is found free."""

    def __init__(self, options: MigrationOptions) -> None:
        self.options = options
        self._flying: dict[str, InFlightSlot] = {}
        self._waiting: dict[str, InFlightSlot] = {}

    def __len__(self) -> int:
        return len(self._flying)

    def still_waits(self, key: str) -> bool:
        """Whether a migration that has been told to wait would be told so again."""
        return key in self._waiting and bool(self._take(key, self._waiting[key]))

    def ask(self, o: Observation) -> str:
        """Why this migration may not start now; if nothing, its place is reserved."""
        return self._take(o.migration.key, slot_wanted(o))

    def settle(self, key: str, migration: Migration | None) -> list[str]:
        """Take note of how a migration is doing now; who may start because of it."""
        if migration is not None and migration.is_in_progress:
            self._flying[key] = slot_of(migration)
            self._waiting.pop(key, None)
            return []
        if migration is None or migration.is_finished:
            self._waiting.pop(key, None)
        left = self._flying.pop(key, None) is not None
        return self.next_to_start() if left else []

    def next_to_start(self) -> list[str]:
        """Those that wait and may start now."""
        return next_to_start(self._waiting, self._flying.values(), self.options)

    def _take(self, key: str, flight: InFlightSlot) -> str:
        others = [each for other, each in self._flying.items() if other != key]
        reason = why_no_slot(flight, others, self.options)
        if reason:
            self._waiting.setdefault(key, flight)
        else:
            self._waiting.pop(key, None)
            self._flying[key] = flight
        return reason


def slot_wanted(o: Observation) -> InFlightSlot:
    """What a migration would take up if it started now."""
    owner = o.old.metadata.controller if o.old is not None else None
    return InFlightSlot(
        namespace=o.migration.metadata.namespace,
        source=o.old.node if o.old is not None else "",
        target=o.migration.spec.target_node,
        workload=owner.uid if owner is not None else "",
        replicas=o.workload.replicas if o.workload is not None else 1,
    )
