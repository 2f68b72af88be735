"""Reads once all moves that are over, for people who ask what was moved."""

from collections.abc import Callable

from rescheduler.errors import Forbidden, NotFound
from rescheduler.kube.api_server import ApiServer
from rescheduler.kube.listwatch import ListWatch
from rescheduler.migration.memory.move_record import MOVE_RECORD, MoveRecord, record_of
from rescheduler.migration.migration_object import MIGRATION, Migration
from rescheduler.model.tables.object_table import ObjectTable


async def read_records(server: ApiServer, on_missing: Callable[[str], None]) -> list[MoveRecord]:
    """The record of every move that is over, the latest first.

    Those of Migrations that have just finished may not be written yet. If one of the two kinds
    cannot be read, the other one counts, and `on_missing` gets a sentence about it.
    """
    records: ObjectTable[MoveRecord] = ObjectTable(MOVE_RECORD)
    migrations: ObjectTable[Migration] = ObjectTable(MIGRATION)
    errors = []
    for watch in (ListWatch(server, records), ListWatch(server, migrations)):
        try:
            await watch.list()
        except (Forbidden, NotFound) as error:
            errors.append(error)
    if len(errors) == 2:
        raise errors[1]
    for missing in errors:
        on_missing(f"some moves may be missing: {missing}")
    ended = (record_of(migration) for migration in migrations.by_key().values())
    found = {record.name: record for record in ended if record is not None} | records.by_key()
    return sorted(found.values(), key=lambda record: record.spec.finished_at, reverse=True)
