# mypy: disable-error-code="misc"
# (mypy does not see that structs inherit being frozen)
"""What a simulation hands out, as `-o json` shows it."""

from rescheduler.model.objects import Part


class Seen(Part, frozen=True, omit_defaults=False):
    """A part of the result."""


class Point(Seen):
    """A value at a time, in seconds since the start."""

    seconds: float
    value: float


Series = tuple[Point, ...]


class Moments(Seen):
    """How often, and for how long, workloads had fewer Ready pods than desired."""

    total: int
    """Each pod that is one too few is a moment, which lasts until there are enough again."""
    pod_seconds: float
    """How long they lasted, added up."""
    by_workload: dict[str, int]
    by_cause: dict[str, int]
    """For moments charged to moves, the mode of the move; else what the workload was about."""


class Migrations(Seen):
    """The moves that were asked for, and what became of them."""

    total: int
    by_phase: dict[str, int]
    by_mode: dict[str, int]
    by_strategy: dict[str, int]
    by_strategy_and_outcome: dict[str, dict[str, int]]
    mean_seconds: float
    """From the start of a completed one to its end."""


class Blocked(Seen):
    """A reason for which pods stayed where they were."""

    blocker: str
    meaning: str
    """In plain words."""
    pods: int
    """Different pods that it kept, at some time."""
    rounds: int
    """Rounds in which it kept one."""
    example: str
    detail: str


class Rest(Seen):
    """Why rounds moved nothing."""

    why: str
    rounds: int


class Rounds(Seen):
    """The planner's rounds."""

    total: int
    with_moves: int
    at_rest: tuple[Rest, ...]
    """The most frequent reasons of the others."""


class Pending(Seen):
    """Pods that waited for a node."""

    pods: int
    pod_seconds: float
    longest_seconds: float
    """The longest wait of one pod that found a node or was given up, or still waits."""


class Leftovers(Seen):
    """What moves have left behind, where no move under way looks after it."""

    marks: tuple[str, ...]
    temporary_budgets: tuple[str, ...]
    extra_pods: tuple[str, ...]
    cordons: tuple[str, ...]

    @property
    def count(self) -> int:
        """How many things in all."""
        kinds = (self.marks, self.temporary_budgets, self.extra_pods, self.cordons)
        return sum(map(len, kinds))


class Happening(Seen):
    """Something that the workload file had happen to nodes or versions."""

    seconds: float
    what: str


class NodeLoads(Seen):
    """How full each node was over time, for drawing."""

    seconds: tuple[float, ...]
    by_node: dict[str, tuple[float | None, ...]]
    """Load as a fraction; None while there was no such node, or it was not ready."""


class Figures(Seen):
    """A series in a few numbers."""

    first: float
    mean: float
    """The mean of the points; of what comes and goes within seconds, those are peaks."""
    last: float
    most: float


class Result(Seen):
    """Everything that was seen."""

    policy: str
    """The policy's file, `defaults`, or `none` for a cluster without the rescheduler."""
    seed: int
    start: str
    seconds: float
    """How long was simulated."""
    interrupted: bool
    nodes: int
    pods: int
    """Both at the start."""
    notes: tuple[str, ...]
    """What had to be assumed about the cluster."""
    warnings: tuple[str, ...]
    """What the controller warned of in its log."""
    summary: dict[str, Figures]
    imbalance: Series
    """By how much the load of the fullest and the emptiest open node differ, as a fraction."""
    load_deviation: Series
    """The standard deviation of the loads of open nodes, as a fraction."""
    nodes_in_use: Series
    cost: Series
    """The price of the nodes in use."""
    pods_pending: Series
    moves_in_flight: Series
    pods_below_desired: Series
    """Because of moves."""
    own_pods_below_desired: Series
    """For every other reason."""
    moments_below_desired: Moments
    own_moments_below_desired: Moments
    migrations: Migrations
    rounds: Rounds
    blocked: tuple[Blocked, ...]
    pending: Pending
    leftovers: Leftovers
    happenings: tuple[Happening, ...]
    node_loads: NodeLoads


class Compared(Seen):
    """One run in the few numbers by which policies are compared."""

    policy: str
    mean_imbalance: float
    last_imbalance: float
    mean_nodes_in_use: float
    mean_cost: float
    moves: int
    """Completed ones."""
    pending_pod_seconds: float
    moments_below_desired: int
    own_moments_below_desired: int
