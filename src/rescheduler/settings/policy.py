# mypy: disable-error-code="misc"
# (mypy does not see that structs inherit being frozen)
"""Every option of planning, its default, and why.

A strategy may have options of its own: a struct that derives from `Options`. In a policy file they
are under the strategy's name in lower camel case, next to the other arguments. They are read and
checked as all others are.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Literal

import msgspec

from rescheduler.model.objects import LabelSelector, Requirement, ResourceList
from rescheduler.model.quantities import EXPECTED as EXPECTED_QUANTITY
from rescheduler.model.quantities import BadQuantity, nanos
from rescheduler.model.resources import amounts_of, in_units, is_counted
from rescheduler.model.rules.node_availability import DEFAULT_MAINTENANCE_LABEL, NodeLabel
from rescheduler.settings.int_or_percent import Limit
from rescheduler.settings.migration import MigrationOptions
from rescheduler.settings.value_types import (
    Amount,
    AtLeastOne,
    BadOption,
    Count,
    Options,
    Percent,
    Seconds,
    SecondsOrZero,
    Weight,
)


class StrategyName(StrEnum):
    """The strategies that are built in."""

    LOAD_BALANCING = "LoadBalancing"
    """Moves pods from loaded to less loaded nodes until the cluster is balanced."""
    RESOURCE_OPTIMIZATION = "ResourceOptimization"
    """Relieves nodes above `cpuThreshold` or `memoryThreshold` until they are below."""
    NODE_MAINTENANCE = "NodeMaintenance"
    """Drains nodes that are labelled for maintenance."""
    TOPOLOGY_SPREAD = "TopologySpread"
    """Spreads the replicas of a workload over zones and nodes."""
    CONSTRAINT_REPAIR = "ConstraintRepair"
    """Moves pods that break a rule on their node to nodes where they break none."""
    COST_OPTIMIZATION = "CostOptimization"
    """Empties nodes, the most expensive ones first, so that they can be removed."""
    DEFRAGMENTATION = "Defragmentation"
    """Moves pods together so that pods of a given shape find room."""


class LogLevel(StrEnum):
    """From which level on the program logs."""

    DEBUG = "debug"
    """Also every request that is sent again, and every action of a migration."""
    INFO = "info"
    """A line per round and per step of a migration."""
    WARNING = "warning"
    """Only what went wrong."""
    ERROR = "error"
    """Only what someone must act on."""


class SelectorExpression(Requirement, frozen=True, forbid_unknown_fields=True):
    """An expression of a selector in a policy, with operators that exist."""

    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]


class PodSelector(LabelSelector, frozen=True, forbid_unknown_fields=True):
    """A label selector in a policy: stricter than one that the API server has checked."""

    match_expressions: tuple[SelectorExpression, ...] = ()


class LoadWeights(Options, frozen=True):
    """How much each resource counts in a node's load. Only the ratio of the weights matters."""

    cpu: Amount = 1.0
    """0 ignores CPU."""

    memory: Amount = 1.0
    """0 ignores memory."""

    def __post_init__(self) -> None:
        if self.cpu + self.memory == 0:
            raise ValueError("expected a weight above 0 for cpu or memory")


class ScoreWeights(Options, frozen=True):
    """How nodes are scored for a new pod. Only the ratio of the weights matters."""

    cpu: Amount = 1.0
    """How much free CPU counts. 0 ignores CPU."""

    memory: Amount = 1.0
    """How much free memory counts. 0 ignores memory."""

    balance: Amount = 1.0
    """How much it counts that the pod brings the node's load closer to the mean of all nodes. 0
    ignores it. A higher weight puts big pods on small, empty nodes first."""

    def __post_init__(self) -> None:
        if self.cpu + self.memory + self.balance == 0:
            raise ValueError("expected a weight above 0 for cpu, memory or balance")


class LoadBalancingOptions(Options, frozen=True):
    """What load is, and among which nodes it is balanced."""

    weights: LoadWeights = LoadWeights()
    """What load is a mix of. The more one resource counts, the less the other is balanced."""

    node_pool_label: str = ""
    """Load is balanced within the nodes that have the same value of this label. Empty means that
    all nodes are one pool. With many small pools, less can be balanced."""


class NodeMaintenanceOptions(Options, frozen=True):
    """Which nodes are drained, and whether they are cordoned first."""

    maintenance_label: NodeLabel = DEFAULT_MAINTENANCE_LABEL
    """Nodes with this label are drained: `key=value`, or a key alone for the value `true`."""

    cordon: bool = True
    """Whether such nodes are cordoned, so that they get no new pods while they are drained.
    Without it, the scheduler may fill a node as fast as it is drained."""


class TopologySpreadOptions(Options, frozen=True):
    """Whose replicas are spread."""

    undeclared: bool = True
    """Whether the replicas of workloads without topology spread constraints are spread too, over
    zones and nodes. Without it, only declared constraints count, and fewer pods are moved."""


class ConstraintRepairOptions(Options, frozen=True):
    """Which rules are repaired."""

    preferred: bool = False
    """Whether pods are also moved for rules that they only prefer. This may move many pods:
    preferences are often not met."""


class CostOptimizationOptions(Options, frozen=True):
    """What nodes cost, and what saving them is worth. All prices are in one unit of your choice."""

    minimum_savings: Amount = 0.0
    """A plan that saves less than this is not worth its moves. 0 means that every saving is. A
    higher amount waits until more can be saved at once."""

    move_cost: Amount | None = None
    """What a move of an ordinary pod costs. None means a thousandth of the mean node price, so
    that a node is worth many moves. 0 means that moves cost nothing: the smallest saving is worth
    any number of them. A higher cost moves fewer pods and empties fewer nodes."""

    prices: dict[str, Amount] = {}
    """What a node costs, by its instance type (label `node.kubernetes.io/instance-type`). The
    annotation `rescheduler.dev/node-cost` of a node comes first; without either, all nodes cost
    the same. A node of price 0 is never worth emptying."""


class DefragmentationOptions(Options, frozen=True):
    """What there should be room for."""

    shape: ResourceList = {}
    """The requests of a pod that should find room: `{cpu: "16", memory: 64Gi}`. There is no
    default, because only you know what will be deployed. A bigger shape needs more moves for the
    room of one such pod."""

    def __post_init__(self) -> None:
        for resource, quantity in self.shape.items():
            if not is_counted(resource):
                what = "unknown, expected such as cpu, memory, nvidia.com/gpu"
                raise BadOption(("shape", resource), what)
            try:
                is_above_zero = nanos(quantity) > 0
            except BadQuantity as error:
                raise BadOption(("shape", resource), EXPECTED_QUANTITY, quantity) from error
            if not is_above_zero:
                raise BadOption(("shape", resource), "expected more than 0", quantity)

    def amounts(self) -> dict[str, int]:
        """The shape in the scheduler's units."""
        return in_units(amounts_of(self.shape))


class Arguments(Options, frozen=True):
    """What a policy file may say."""

    rescheduling_interval_seconds: Seconds = msgspec.field(
        default=Seconds(30), name="reschedulingInterval"
    )
    """How long to wait from one round to the next. A shorter wait reacts sooner and costs the
    planning time of more rounds; moves of the last round may still be under way."""

    planning_timeout_seconds: Seconds = msgspec.field(default=Seconds(5), name="planningTimeout")
    """How long a plan may take; the best one found by then is used. A longer time finds better
    plans for big clusters and many moves, and costs a core for as long."""

    enabled_strategies: tuple[str, ...] = (
        StrategyName.LOAD_BALANCING,
        StrategyName.RESOURCE_OPTIMIZATION,
    )
    """What is worth changing, by name: those built in, and those of installed plugins. With none
    enabled, nothing is ever moved."""

    strategy_weights: dict[str, Weight] = {}
    """How much each strategy counts where strategies disagree, by name; 1 if it is not named. A
    strategy with weight 2 wins with half the gain. What is required (maintenance, broken rules,
    spread constraints that must hold, overload) comes first whatever its weight."""

    move_cost_scale: Amount = 1.0
    """How much every move must gain, as a multiple of what it must gain by default. 0 makes the
    smallest gain worth a move; a higher number moves fewer pods and leaves more as it is. Where
    `costOptimization.moveCost` states what a move costs, that counts instead."""

    cpu_threshold: Percent = 80.0
    """Above this percentage of CPU in use, a node is overloaded: ResourceOptimization moves pods
    away from it. At 0, every node that runs anything is overloaded. A higher threshold leaves less
    room for peaks."""

    memory_threshold: Percent = 80.0
    """The same for memory. A node that runs out of memory kills pods, so be careful with values
    close to 100."""

    imbalance_threshold: Percent = 20.0
    """LoadBalancing acts when the most and the least loaded node are further apart than this, in
    percentage points, as far as moves can change it. At 0 it acts whenever a move is worth its
    price. A higher threshold moves fewer pods and balances less."""

    consecutive_rounds: AtLeastOne | None = None
    """In how many rounds in a row a node's load must be too high before its pods are moved. None
    means 3 where load is measured, because it goes up and down by itself, and 1 where load is the
    sum of requests. A higher number acts on fewer false alarms, and later."""

    max_reschedule_pods: Count = 10
    """How many pods a round moves at most. Earlier planned moves that are not finished count,
    except those that are paused. 0 means none: plans only explain. A higher number needs fewer
    rounds, with more pods restarting at the same time."""

    max_moves_per_node: Limit | None = None
    """How many pods a round takes from or brings to one node at most: a number, or a percentage
    of the pods that the node can run. None means no limit, 0 that no pod moves. A higher limit
    needs fewer rounds, with more images pulled and more pods starting on a node at once."""

    max_moves_per_namespace: Limit | None = None
    """How many pods of one namespace a round moves at most: a number, or a percentage of its pods.
    None means no limit, 0 that no pod moves. A higher limit restarts more pods of one team."""

    max_moves_per_workload: Limit | None = None
    """How many pods of one ReplicaSet, StatefulSet or other owner a round moves at most: a number,
    or a percentage of its replicas. None means no limit, 0 that no pod moves. A higher limit
    disrupts more of an application at once."""

    min_pod_age_seconds: SecondsOrZero = msgspec.field(default=SecondsOrZero(0), name="minPodAge")
    """Pods younger than this are not moved. 0 means that no pod is too young. A longer age spares
    pods that are still warming up, and delays moves from nodes with new pods."""

    allow_bare_pods: bool = False
    """Whether pods without a controller may be moved. They are copied under another name, so
    whoever refers to them by name no longer finds them."""

    allow_job_pods: bool = False
    """Whether pods of Jobs may be moved. They start their work from the beginning, and a Job may
    count that as a failure."""

    allow_local_storage: bool = False
    """Whether pods with local storage may be moved. What they keep in an emptyDir is lost, and
    what they keep in a hostPath stays on the old node."""

    excluded_namespaces: tuple[str, ...] = ("kube-system", "kube-public")
    """Pods in these namespaces are not moved. An empty list excludes none; pods with system
    priority are never moved."""

    excluded_pod_selector: PodSelector | None = None
    """Pods that this selects are not moved: `app=web,tier in (a,b),!legacy`, or a mapping
    with `matchLabels` and `matchExpressions`. None, and an empty one, exclude no pods."""

    max_pending_pods: Count = 100
    """With more pods pending than this, only maintenance goes on: the cluster has bigger problems.
    0 means that a single pending pod stops all other moves. A higher number moves pods in a cluster
    that is short of room, where they compete with the pending ones. Of one namespace at most half
    of this number counts. Pods that no node could take even if it were empty do not count, nor do
    those that are gated, or nominated to a node."""

    max_unready_nodes_percent: Percent = 20.0
    """With a higher percentage of nodes not Ready, nothing is moved: our view of the cluster may be
    wrong. 0 means that a single such node stops all moves; at 100, nothing does."""

    migration: MigrationOptions = MigrationOptions()
    """How moves are carried out."""

    strict_filter: bool = False
    """Whether the extender refuses nodes that a new pod would bring above `cpuThreshold` or
    `memoryThreshold` even if there are no others. The pod then stays pending until there are.
    Without it, the pod runs on such a node, and an Event says so."""

    score_weights: ScoreWeights = ScoreWeights()
    """How the extender scores nodes for a new pod."""

    log_level: LogLevel | None = None
    """From which level on `run` and `serve` log: debug, info, warning or error. None means what
    `--log-level` says. It is here because a policy can be changed while the program runs. Debug
    writes several lines for each step of a migration."""

    load_balancing: LoadBalancingOptions = LoadBalancingOptions()
    node_maintenance: NodeMaintenanceOptions = NodeMaintenanceOptions()
    topology_spread: TopologySpreadOptions = TopologySpreadOptions()
    constraint_repair: ConstraintRepairOptions = ConstraintRepairOptions()
    cost_optimization: CostOptimizationOptions = CostOptimizationOptions()
    defragmentation: DefragmentationOptions = DefragmentationOptions()

    def __post_init__(self) -> None:
        if (
            StrategyName.DEFRAGMENTATION in self.enabled_strategies
            and not self.defragmentation.shape
        ):
            expected = "expected the requests of a pod to make room for, such as {cpu: '16'}"
            raise BadOption(("defragmentation", "shape"), f"missing, {expected}")


class Policy(Arguments, frozen=True):
    """What to improve, within which limits, and what to leave alone."""

    plugin_options: Mapping[str, Options] = {}
    """The options of strategies that are not built in, by the name of the strategy: of those that
    are enabled, and of those the file says something about."""

    @property
    def maintenance_label(self) -> NodeLabel:
        """The label of nodes that are to be emptied: they get no pods, whatever is enabled."""
        return self.node_maintenance.maintenance_label

    @property
    def wanted_resources(self) -> frozenset[str]:
        """Resources that there should be room for, whether or not a pod uses them yet."""
        return frozenset(self.defragmentation.amounts())

    @property
    def node_prices(self) -> Mapping[str, float]:
        """What nodes cost by their instance type, for whoever adds up costs."""
        return self.cost_optimization.prices
