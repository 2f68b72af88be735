"""The policy: every option there is, its default, and why.

`policy` has the options of planning and of each strategy, `migration` those of carrying out moves,
`value_types` the types that options may have. How a policy is read from a file is in `files`.
"""

from rescheduler.model.rules.node_availability import NodeLabel
from rescheduler.settings.int_or_percent import Limit, limit_of
from rescheduler.settings.migration import (
    MigrationOptions,
    TemporaryBudget,
)
from rescheduler.settings.policy import (
    Arguments,
    ConstraintRepairOptions,
    CostOptimizationOptions,
    DefragmentationOptions,
    LoadBalancingOptions,
    LoadWeights,
    LogLevel,
    NodeMaintenanceOptions,
    PodSelector,
    Policy,
    ScoreWeights,
    SelectorExpression,
    StrategyName,
    TopologySpreadOptions,
)
from rescheduler.settings.value_types import (
    Amount,
    Count,
    Options,
    Percent,
    Seconds,
    SecondsOrZero,
    Weight,
    node_label_of,
    seconds_of,
    seconds_or_zero_of,
)

__all__ = [
    "Amount",
    "Arguments",
    "ConstraintRepairOptions",
    "CostOptimizationOptions",
    "Count",
    "DefragmentationOptions",
    "Limit",
    "LoadBalancingOptions",
    "LoadWeights",
    "LogLevel",
    "MigrationOptions",
    "NodeLabel",
    "NodeMaintenanceOptions",
    "Options",
    "Percent",
    "PodSelector",
    "Policy",
    "ScoreWeights",
    "Seconds",
    "SecondsOrZero",
    "SelectorExpression",
    "StrategyName",
    "TemporaryBudget",
    "TopologySpreadOptions",
    "Weight",
    "limit_of",
    "node_label_of",
    "seconds_of",
    "seconds_or_zero_of",
]
