"""What a strategy is: something wanted, as a cost that goes down as it comes true."""

from typing import Any

import numpy as np
import numpy.typing as npt

from rescheduler.model.snapshot import Bools, Floats, Ints
from rescheduler.planning.node_load import NodeLoad
from rescheduler.settings import Policy

Rows = npt.NDArray[np.signedinteger[Any]] | slice
"""Which nodes: their numbers, of any shape, or all of them."""


class Strategy:
    """Wants nothing. Derive from it and override what your strategy has an opinion on.

    Amounts come as arrays with a row per resource, in the order of `load.resources`: CPU in
    millicores, memory in bytes, pods, and what else pods ask for. `cost` is asked for many nodes
    and many what-ifs at once, so it is written with numpy and broadcasts: `used[0]` and `rows`
    have shapes that go together.

    The unit of a cost is about one node: a node freed, or brought from full to the mean.
    """

    name = ""
    move_price = 1e-5
    """What an ordinary move must gain at least."""
    is_rough = False
    """Whether several moves together may gain what none of them gains alone."""
    is_about_load = False
    """Whether it waits until a node has been pressed for `consecutiveRounds` rounds."""

    def __init__(self, load: NodeLoad, policy: Policy) -> None:
        self.load = load
        self.policy = policy

    start_movable: Ints
    """How many movable pods each node holds at the start; set before anything is asked."""

    def cost(self, rows: Rows, used: Floats, movable: Ints) -> Floats:
        """What it costs that these nodes hold so much, and so many pods that could move."""
        return np.zeros(np.shape(movable))

    def guidance(self, rows: Rows, used: Floats, movable: Ints) -> Floats | None:
        """A nudge for searches where `cost` is flat: lower is nearer to something gained."""
        return None

    def pressed(self, used: Floats, movable: Ints) -> Bools:
        """Nodes that pods should leave, given what every node holds.

        If there are none at the start, the strategy rests and has no say in the plan.
        """
        return np.zeros(used.shape[1], bool)

    def avoids(self, rows: Rows, used: Floats) -> Bools | None:
        """Nodes that no pod should come to if that made them hold so much; None: none."""
        return None

    def follow(self, used: Floats) -> None:
        """Look at all nodes anew: what is wanted may depend on how things are now."""

    def reason(self, node: int, used: Floats) -> str:
        """Why a pod should leave this node, with the numbers: "<node> has <reason>"."""
        return f"something that {self.name} does not want"

    def at_rest(self, used: Floats) -> str:
        """Why nothing is wanted, with the numbers."""
        return f"{self.name} found nothing to do"
