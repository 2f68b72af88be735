"""What a strategy is: something wanted, as a cost that goes down as it comes true."""

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from rescheduler.model.snapshot import Bools, Floats, Ints
from rescheduler.planning.node_load import NodeLoad
from rescheduler.planning.strategies.pod_term import PodTerm
from rescheduler.planning.strategies.strategy_context import StrategyContext
from rescheduler.planning.strategies.urgency import Urgency
from rescheduler.planning.strategies.violation_term import ViolationTerm
from rescheduler.settings import Policy

# An ordinary pod takes one fiftieth of a node. With this price it is worth moving for load if its
# node is some 5 points fuller than the other; one that has to be evicted from a StatefulSet (six
# times the price) needs 17 points. A node freed or a hole made is worth a thousand such moves.
MOVE_PRICE = 1e-3

Rows = npt.NDArray[np.signedinteger[Any]] | slice
"""Which nodes: their numbers, of any shape, or all of them."""


class Measure(NamedTuple):
    """A number that says how far the cluster is from what a strategy wants."""

    name: str
    """In lower case, with its unit or what is counted, such as `overloaded_nodes`: a metric is
    called by it. Strategies that measure the same may share a name."""
    description: str
    """One sentence."""


RULE_VIOLATIONS = Measure(
    "rule_violations", "Rules that pods break where they are, each pod counted once a rule."
)
"""What more than one strategy measures."""


class Strategy:
    """Wants nothing. Derive from it and override what your strategy has an opinion on.

    Amounts come as arrays with a row per resource, in the order of `load.resources`: CPU in
    millicores, memory in bytes, pods, and what else pods ask for. `cost` is asked for many nodes
    and many what-ifs at once, so it is written with numpy and broadcasts: `used[0]` and `rows`
    have shapes that go together.

    The unit of a cost is about one node: a node freed, or brought from full to the mean.
    """

    name = ""
    urgency: ClassVar[Urgency] = Urgency.IMPROVEMENT
    requires: ClassVar[tuple[type["Strategy"], ...]] = ()
    """Strategies that are enabled along with this one."""
    move_price = MOVE_PRICE
    """What an ordinary move must gain at least."""
    needs_combined_moves = False
    """Whether several moves together may gain what none of them gains alone."""
    shapes_load = False
    """Whether it has an opinion on the load of every node. If no strategy has, targets that are
    equally good are filled evenly."""
    acts_on_overload = False
    """Whether the nodes that it relieves are overloaded. It then waits until one of them has been
    so for `consecutiveRounds` rounds."""
    empties_maintenance_nodes = False
    """Whether all pods that can move leave nodes with the maintenance label. Events say so."""
    measures: ClassVar[tuple[Measure, ...]] = ()
    """What people can watch of it, in plans and as metrics."""

    def __init__(self, load: NodeLoad, policy: Policy) -> None:
        self.load = load
        self.policy = policy

    start_movable: Ints
    """How many movable pods each node holds at the start; set before anything is asked."""

    # ------------------------------------------------------------ what the policy says of it

    @classmethod
    def cordons_nodes(cls, policy: Policy) -> bool:
        """Whether nodes with the maintenance label are cordoned while it is enabled."""
        return False

    @classmethod
    def states_move_price(cls, policy: Policy) -> bool:
        """Whether the policy says what a move costs; else moves that disrupt more cost more.

        Asked even if the strategy is not enabled.
        """
        return False

    # ------------------------------------------------------------ what it wants of nodes

    def cost(self, rows: Rows, used: Floats, movable: Ints) -> Floats:
        """What it costs that these nodes hold so much, and so many pods that could move."""
        return np.zeros(np.shape(movable))

    def nodes_to_relieve(self, used: Floats, movable: Ints) -> Bools:
        """Nodes that pods should leave, given what every node holds.

        If there are none at the start, and no term about pods has anything to gain, the strategy
        is at rest: it is no reason for a move, but what would make a node worse for it costs.
        """
        return np.zeros(used.shape[1], bool)

    def is_at_rest(self) -> bool:
        """Whether no move could change that there are nodes to relieve.

        Their pods are then reported, with what keeps them there.
        """
        return False

    def resting_nodes(self) -> Bools | None:
        """Nodes of which it wants nothing although it acts on others; None: none."""
        return None

    def nodes_to_empty(self) -> Bools | None:
        """Nodes that every movable pod must leave; None: none. Asked even if it is at rest."""
        return None

    def avoids(self, rows: Rows, used: Floats) -> Bools | None:
        """Nodes that no pod should come to if they then held so much; None: none.

        Asked even if the strategy is at rest.
        """
        return None

    # ------------------------------------------------------------ what it wants of pods

    def pod_terms(self, context: StrategyContext) -> Iterable[PodTerm]:
        """What it wants of single pods and of workloads, apart from what nodes hold."""
        return ()

    def placement_terms(self, context: StrategyContext) -> Iterable[PodTerm]:
        """What counts in choosing targets, and is never a reason to move a pod."""
        return ()

    def violation_terms(self, context: StrategyContext) -> Iterable[ViolationTerm]:
        """Rules that pods break where they are, and what that costs."""
        return ()

    # ------------------------------------------------------------ as the plan goes on

    def prepare(self, context: StrategyContext) -> None:
        """Called once, before anything is asked about costs."""

    def is_worth_it(self, movable: Ints, moves: int) -> bool:
        """Whether a plan is worth its moves that leaves nodes with so many movable pods.

        If not, the cluster is planned for again without this strategy.
        """
        return True

    # ------------------------------------------------------------ what people watch

    def measured(self, used: Floats, movable: Ints, rule_cost: float) -> Sequence[float]:
        """The values of `measures`, in their order, if all nodes hold so much.

        `rule_cost` is what its violation terms cost then. Its terms about pods follow the plan, so
        they may be asked, too.
        """
        return ()

    # ------------------------------------------------------------ why

    def reason(self, node: int, used: Floats) -> str:
        """Why a pod should leave this node, with the numbers: "<node> has <reason>"."""
        return f"something that {self.name} does not want"

    def idle_reason(self, used: Floats) -> str:
        """Why nothing is wanted, with the numbers."""
        return f"{self.name} found nothing to do"
