"""TopologySpread: replicas lie over zones and nodes as their constraints ask for.

Hard constraints come first, then soft ones; where nothing is declared, replicas of one workload
are kept apart over zones and nodes, unless the option `undeclared` is off. What is wanted of which
pod is told by `planning/problem/spreading.py`; by load alone no node has to be left.
"""

from rescheduler.model.snapshot import Floats
from rescheduler.planning.strategies.strategy import Strategy


class TopologySpread(Strategy):
    """Wants something of pods, not of nodes."""

    name = "TopologySpread"

    def at_rest(self, used: Floats) -> str:
        return "replicas lie over zones and nodes as evenly as asked for"
