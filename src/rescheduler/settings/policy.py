# mypy: disable-error-code="misc"
# (mypy does not see that structs inherit being frozen)
"""Every option, its default, and why.

A strategy may have options of its own: a struct that derives from `Options`. It stands under the
strategy's name in lower camel case, next to the other arguments. Reading it, refusing what it does
not know, and telling where a mistake is come with it.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Literal

import msgspec

from rescheduler.model.objects import LabelSelector, Requirement, ResourceList
from rescheduler.model.resources import amounts_of, in_units
from rescheduler.model.rules.node_availability import DEFAULT_MAINTENANCE_LABEL, NodeLabel
from rescheduler.settings.migration import MigrationOptions
from rescheduler.settings.value_types import (
    Amount,
    AtLeastOne,
    Count,
    Limit,
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
    """Empties nodes that are labelled for maintenance."""
    TOPOLOGY_SPREAD = "TopologySpread"
    """Spreads replicas over zones and nodes."""
    CONSTRAINT_REPAIR = "ConstraintRepair"
    """Moves pods that break a rule where they are to where they break none."""
    COST_OPTIMIZATION = "CostOptimization"
    """Frees nodes, the expensive ones first."""
    DEFRAGMENTATION = "Defragmentation"
    """Makes room for pods of a given shape."""


class SelectorExpression(Requirement, frozen=True, forbid_unknown_fields=True):
    """An expression of a selector in a policy, with operators that exist."""

    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]


class PodSelector(LabelSelector, frozen=True, forbid_unknown_fields=True):
    """A label selector in a policy: stricter than one that the API server has checked."""

    match_expressions: tuple[SelectorExpression, ...] = ()


class LoadWeights(Options, frozen=True):
    """How much each resource counts in a node's load. Only their ratio matters."""

    cpu: Amount = 1.0
    """0 leaves CPU out."""

    memory: Amount = 1.0
    """0 leaves memory out."""

    def __post_init__(self) -> None:
        if self.cpu + self.memory == 0:
            raise ValueError("expected a weight above 0 for cpu or memory")


class ScoreWeights(Options, frozen=True):
    """What makes a node a good place for a new pod. Only their ratio matters."""

    cpu: Amount = 1.0
    """How much it counts that little CPU is taken. 0 leaves CPU out."""

    memory: Amount = 1.0
    """How much it counts that little memory is taken. 0 leaves memory out."""

    balance: Amount = 1.0
    """How much it counts that the pod brings the node's load closer to the mean of all nodes. 0
    leaves it out; a higher one fills small and empty nodes first with big pods."""

    def __post_init__(self) -> None:
        if self.cpu + self.memory + self.balance == 0:
            raise ValueError("expected a weight above 0 for cpu, memory or balance")


class LoadBalancingOptions(Options, frozen=True):
    """What load is, and among which nodes it is evened out."""

    weights: LoadWeights = LoadWeights()
    """What load is a mix of. The more one resource counts, the less the other is evened out."""

    node_pool_label: str = ""
    """Load is evened out within the nodes that have the same value of this label. Empty means
    that all nodes are one pool; with many small pools, less can be evened out."""


class NodeMaintenanceOptions(Options, frozen=True):
    """Which nodes are to be emptied, and whether they are closed first."""

    maintenance_label: NodeLabel = DEFAULT_MAINTENANCE_LABEL
    """Nodes with this label are emptied: `key=value`, or a key alone for the value `true`."""

    cordon: bool = True
    """Whether such nodes are cordoned, so that nothing new comes while they are emptied. Without
    it, the scheduler may fill a node as fast as it is emptied."""


class TopologySpreadOptions(Options, frozen=True):
    """Whose replicas are spread."""

    undeclared: bool = True
    """Whether workloads that declare no spread have their replicas kept apart too, over zones and
    nodes. Without it, only declared constraints are repaired, and fewer pods are moved."""


class ConstraintRepairOptions(Options, frozen=True):
    """Which rules are repaired."""

    preferred: bool = False
    """Whether pods are also moved for what they only prefer. This may move many pods, for wishes
    often go unfulfilled."""


class CostOptimizationOptions(Options, frozen=True):
    """What nodes cost, and what saving them is worth. All prices are in one unit of your choice."""

    minimum_savings: Amount = 0.0
    """A plan that saves less than this is not worth its moves. 0 means that every saving is; a
    higher one waits until more can be saved at once."""

    move_cost: Amount | None = None
    """What a move of an ordinary pod costs. None means a thousandth of the mean node price, so
    that a node is worth many moves; 0 means that moves cost nothing and any number of them may be
    made for the least saving; a higher one moves fewer pods and frees fewer nodes."""

    prices: dict[str, Amount] = {}
    """What a node costs, by its instance type (label `node.kubernetes.io/instance-type`). The
    annotation `rescheduler.dev/node-cost` of a node comes first; without either, all nodes cost
    the same. A node of price 0 is never worth freeing."""


class DefragmentationOptions(Options, frozen=True):
    """What there should be room for."""

    shape: ResourceList = {}
    """What a pod asks for that should find room: `{cpu: "16", memory: 64Gi}`. There is no default,
    for only you know what is to come. A bigger one needs more moves for each place made."""

    def amounts(self) -> dict[str, int]:
        """The shape in the scheduler's units."""
        return in_units(amounts_of(self.shape))


class Arguments(Options, frozen=True):
    """What a policy file may say."""

    rescheduling_interval_seconds: Seconds = msgspec.field(
        default=Seconds(30), name="reschedulingInterval"
    )
    """How long to wait from one round to the next. A shorter wait reacts sooner and costs the
    planning time of more rounds; moves of the last round may then still be under way."""

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
    """How much each strategy counts against the others where they disagree, by name; 1 if it is
    not named. One of 2 gets its way at half the gain. What is required (maintenance, broken
    rules, overload) comes before the rest whatever its weight."""

    cpu_threshold: Percent = 80.0
    """ResourceOptimization relieves nodes whose CPU is used to a higher percentage than this. At
    0, every node that runs anything is too full; a higher one leaves less room for peaks."""

    memory_threshold: Percent = 80.0
    """The same for memory. A node that runs out of it kills pods, so be careful with values
    close to 100."""

    imbalance_threshold: Percent = 20.0
    """LoadBalancing acts when the most and the least loaded node are further apart than this, in
    percentage points. At 0 it never rests; a higher one moves fewer pods and evens out less."""

    consecutive_rounds: AtLeastOne | None = None
    """In how many rounds in a row a node's load must be too high before its pods are moved. None
    means 3 where load is measured, for it goes up and down by itself, and 1 where it is taken from
    requests. A higher number acts on fewer false alarms, and later."""

    max_reschedule_pods: Count = 10
    """How many pods a round moves at most. 0 means none: plans then only say why. A higher
    number gets there in fewer rounds, with more pods restarting at the same time."""

    max_moves_per_node: Limit | None = None
    """How many pods a round takes from or brings to one node at most: a number, or a percentage
    of the pods that the node can run. None means no limit, 0 that no pod moves. A higher one gets
    there sooner, with more images pulled and more pods starting on a node at once."""

    max_moves_per_namespace: Limit | None = None
    """How many pods of one namespace a round moves at most: a number, or a percentage of its pods.
    None means no limit, 0 that no pod moves. A higher one lets one team's pods pay for more."""

    max_moves_per_workload: Limit | None = None
    """How many pods of one ReplicaSet, StatefulSet or other owner a round moves at most: a number,
    or a percentage of its replicas. None means no limit, 0 that no pod moves. A higher one
    disturbs more of an application at once."""

    min_pod_age_seconds: SecondsOrZero = msgspec.field(default=SecondsOrZero(0), name="minPodAge")
    """Pods younger than this stay where they are. 0 means that no pod is too young; a longer age
    leaves those alone that are still warming up, and lets a node with new pods wait."""

    allow_bare_pods: bool = False
    """Whether pods without a controller may be moved. They are copied under another name, so
    whoever knows them by name loses sight of them."""

    allow_job_pods: bool = False
    """Whether pods of Jobs may be moved. They start their work anew, and a Job may count that as a
    failure."""

    allow_local_storage: bool = False
    """Whether pods may be moved that use a directory of their node, or one that goes away with
    them (hostPath, emptyDir). What they keep there is lost or left behind."""

    excluded_namespaces: tuple[str, ...] = ("kube-system", "kube-public")
    """Pods in these namespaces stay where they are. An empty list excludes none; system pods
    are left alone even so."""

    excluded_pod_selector: PodSelector | None = None
    """Pods with such labels stay where they are: `app=web,tier in (a,b),!legacy`, or a mapping
    with `matchLabels` and `matchExpressions`. None, and an empty one, exclude no pods."""

    max_pending_pods: Count = 100
    """With more pods pending than this, nothing is moved: the cluster has worse to deal with. 0
    means that a single pending pod stops everything; a higher one moves pods in a cluster that is
    short of room, where they compete with those that wait."""

    max_unready_nodes_percent: Percent = 20.0
    """With a higher percentage of nodes not ready, nothing is moved: what we see may be wrong. 0
    means that a single such node stops everything; at 100, nothing does."""

    migration: MigrationOptions = MigrationOptions()
    """How moves are carried out."""

    strict_filter: bool = False
    """Whether the scheduler may not use nodes that a new pod would bring above `cpuThreshold` or
    `memoryThreshold`, even if there are no others. The pod then waits until there are; without
    it, it runs where it can, and an Event says so."""

    score_weights: ScoreWeights = ScoreWeights()
    """By what the scheduler is advised where to put a new pod."""

    load_balancing: LoadBalancingOptions = LoadBalancingOptions()
    node_maintenance: NodeMaintenanceOptions = NodeMaintenanceOptions()
    topology_spread: TopologySpreadOptions = TopologySpreadOptions()
    constraint_repair: ConstraintRepairOptions = ConstraintRepairOptions()
    cost_optimization: CostOptimizationOptions = CostOptimizationOptions()
    defragmentation: DefragmentationOptions = DefragmentationOptions()


class Policy(Arguments, frozen=True):
    """What to improve, how far to go, and what to leave alone."""

    plugin_options: Mapping[str, Options] = {}
    """The options of strategies that are not built in, by the name of the strategy: of those that
    are enabled, and of those the file says something about."""
