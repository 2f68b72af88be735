"""Snapshots of built objects, for tests without a cluster."""

from collections.abc import Iterable

import msgspec

from rescheduler.model.kinds import KIND_BY_NAME
from rescheduler.model.snapshot import Snapshot
from rescheduler.model.tables.cluster_tables import ClusterTables
from testcluster.client import JsonObject


def snapshot_of(objects: Iterable[JsonObject]) -> Snapshot:
    """The snapshot of a cluster with these objects."""
    tables = ClusterTables()
    for item in objects:
        kind = KIND_BY_NAME[item["kind"]]
        tables.of(kind).put(msgspec.convert(item, kind.type))
    return tables.snapshot()
