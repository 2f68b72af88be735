"""How many migrations may be in flight: in all, per node, per namespace, per workload.

Only those in progress count. One that waits takes up nothing, or they would wait for each other
for ever.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rescheduler.migration.migration_object import Migration
from rescheduler.settings import MigrationOptions


@dataclass(frozen=True)
class InFlightSlot:
    """What one migration takes up while it is in progress."""

    namespace: str
    source: str
    target: str
    workload: str = ""
    """The uid of what the pod belongs to, or nothing."""
    replicas: int = 1

    @property
    def nodes(self) -> tuple[str, str]:
        """The nodes that are busy with it."""
        return self.source, self.target


def slot_of(migration: Migration) -> InFlightSlot:
    """What a migration in progress takes up."""
    workload = migration.status.workload
    return InFlightSlot(
        namespace=migration.metadata.namespace,
        source=migration.status.source_node,
        target=migration.spec.target_node,
        workload=workload.uid if workload is not None else "",
        replicas=(workload.replicas or 1) if workload is not None else 1,
    )


def why_no_slot(
    wanted: InFlightSlot, flying: Iterable[InFlightSlot], options: MigrationOptions
) -> str:
    """Why one more may not start now, or nothing."""
    others = list(flying)
    if len(others) >= options.max_in_flight:
        return f"{len(others)} of {options.max_in_flight} migrations are in flight"
    for node in wanted.nodes:
        busy = sum(node in each.nodes for each in others)
        if busy >= options.max_per_node:
            return f"node {node} has {busy} of {options.max_per_node} migrations"
    here = sum(each.namespace == wanted.namespace for each in others)
    if here >= options.max_per_namespace:
        return f"namespace {wanted.namespace} has {here} of {options.max_per_namespace} migrations"
    most = options.max_per_workload.of(wanted.replicas)
    same = sum(bool(wanted.workload) and each.workload == wanted.workload for each in others)
    if wanted.workload and same >= most:
        return f"its workload has {same} of {most} migrations"
    return ""


def next_to_start(
    waiting: Mapping[str, InFlightSlot], flying: Iterable[InFlightSlot], options: MigrationOptions
) -> list[str]:
    """Which of those that wait may start now, in the order they came, all together."""
    taken = list(flying)
    chosen = []
    for key, flight in waiting.items():
        if len(taken) >= options.max_in_flight:
            break
        if not why_no_slot(flight, taken, options):
            taken.append(flight)
            chosen.append(key)
    return chosen
