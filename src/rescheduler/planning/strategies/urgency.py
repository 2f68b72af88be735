"""How urgent what a strategy wants is."""

from enum import IntEnum


class Urgency(IntEnum):
    """What comes first. It decides which strategy a move is credited to, not what it gains."""

    REQUESTED = 0
    """A person asked for it. Such moves do not wait until there are fewer of other moves."""
    REQUIRED = 1
    """What pods require of their nodes is not so."""
    AT_RISK = 2
    """A node is overloaded, or one failure would take down too many replicas."""
    IMPROVEMENT = 3
    """Everything else."""
