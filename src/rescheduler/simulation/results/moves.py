"""The moves that were asked for, followed from their Migration objects."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from rescheduler.migration.migration_object import FINISHED, Phase
from rescheduler.simulation.cluster.json_objects import Json, moment_of
from rescheduler.simulation.results.peak import Peak
from rescheduler.simulation.results.result import Migrations

WITHDRAWN = "Withdrawn"
"""The phase, in the story, of one that was deleted before it ended."""
BY_HAND = "Manual"
UNDECIDED = "Undecided"


@dataclass
class MoveSeen:
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
    def is_under_way(self) -> bool:
        """Whether something is being done."""
        return self.phase == Phase.IN_PROGRESS

    @property
    def became(self) -> str:
        """What became of it, in a word."""
        return self.outcome if self.phase == Phase.COMPLETED else self.phase


class MoveLog:
    """All moves by the uid of their Migration."""

    def __init__(self) -> None:
        self.by_uid: dict[str, MoveSeen] = {}
        self.under_way: dict[str, MoveSeen] = {}
        self.peak = Peak()
        self.owners: Counter[str] = Counter()
        """By the uid of a controller: how many of its pods are being moved."""

    def changed(self, old: Json | None, new: Json | None) -> None:
        """Follow a change of a Migration."""
        migration = new if new is not None else old
        assert migration is not None
        uid = migration["metadata"]["uid"]
        move = self.by_uid.get(uid)
        if move is None:
            move = self.by_uid[uid] = first_seen(migration)
        was_under_way = move.is_under_way
        if new is not None:
            update(move, new.get("status") or {})
        elif move.phase not in FINISHED:
            move.phase = WITHDRAWN
        if move.is_under_way and not was_under_way:
            self.under_way[uid] = move
            self.owners[move.owner] += 1
        elif was_under_way and not move.is_under_way:
            del self.under_way[uid]
            self.owners[move.owner] -= 1
        self.peak.follow(len(self.under_way))

    def migrations(self) -> Migrations:
        """What became of them."""
        moves = self.by_uid.values()
        outcomes: dict[str, Counter[str]] = defaultdict(Counter)
        for move in moves:
            outcomes[move.strategy][move.became] += 1
        took = [move.seconds for move in moves if move.phase == Phase.COMPLETED]
        return Migrations(
            total=len(moves),
            by_phase=counted(move.phase for move in moves),
            by_mode=counted(move.mode or UNDECIDED for move in moves),
            by_strategy=counted(move.strategy for move in moves),
            by_strategy_and_outcome={
                strategy: dict(sorted(counts.items())) for strategy, counts in outcomes.items()
            },
            mean_seconds=round(sum(took) / len(took), 3) if took else 0.0,
        )


def counted(words: Iterable[str]) -> dict[str, int]:
    """How often each word is there, by the alphabet."""
    return dict(sorted(Counter(map(str, words)).items()))


def first_seen(migration: Json) -> MoveSeen:
    """A Migration that is new."""
    metadata, spec = migration["metadata"], migration["spec"]
    return MoveSeen(
        key=f"{metadata['namespace']}/{metadata['name']}",
        pod=f"{metadata['namespace']}/{spec['pod']['name']}",
        target=spec["targetNode"],
        strategy=spec.get("strategy") or BY_HAND,
    )


def update(move: MoveSeen, status: Json) -> None:
    """Take over what the status says."""
    move.phase = status.get("phase") or Phase.PENDING
    move.step = status.get("step") or ""
    move.mode = status.get("mode") or move.mode
    move.outcome = status.get("outcome") or ""
    move.source = status.get("sourceNode") or move.source
    # Before it begins, so that the count of moves by owner stays true.
    if not move.owner:
        move.owner = (status.get("workload") or {}).get("uid") or ""
    if move.phase in FINISHED:
        move.seconds = seconds_of(status)


def seconds_of(status: Json) -> float:
    """From the start of the first attempt to the end."""
    started = [
        each["lastTransitionTime"]
        for each in status.get("conditions") or ()
        if each.get("type") == "Started" and each.get("lastTransitionTime")
    ]
    finished = status.get("finishedAt")
    if not started or not finished:
        return 0.0
    return (moment_of(finished) - moment_of(started[0])).total_seconds()
