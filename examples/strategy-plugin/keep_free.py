"""KeepFree: nodes with some label keep part of their CPU free, for what comes in a hurry."""

import numpy as np

from rescheduler.planning.node_load import CPU_ROW
from rescheduler.planning.strategies.pod_term import NodePreferenceTerm
from rescheduler.planning.strategies.strategy import Strategy
from rescheduler.settings import NodeLabel, Options, Percent

# What it is worth, in nodes, that one long-running pod leaves a marked node.
_MISPLACED = 0.01


class KeepFree(Strategy):
    """The share of their CPU that such nodes should have free and have not."""

    name = "KeepFree"

    class Options(Options, frozen=True):
        """What a policy may say under `keepFree`."""

        label: NodeLabel
        spare: Percent = 25.0
        long_running: NodeLabel | None = None
        """A label of pods that should not be on such nodes at all."""

    def __init__(self, load, policy):
        super().__init__(load, policy)
        self._options = policy.plugin_options[self.name]
        nodes = load.snapshot.nodes.objects
        self._spare = self._options.spare / 100
        label = self._options.label
        self._marked = np.array([label.is_in(node.metadata.labels) for node in nodes], bool)

    # What it wants of nodes.

    def cost(self, rows, used, movable):
        free = 1 - used[CPU_ROW] / self.load.capacity[CPU_ROW][rows]
        return self._marked[rows] * np.maximum(self._spare - free, 0)

    def nodes_to_relieve(self, used, movable):
        return self.cost(slice(None), used, movable) > 1e-9

    def reason(self, node, used):
        free = 1 - used[CPU_ROW, node] / self.load.capacity[CPU_ROW, node]
        return f"{free:.1%} of its CPU free and should have {self._spare:.1%}"

    def idle_reason(self, used):
        return f"every marked node has {self._spare:.1%} of its CPU free"

    # What it wants of single pods.

    def pod_terms(self, context):
        if self._options.long_running is not None:
            yield LongRunningPods(context.snapshot, self._options.long_running, self._marked)


class LongRunningPods(NodePreferenceTerm):
    """The pods with a label that are on marked nodes, however much is free there."""

    def __init__(self, snapshot, label, marked):
        super().__init__(snapshot)
        self._label = label
        self._marked = marked

    def node_costs(self, template):
        has_label = self._label.is_in(self.snapshot.templates[template].labels)
        return _MISPLACED * self._marked if has_label else None

    def reason(self, template, node):
        return f"{self.snapshot.nodes.names[node]} is not for pods with {self._label}"
