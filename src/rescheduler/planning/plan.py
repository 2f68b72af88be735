"""What planning returns: moves in order, why the rest stayed, and the state before and after."""

from enum import StrEnum

import msgspec

from rescheduler.model.moves import Mode
from rescheduler.model.objects import Part


class NoMovesReason(StrEnum):
    """Why a plan has no moves, in a word to count and look up. `Plan.summary` is the sentence."""

    NONE = ""
    """It has moves."""
    TOO_MANY_PENDING_PODS = "TooManyPendingPods"
    TOO_MANY_UNREADY_NODES = "TooManyUnreadyNodes"
    NO_NODES = "NoNodes"
    NOTHING_TO_IMPROVE = "NothingToImprove"
    NOT_WORTH_IT = "NotWorthIt"
    UNFINISHED_MOVES = "UnfinishedMoves"
    MOVES_TURNED_OFF = "MovesTurnedOff"
    ONLY_PODS_OF_NODES = "OnlyPodsOfNodes"
    ALL_BLOCKED = "AllBlocked"
    OUT_OF_TIME = "OutOfTime"


class Move(Part, frozen=True, omit_defaults=False):
    """This pod, from here to there."""

    pod: str
    source: str = msgspec.field(name="from")
    target: str = msgspec.field(name="to")
    strategy: str
    mode: Mode
    reason: str
    gain: float
    """By how much the objective falls."""
    wave: int = 0
    """Moves of one wave may run at the same time; those of the next need them finished."""


class BlockedPod(Part, frozen=True):
    """A pod that would have been moved, and what kept it where it is."""

    pod: str
    blocker: str
    detail: str
    strategy: str = ""
    """The first of the strategies that want pods to leave its node."""


class UtilizationSpread(Part, frozen=True, omit_defaults=False):
    """How one resource's utilisation lies over the nodes, as fractions of what they can give."""

    mean: float
    standard_deviation: float
    minimum: float
    maximum: float


class Assessment(Part, frozen=True, omit_defaults=False):
    """The state of the cluster in a few numbers, before a plan or after it."""

    utilization: dict[str, UtilizationSpread]
    nodes_in_use: int
    objective: float
    per_node: dict[str, dict[str, float]]
    """Utilisation by node and resource, for drawing."""
    measures: dict[str, dict[str, float]] = {}
    """By strategy: how far the cluster is from what it wants, in the numbers that it measures."""


class Plan(Part, frozen=True, omit_defaults=False):
    """Moves in the order in which they are to be carried out, and why other pods stayed."""

    moves: tuple[Move, ...]
    blocked: tuple[BlockedPod, ...]
    before: Assessment
    after: Assessment
    overloaded: tuple[str, ...]
    """Nodes whose load is too high now: who plans in rounds counts how often in a row."""
    summary: str
    """One sentence: what the plan does or, if it does nothing, why."""
    search_complete: bool = True
    """Whether the search ended by itself. If the time was up, a longer one may find more moves."""
    idle_reason: NoMovesReason = NoMovesReason.NONE
    unreadable: tuple[str, ...] = ()
    """The objects that cannot be decoded: the field, what was expected, and what follows."""
