"""Strategies: what is worth changing, one file each.

A strategy states what it wants as a cost. The planner adds the costs of all enabled strategies up
and looks for moves that lower the sum, so strategies never undo each other's work.
"""

from rescheduler.planning.strategies.constraint_repair import ConstraintRepair
from rescheduler.planning.strategies.cost_optimization import CostOptimization
from rescheduler.planning.strategies.defragmentation import Defragmentation
from rescheduler.planning.strategies.load_balancing import LoadBalancing
from rescheduler.planning.strategies.node_maintenance import NodeMaintenance
from rescheduler.planning.strategies.resource_optimization import ResourceOptimization
from rescheduler.planning.strategies.strategy import Strategy
from rescheduler.planning.strategies.topology_spread import TopologySpread

STRATEGIES: dict[str, type[Strategy]] = {
    "NodeMaintenance": NodeMaintenance,
    "ConstraintRepair": ConstraintRepair,
    "TopologySpread": TopologySpread,
    "ResourceOptimization": ResourceOptimization,
    "CostOptimization": CostOptimization,
    "Defragmentation": Defragmentation,
    "LoadBalancing": LoadBalancing,
}
"""By name, the most urgent first."""
