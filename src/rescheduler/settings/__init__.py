"""The policy: every option there is, and how it is read from a file.

`options` has each option with its default and why, `values` the kinds of values that options may
have, `reading` finds the arguments in a file, `arguments` makes a policy of them or says what is
wrong with them. Nothing here opens a file or looks for plugins: what a file holds, and which
strategies of other people there are, is handed in.
"""

from rescheduler.settings.arguments import options_key
from rescheduler.settings.migration import (
    MigrationArguments,
    MigrationOptions,
    TemporaryBudget,
)
from rescheduler.settings.options import (
    Arguments,
    ConstraintRepairOptions,
    CostOptimizationOptions,
    DefragmentationOptions,
    LoadBalancingOptions,
    LoadWeights,
    NodeMaintenanceOptions,
    PodSelector,
    Policy,
    ScoreWeights,
    SelectorExpression,
    StrategyName,
    TopologySpreadOptions,
)
from rescheduler.settings.reading import read_policy
from rescheduler.settings.values import (
    Amount,
    Count,
    Limit,
    NodeLabel,
    Options,
    Percent,
    Seconds,
    SecondsOrZero,
    Weight,
    limit_of,
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
    "MigrationArguments",
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
    "options_key",
    "read_policy",
    "seconds_of",
    "seconds_or_zero_of",
]
