"""KeepFree: nodes with some label keep part of their CPU free, for what comes in a hurry."""

import numpy as np

from rescheduler.planning.node_load import CPU_ROW
from rescheduler.planning.strategies.strategy import Strategy
from rescheduler.settings import NodeLabel, Options, Percent


class KeepFree(Strategy):
    """The share of their CPU that such nodes should have free and have not."""

    name = "KeepFree"

    class Options(Options, frozen=True):
        """What a policy may say under `keepFree`."""

        label: NodeLabel
        spare: Percent = 25.0

    def __init__(self, load, policy):
        super().__init__(load, policy)
        options = policy.plugin_options[self.name]
        nodes = load.snapshot.nodes.objects
        self._spare = options.spare / 100
        self._marked = np.array([options.label.is_in(node.metadata.labels) for node in nodes], bool)

    def cost(self, rows, used, movable):
        free = 1 - used[CPU_ROW] / self.load.capacity[CPU_ROW][rows]
        return self._marked[rows] * np.maximum(self._spare - free, 0)

    def pressed(self, used, movable):
        return self.cost(slice(None), used, movable) > 1e-9

    def reason(self, node, used):
        free = 1 - used[CPU_ROW, node] / self.load.capacity[CPU_ROW, node]
        return f"{free:.1%} of its CPU free and should have {self._spare:.1%}"

    def at_rest(self, used):
        return f"every marked node has {self._spare:.1%} of its CPU free"
