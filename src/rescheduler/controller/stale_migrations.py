"""Deletes planned Migrations that did not start in time: they are planned anew."""

import logging
from collections.abc import Iterable
from datetime import datetime, timedelta

from rescheduler.errors import Conflict, NotFound, OutcomeUnknown
from rescheduler.kube.api_server import ApiServer, object_path
from rescheduler.migration.migration_object import MIGRATION, Migration, Phase

logger = logging.getLogger(__name__)

# The cluster has changed since: a move that has not started by then is planned anew.
MAX_PENDING_TIME = timedelta(minutes=5)


def is_stale(migration: Migration, now: datetime) -> bool:
    """Whether a planned move has waited so long that it may no longer be a good one."""
    created = migration.metadata.creation_timestamp
    never_started = migration.status.phase == Phase.PENDING and not migration.status.attempts
    is_planned = bool(migration.spec.strategy) and not migration.spec.paused
    return is_planned and never_started and created is not None and now - created > MAX_PENDING_TIME


async def delete_stale_migrations(
    server: ApiServer, migrations: Iterable[Migration], now: datetime
) -> None:
    """Delete planned migrations that did not start in time."""
    for migration in migrations:
        if not is_stale(migration, now):
            continue
        metadata = migration.metadata
        path = object_path(MIGRATION, metadata.key)
        try:
            await server.delete(path, uid=metadata.uid, version=metadata.resource_version)
        except (Conflict, OutcomeUnknown, NotFound):
            continue
        extra = {"migration": metadata.key, "why": migration.status.message}
        logger.info("Deleted a migration that had not started in time", extra=extra)
