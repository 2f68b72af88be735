"""The load of nodes and the room that is kept on them, from tables that somebody fills."""

from collections.abc import Iterator

from rescheduler.model.resources import CPU, MEMORY
from rescheduler.model.rules.node_availability import is_ready
from rescheduler.model.tables.cluster_tables import ClusterTables
from rescheduler.status.status_document import (
    MOST_LISTED,
    MOST_NODES,
    NodeSummary,
    NodeUse,
    ReservationSummary,
    RoomReservation,
)

TENTHS = 10


def node_summary(tables: ClusterTables) -> NodeSummary:
    """How full the nodes are."""
    uses = list(node_uses(tables))
    fullest = sorted(uses, key=lambda use: (-max(use.cpu, use.memory), use.name))
    return NodeSummary(
        count=len(uses),
        not_ready=sum(not use.is_ready for use in uses),
        cordoned=sum(use.is_cordoned for use in uses),
        cpu=per_tenth([use.cpu for use in uses]),
        memory=per_tenth([use.memory for use in uses]),
        fullest=tuple(fullest[:MOST_NODES]),
    )


def node_uses(tables: ClusterTables) -> Iterator[NodeUse]:
    """What pods request of each node."""
    held = {resource: tables.pods.held_on(resource) for resource in (CPU, MEMORY)}
    for name, row in tables.nodes.row_of.items():
        found = tables.nodes.at(row)
        assert found is not None, "it has a row"
        node, allocatable = found
        number = tables.pods.number_of_node(name)
        cpu, memory = (
            float(held[resource][number] / allocatable[resource])
            if allocatable.get(resource, 0) > 0
            else 0.0
            for resource in (CPU, MEMORY)
        )
        yield NodeUse(name, cpu, memory, is_ready(node), node.spec.unschedulable)


def per_tenth(fractions: list[float]) -> tuple[int, ...]:
    """How many fractions are in each tenth; the last count is of those above 1."""
    counts = [0] * (TENTHS + 1)
    for fraction in fractions:
        # Exactly full is not overfull.
        counts[TENTHS - 1 if fraction == 1.0 else min(int(fraction * TENTHS), TENTHS)] += 1
    return tuple(counts)


def reservation_summary(tables: ClusterTables, for_replacements: int = 0) -> ReservationSummary:
    """The room that is kept for pods without a node, and for those that an extender waits for."""
    nominations = tables.pods.nominations()
    first = sorted(nominations.items())[:MOST_LISTED]
    listed = []
    for pod, node in first:
        held = tables.pods.held_by(pod) or {}
        listed.append(RoomReservation(pod, node, held.get(CPU, 0), held.get(MEMORY, 0)))
    return ReservationSummary(len(nominations), tuple(listed), for_replacements)
