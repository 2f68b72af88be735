"""The memory that 20,000 pods of one ReplicaSet take in the tables, as they are and once moved."""

import gc
import tracemalloc
from uuid import UUID

import msgspec

from benchmarks.figures import Figure, report
from rescheduler.labels import (
    MIGRATED_FROM,
    MIGRATION_ID,
    MIGRATION_NAME,
    MIGRATION_REASON,
    MIGRATION_STATUS,
    ORIGINAL_POD,
)
from rescheduler.model.objects import Pod
from rescheduler.model.tables.cluster_tables import ClusterTables
from testcluster.builders import pod, replicaset

PODS, NODES = 20_000, 1_000
OWNER = replicaset("shop/web", replicas=PODS)


def main() -> None:
    ClusterTables().snapshot()  # imports what is imported late
    stayed, moved = megabytes(moved=False), megabytes(moved=True)
    figures = [
        Figure(f"{PODS:,} pods of one template: memory", stayed, "MB"),
        Figure(f"{PODS:,} pods of one template, all moved: memory", moved, "MB", 1.3 * stayed),
    ]
    report(figures)


def megabytes(moved: bool) -> float:
    """What the tables keep of the pods."""
    decode = msgspec.json.Decoder(Pod).decode
    lines = [pod_json(number, moved) for number in range(PODS)]
    gc.collect()
    tracemalloc.start()
    tables = ClusterTables()
    for line in lines:
        tables.pods.put(decode(line))
    gc.collect()
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return taken / 1e6


def pod_json(number: int, moved: bool) -> bytes:
    """A pod as the API server sends it, with what a migration has written on it."""
    marks = {
        MIGRATION_ID: str(UUID(int=number + 1)),
        MIGRATION_STATUS: "completed",
        MIGRATED_FROM: f"node-{(number + 1) % NODES}",
        MIGRATION_REASON: "LoadBalancing",
    }
    described = pod(
        f"shop/web-{number:05}",
        on=f"node-{number % NODES}",
        owner=OWNER,
        labels={"app": "web", **(marks if moved else {})},
        annotations={ORIGINAL_POD: str(UUID(int=number)), MIGRATION_NAME: "m"} if moved else {},
    )
    return msgspec.json.encode(described)


if __name__ == "__main__":
    main()
