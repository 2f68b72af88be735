"""Withdraws planned Migrations that have been pending for too long: they are planned anew.

How long is counted in this process, from the first round that saw a Migration pending: the clocks
of other machines may differ from ours. A restart counts anew, and so does every attempt.
"""

import logging
from collections.abc import Iterable

from rescheduler.controller.controller_observer import ControllerObserver
from rescheduler.controller.events.migration_events import MigrationEventRecorder
from rescheduler.errors import Conflict, Forbidden, NotFound, OutcomeUnknown, Refused
from rescheduler.kube.api_server import ApiServer, object_path
from rescheduler.kube.clock import Clock
from rescheduler.log_context import about_migration
from rescheduler.migration.executor import Executor
from rescheduler.migration.migration_object import MIGRATION, Migration
from rescheduler.migration.state_machine.observation import Observation
from rescheduler.migration.state_machine.status_transitions import cancelled, failed
from rescheduler.settings import Policy

logger = logging.getLogger(__name__)

# The cluster has changed since: a move that has not started by then is planned anew.
MAX_PENDING_SECONDS = 300.0


class StaleMigrations:
    """Finds planned Migrations that do not start, and withdraws them.

    A person has reasons for a Migration that they created or paused: it waits.
    """

    def __init__(
        self,
        server: ApiServer,
        executor: Executor,
        clock: Clock,
        events: MigrationEventRecorder,
        observer: ControllerObserver,
    ) -> None:
        self._server = server
        self._executor = executor
        self._clock = clock
        self._events = events
        self._observer = observer
        self._pending_since: dict[tuple[str, int], float] = {}
        """By the uid of a Migration and its attempts so far."""

    async def withdraw(self, migrations: Iterable[Migration], policy: Policy) -> None:
        """Withdraw those that have been pending for too long."""
        now = self._clock.seconds()
        pending = [migration for migration in migrations if may_be_withdrawn(migration)]
        self._pending_since = {
            identity(migration): self._pending_since.get(identity(migration), now)
            for migration in pending
        }
        for migration in pending:
            if now - self._pending_since[identity(migration)] <= MAX_PENDING_SECONDS:
                continue
            with about_migration(migration.key, migration.metadata.uid):
                await self._try_to_withdraw(migration, policy)

    async def _try_to_withdraw(self, migration: Migration, policy: Policy) -> None:
        try:
            await self._withdraw(migration, policy)
        except (Conflict, OutcomeUnknown, NotFound):
            # It has changed, perhaps started: the next round sees how.
            return
        except (Refused, Forbidden) as error:
            extra = {"error": str(error)}
            logger.warning("Failed to withdraw a migration", extra=extra)

    async def _withdraw(self, migration: Migration, policy: Policy) -> None:
        """Delete a Migration that was never tried; let one fail that has failed before.

        The planner remembers a failure, and leaves the workload alone for a while.
        """
        o = Observation(self._clock.now(), migration, policy.migration)
        metadata, minutes = migration.metadata, MAX_PENDING_SECONDS / 60
        why = f": {migration.status.message}" if migration.status.message else ""
        if migration.status.failures:
            message = f"given up, because it did not start again within {minutes:g} min{why}"
            end = failed(o, message)
            await self._executor.carry_out(end, o)
            self._observer.migration_updated(migration, end.status, o.now)
        else:
            end = cancelled(o, f"withdrawn, because it did not start within {minutes:g} min{why}")
            path = object_path(MIGRATION, metadata.key)
            await self._server.delete(path, uid=metadata.uid, version=metadata.resource_version)
            self._observer.migration_withdrawn(migration, end.status, o.now)
        extra = {"pod": migration.pod_key, "why": migration.status.message}
        logger.info("Withdrew a migration that had not started in time", extra=extra)
        if end.event is not None:
            self._events.record_for(migration, end.event, end.status)


def may_be_withdrawn(migration: Migration) -> bool:
    """Whether a planned migration waits, be it before its first attempt or a later one."""
    return migration.is_pending and bool(migration.spec.strategy) and not migration.spec.paused


def identity(migration: Migration) -> tuple[str, int]:
    """Another one after each attempt."""
    return migration.metadata.uid, migration.status.attempts
