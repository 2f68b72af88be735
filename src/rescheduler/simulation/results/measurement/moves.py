"""The moves that were requested, followed through their Migration objects."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from rescheduler.migration.migration_object import FINISHED, Phase
from rescheduler.simulation.cluster.json_objects import Json, parse_time
from rescheduler.simulation.results.measurement.peak import Peak
from rescheduler.simulation.results.result import MigrationCounts

WITHDRAWN = "Withdrawn"
"""The phase, in results, of a Migration that was deleted before it finished."""
MANUAL = "Manual"
UNDECIDED = "Undecided"


@dataclass
class ObservedMove:
    """A Migration as it was last seen."""

    key: str
    pod: str
    target: str
    strategy: str
    source: str = ""
    phase: str = Phase.PENDING
    step: str = ""
    mode: str = ""
    outcome: str = ""
    owner: str = ""
    """The uid of the pod's controller."""
    seconds: float = 0.0

    @property
    def is_in_flight(self) -> bool:
        """Whether it has started and not finished."""
        return self.phase == Phase.IN_PROGRESS

    @property
    def outcome_or_phase(self) -> str:
        """Its outcome if it is completed, else its phase."""
        return self.outcome if self.phase == Phase.COMPLETED else self.phase


class MoveLog:
    """All moves by the uid of their Migration."""

    def __init__(self) -> None:
        self.by_uid: dict[str, ObservedMove] = {}
        self.in_flight: dict[str, ObservedMove] = {}
        self.peak = Peak()
        self.in_flight_of: Counter[str] = Counter()
        """By the uid of a controller: how many of its pods are being moved."""

    def migration_changed(self, old: Json | None, new: Json | None) -> None:
        """A Migration was created, changed or deleted."""
        migration = new if new is not None else old
        assert migration is not None
        uid = migration["metadata"]["uid"]
        move = self.by_uid.get(uid)
        if move is None:
            move = self.by_uid[uid] = _new_move(migration)
        was_in_flight = move.is_in_flight
        if new is not None:
            _update(move, new.get("status") or {})
        elif move.phase not in FINISHED:
            move.phase = WITHDRAWN
        if move.is_in_flight and not was_in_flight:
            self.in_flight[uid] = move
            self.in_flight_of[move.owner] += 1
        elif was_in_flight and not move.is_in_flight:
            del self.in_flight[uid]
            self.in_flight_of[move.owner] -= 1
        self.peak.set(len(self.in_flight))

    def counts(self) -> MigrationCounts:
        """The moves by phase, mode, strategy and outcome."""
        moves = self.by_uid.values()
        outcomes: dict[str, Counter[str]] = defaultdict(Counter)
        for move in moves:
            outcomes[move.strategy][move.outcome_or_phase] += 1
        took = [move.seconds for move in moves if move.phase == Phase.COMPLETED]
        return MigrationCounts(
            total=len(moves),
            by_phase=_counted(move.phase for move in moves),
            by_mode=_counted(move.mode or UNDECIDED for move in moves),
            by_strategy=_counted(move.strategy for move in moves),
            by_strategy_and_outcome={
                strategy: dict(sorted(counts.items())) for strategy, counts in outcomes.items()
            },
            mean_seconds=round(sum(took) / len(took), 3) if took else 0.0,
        )


def _counted(values: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(map(str, values)).items()))


def _new_move(migration: Json) -> ObservedMove:
    metadata, spec = migration["metadata"], migration["spec"]
    return ObservedMove(
        key=f"{metadata['namespace']}/{metadata['name']}",
        pod=f"{metadata['namespace']}/{spec['pod']['name']}",
        target=spec["targetNode"],
        strategy=spec.get("strategy") or MANUAL,
    )


def _update(move: ObservedMove, status: Json) -> None:
    move.phase = status.get("phase") or Phase.PENDING
    move.step = status.get("step") or ""
    move.mode = status.get("mode") or move.mode
    move.outcome = status.get("outcome") or ""
    move.source = status.get("sourceNode") or move.source
    # Set once, before the move starts: it is counted by owner.
    if not move.owner:
        move.owner = (status.get("workload") or {}).get("uid") or ""
    if move.phase in FINISHED:
        move.seconds = _seconds_of(status)


def _seconds_of(status: Json) -> float:
    """From the start of the first attempt to the end."""
    started = [
        condition["lastTransitionTime"]
        for condition in status.get("conditions") or ()
        if condition.get("type") == "Started" and condition.get("lastTransitionTime")
    ]
    finished = status.get("finishedAt")
    if not started or not finished:
        return 0.0
    return (parse_time(finished) - parse_time(started[0])).total_seconds()
