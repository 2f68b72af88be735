"""What a plan depends on apart from the cluster and the policy: the time, and what went before.

The caller passes it in, so that the same input gives the same plan. A single plan, such as one for
a cluster in a file, has no past: the defaults say so.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
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
    strategy: str = ""
    """The strategy that planned it; empty if a person requested it."""
    new_pod: str = ""
    """Key of the pod that took its place, where that is known."""


@dataclass(frozen=True, slots=True)
class MoveInFlight:
    """A pod that is being migrated, and where to."""

    pod: str
    target: str
    new_pod: str = ""
    """Key of the pod that was created for it on the target, if there is one already."""
    workload: str = ""
    """As in `PastMove`; empty if the move has not started, and for a bare pod."""
    source: str = ""
    """The node that it leaves; empty if the move has not started."""
    strategy: str = ""
    """The strategy that planned it; empty if a person requested it."""
    waits_for: str = ""
    """What a move that has not started waits for, or how its last attempt failed."""
    is_paused: bool = False
    """Whether it will not start until a person lets it. It holds its pod, and nothing else."""
    is_held_up: bool = False
    """Whether it cannot start now: it waits for something in the cluster, or has failed before."""

    @property
    def counts_as_planned(self) -> bool:
        """Whether it counts against the limit of a round. One that cannot start stops no other."""
        return bool(self.strategy) and not self.is_paused and not self.is_held_up


@dataclass(frozen=True, slots=True)
class LaterMove:
    """A move of the last plan that could not be carried out at once."""

    pod: str
    target: str


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
    placing_blocker: str = ""
    """Why no new pod can be placed on a chosen node in this cluster; empty if that works."""
    ignoring_nominations: frozenset[str] = frozenset()
    """Workloads, as in `PastMove`, whose scheduler does not place pods where they are nominated."""
    unreplaced_from: Mapping[str, int] = field(default_factory=dict)
    """Workloads, as in `PastMove`, of which a pod was evicted and not replaced: how many pods each
    had before. It counts where nobody knows how many pods they want."""
    later_moves: tuple[LaterMove, ...] = ()
    """What the last plan wanted after its first wave, in order. It is still done, unless something
    better is found: otherwise one plan would be begun after another, and none be finished."""
    seed: int = 0
    """Decides between equals."""


DEFAULT_CONTEXT = PlanningContext()
