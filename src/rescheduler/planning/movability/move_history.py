"""Past moves: a pod that was just moved is left alone for a while.

A pod that landed where it should is left alone for a few minutes, so that rounds do not move it
back and forth. A move that did not work out will most likely not work a moment later either, so its
whole workload is left alone, longer each time: its pods are interchangeable, and the one that
replaced the moved pod has a name of its own.

And there is no way back: to a node that a pod left because a strategy wanted it, no pod of its
workload returns for a day. What was better then is hardly worse now, and strategies that disagree
would pass the pod back and forth. And where a move failed, the next one tries another node.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import takewhile
from math import ceil

from rescheduler.model.moves import Outcome
from rescheduler.planning.context import PastMove

MINUTE = 60.0
HOUR = 60 * MINUTE

# Longer than a few rounds, shorter than what a person who waits for a drain would put up with.
COOLDOWN_AFTER_LANDING = 5 * MINUTE
# Enough for a node to come back or an image to arrive; a day is the least worth trying again.
FIRST_COOLDOWN = 10 * MINUTE
# Until then, a pod that was moved is seen to be gone. What is known is never older in a round.
SEEN_GONE_AFTER = 5 * MINUTE
LONGEST_COOLDOWN = 24 * HOUR
# A day: load that comes and goes with the hours moves no pod to and fro.
NO_RETURN_TIME = 24 * HOUR
# Longer than the first cooldowns, so that another node is tried. If there is no other, the node may
# have come to its senses by then.
FAILED_TARGET_TIME = HOUR

_OUTCOME_TEXT = {
    Outcome.LANDED: "ended here",
    Outcome.ELSEWHERE: "ended on another node than planned",
    Outcome.CAME_BACK: "ended where it began",
    Outcome.FAILED: "failed",
}


@dataclass(frozen=True, slots=True)
class Cooldown:
    """A time during which something is left alone, and the move that is the reason."""

    move: PastMove
    until: float

    def in_words(self, now: float) -> str:
        """How the last move ended, and how long the cooldown goes on."""
        subject = "its last move" if not self.move.workload else "the last move of its workload"
        return (
            f"{subject} {_OUTCOME_TEXT[self.move.outcome]} "
            f"{time_in_words(now - self.move.at)} ago; "
            f"it is left alone for another {time_in_words(self.until - now)}"
        )


class MoveHistory:
    """What follows from past moves at some moment: cooldowns, and nodes that were left."""

    def __init__(
        self,
        history: Iterable[PastMove],
        now: float,
        requested_strategies: Collection[str] = (),
    ) -> None:
        """`requested_strategies`: by name, those after whose moves pods may return."""
        self._troubled: dict[str, Cooldown] = {}
        self._landed: dict[tuple[str, str], Cooldown] = {}
        self._left: defaultdict[str, dict[str, float]] = defaultdict(dict)
        """By workload or bare pod: the nodes to which none returns, and until when."""
        self._failed: defaultdict[str, dict[str, float]] = defaultdict(dict)
        """The same for nodes to which a move failed."""
        for subject, moves in _by_subject(history).items():
            cooldown = _cooldown_after_failures(moves)
            if cooldown is not None and cooldown.until > now:
                self._troubled[subject] = cooldown
            for move in moves:
                until = move.at + FAILED_TARGET_TIME
                if move.outcome == Outcome.FAILED and until > now:
                    self._failed[subject].setdefault(move.target, until)
                if move.outcome != Outcome.LANDED:
                    continue
                until = move.at + COOLDOWN_AFTER_LANDING
                if until > now:
                    self._landed.setdefault((subject, move.target), Cooldown(move, until))
                until = move.at + NO_RETURN_TIME
                if until > now and move.strategy and move.strategy not in requested_strategies:
                    self._left[subject].setdefault(move.source, until)

    @property
    def subjects(self) -> set[str]:
        """The workloads and bare pods that have a cooldown."""
        return {*self._troubled, *(subject for subject, _ in self._landed)}

    @property
    def avoiding(self) -> set[str]:
        """The workloads and bare pods that have nodes to which they do not go."""
        return {*self._left, *self._failed}

    @property
    def ends(self) -> list[float]:
        """When each of the cooldowns ends, and when a pod may go to a node again."""
        cooldowns = (*self._troubled.values(), *self._landed.values())
        avoided = (*self._left.values(), *self._failed.values())
        returns = (until for nodes in avoided for until in nodes.values())
        return [*(cooldown.until for cooldown in cooldowns), *returns]

    def cooldown(self, subject: str, node: str) -> Cooldown | None:
        """Why a pod of this workload, or this bare pod, is left alone on this node, if it is."""
        return self._troubled.get(subject) or self._landed.get((subject, node))

    def left_nodes(self, subject: str) -> set[str]:
        """The nodes to which no pod of this workload, or not this bare pod, returns.

        They were left because a strategy wanted it. Who left a node because of its maintenance,
        or because a person said so, may return when that is over.
        """
        return set(self._left.get(subject, ()))

    def failed_targets(self, subject: str) -> set[str]:
        """The nodes to which moves of this workload, or of this bare pod, have just failed."""
        return set(self._failed.get(subject, ()))


def time_in_words(seconds: float) -> str:
    """A length of time, rounded up, in the unit that suits it."""
    for unit, size in (("s", 1.0), ("min", MINUTE), ("h", HOUR)):
        if seconds <= 90 * size:
            return f"{ceil(seconds / size)} {unit}"
    return f"{ceil(seconds / (24 * HOUR))} days"


def _by_subject(history: Iterable[PastMove]) -> dict[str, list[PastMove]]:
    """Moves by workload or, for bare pods, by pod, the latest first.

    A bare pod has another name after every move: its earlier moves are under its last name.
    """
    moves: dict[str, list[PastMove]] = {}
    for move in sorted(history, key=lambda move: move.at):
        earlier = moves.pop(move.workload or move.pod, [])
        has_moved = move.outcome in (Outcome.LANDED, Outcome.ELSEWHERE)
        subject = move.workload or (has_moved and move.new_pod) or move.pod
        moves[subject] = [move, *earlier]
    return moves


def _cooldown_after_failures(latest_first: list[PastMove]) -> Cooldown | None:
    """The cooldown doubles with every move in a row that did not land."""
    in_a_row = len(list(takewhile(lambda move: move.outcome != Outcome.LANDED, latest_first)))
    if not in_a_row:
        return None
    doublings = min(in_a_row - 1, 10)
    seconds = min(FIRST_COOLDOWN * 2**doublings, LONGEST_COOLDOWN)
    return Cooldown(latest_first[0], latest_first[0].at + seconds)
