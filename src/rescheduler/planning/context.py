"""What a plan depends on apart from the cluster and the policy: the time, and what went before.

The caller passes it in, so that the same input gives the same plan. A single plan, such as one for
a cluster in a file, has no past: the defaults say so.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from rescheduler.model.moves import Outcome


@dataclass(frozen=True, slots=True)
class PastMove:
    """A move that is over."""

    pod: str
    """Key of the pod that was moved; its replacement often has another one."""
    workload: str
    """`ReplicaSet/shop/web`: kind, namespace and name of its owner. Empty for a bare pod."""
    source: str
    target: str
    outcome: Outcome
    """Never NONE: a cancelled move is no past move."""
    at: float
    """When it ended, in seconds since 1970."""


@dataclass(frozen=True, slots=True)
class MoveInFlight:
    """A pod that is being migrated, and where to."""

    pod: str
    target: str
    new_pod: str = ""
    """Key of the pod that was created for it on the target, if there is one already."""


@dataclass(frozen=True)
class PlanningContext:
    """What is known apart from the cluster and the policy."""

    now: float = inf
    """In seconds since 1970. By default every pod is old and no move is recent."""
    history: tuple[PastMove, ...] = ()
    in_flight: tuple[MoveInFlight, ...] = ()
    rounds_overloaded: Mapping[str, int] | None = None
    """In how many rounds in a row, this one included, each node was overloaded. None: nobody
    counts, because this is not one of many rounds."""
    seed: int = 0
    """Decides between equals."""


DEFAULT_CONTEXT = PlanningContext()
