"""What became of earlier moves, and which are under way: what the planner should know."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from rescheduler.migration.objects import Migration, Outcome, Phase

# After the first bad outcome a workload is not sent to that node again for so long; each further
# one doubles it.
FIRST_REST = timedelta(minutes=5)
LONGEST_REST = timedelta(hours=24)
MOST_DOUBLINGS = 12
BAD = (Outcome.ELSEWHERE, Outcome.CAME_BACK, Outcome.FAILED)


@dataclass(frozen=True)
class PastMove:
    """A move that ended, and how."""

    pod: str
    workload: str
    """`namespace/kind/name` of what the pod belongs to, or the pod itself."""
    source: str
    target: str
    outcome: Outcome
    when: datetime


@dataclass(frozen=True)
class MoveInFlight:
    """A move that was asked for and has not ended."""

    pod: str
    source: str
    target: str
    new_pod: str = ""


def past_moves(migrations: Iterable[Migration]) -> list[PastMove]:
    """The moves that ended one way or the other, oldest first. Cancelled ones say nothing."""
    ended = [each for each in migrations if each.is_finished and each.status.outcome]
    moves = [
        PastMove(
            pod=each.pod_key,
            workload=workload_of(each),
            source=each.status.source_node,
            target=each.spec.target_node,
            outcome=each.status.outcome,
            when=each.status.finished_at,
        )
        for each in ended
        if each.status.finished_at is not None
    ]
    return sorted(moves, key=lambda move: (move.when, move.pod))


def moves_in_flight(migrations: Iterable[Migration]) -> list[MoveInFlight]:
    """The moves that are in progress or wait for their turn."""
    return sorted(
        (
            MoveInFlight(
                pod=each.pod_key,
                source=each.status.source_node,
                target=each.spec.target_node,
                new_pod=each.status.new_pod,
            )
            for each in migrations
            if each.status.phase in (Phase.PENDING, Phase.IN_PROGRESS)
        ),
        key=lambda move: (move.pod, move.target),
    )


def workload_of(migration: Migration) -> str:
    """What a migration's pod belongs to."""
    workload = migration.status.workload
    if workload is None:
        return migration.pod_key
    return f"{migration.metadata.namespace}/{workload.kind}/{workload.name}"


def resting(past: Iterable[PastMove], now: datetime) -> dict[tuple[str, str], datetime]:
    """Pairs of workload and target that are left alone, and until when.

    A move that landed elsewhere, came back or failed is not repeated at once, and the more often
    it happened, the later. One that landed starts the count anew.
    """
    bad: defaultdict[tuple[str, str], list[datetime]] = defaultdict(list)
    for move in past:
        pair = move.workload, move.target
        if move.outcome in BAD:
            bad[pair].append(move.when)
        else:
            bad.pop(pair, None)
    until = {
        pair: times[-1] + min(FIRST_REST * 2 ** min(len(times) - 1, MOST_DOUBLINGS), LONGEST_REST)
        for pair, times in bad.items()
    }
    return {pair: end for pair, end in until.items() if end > now}
