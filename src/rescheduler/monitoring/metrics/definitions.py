"""Every metric: its name, its type, its labels and what it means. docs/metrics.md lists the same.

Names and labels follow Prometheus' guide: base units, `_total` for what only grows, and labels with
few values, none of them made from the name of a pod, a node or a namespace.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily

from rescheduler.planning.strategies import STRATEGIES
from rescheduler.planning.strategies.strategy import Measure, Strategy

PREFIX = "rescheduler_"

# From a list that is cached to one of 150,000 pods.
CALL_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
ROUND_BUCKETS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60)
# kube-scheduler waits for half a second as we configure it, by default for five; the API server
# for one.
SERVING_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5)
# Pods start within seconds, or need minutes to stop.
MOVE_BUCKETS = (1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 3600)


class MetricType(StrEnum):
    """The types of metrics that there are here."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True)
class Definition:
    """One metric."""

    name: str
    type: MetricType
    description: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()

    def counter(self, registry: CollectorRegistry) -> Counter:
        """The counter, registered."""
        assert self.type == MetricType.COUNTER
        return Counter(self.name, self.description, self.labels, registry=registry)

    def histogram(self, registry: CollectorRegistry) -> Histogram:
        """The histogram, registered."""
        assert self.type == MetricType.HISTOGRAM
        return Histogram(
            self.name, self.description, self.labels, registry=registry, buckets=self.buckets
        )

    def gauge(self, values: Mapping[Any, float]) -> GaugeMetricFamily:
        """The gauge with these values, by the values of its labels: a tuple of strings."""
        assert self.type == MetricType.GAUGE
        family = GaugeMetricFamily(self.name, self.description, labels=self.labels)
        for labels, value in values.items():
            family.add_metric(labels, value)
        return family


def _counter(name: str, description: str, *labels: str) -> Definition:
    return Definition(PREFIX + name, MetricType.COUNTER, description, labels)


def _gauge(name: str, description: str, *labels: str) -> Definition:
    return Definition(PREFIX + name, MetricType.GAUGE, description, labels)


def _histogram(name: str, description: str, buckets: tuple[float, ...], *labels: str) -> Definition:
    return Definition(PREFIX + name, MetricType.HISTOGRAM, description, labels, buckets)


# ---------------------------------------------------------------- the program

BUILD_INFO = _gauge("build_info", "Always 1, with the version.", "version")
POLICY_INFO = _gauge("policy_info", "Always 1, with a hash of the policy in use.", "hash")
POLICY_RELOADED = _gauge(
    "policy_last_reload_timestamp_seconds", "When the policy in use was loaded."
)
POLICY_ACCEPTED = _gauge(
    "policy_last_reload_successful", "Whether the last reload of the policy was accepted."
)
POLICY_THRESHOLD = _gauge(
    "policy_threshold_ratio",
    "A threshold of the policy in use, by the enabled strategy that goes by it.",
    "strategy",
    "threshold",
)
LEADER = _gauge(
    "leader",
    "Whether this replica leads: 1 on one replica, 0 on the others. Not there in a dry run.",
)
LEADER_TRANSITIONS = _counter(
    "leader_transitions_total", "How often this replica has become the leader."
)

# ---------------------------------------------------------------- rounds

ROUNDS = _counter("rounds_total", "Rounds of planning, by how they ended.", "result")
ROUND_DURATION = _histogram(
    "round_duration_seconds",
    "How long rounds with a new plan took to read, to plan and to ask for moves.",
    ROUND_BUCKETS,
    "stage",
)
LAST_ROUND = _gauge(
    "last_round_timestamp_seconds", "When the last round with a plan ended, new or unchanged."
)
IDLE = _gauge("plan_idle", "1 if the last plan has no moves, with the reason.", "reason")
PLANNED_MOVES = _gauge("planned_moves", "Moves of the last plan.", "strategy")
BLOCKED_PODS = _gauge(
    "blocked_pods",
    "Pods that the last plan left on a node they should leave.",
    "strategy",
    "reason",
)
MOVES_REQUESTED = _counter(
    "moves_requested_total", "Moves for which a Migration was created.", "strategy", "mode"
)
MOVES_SKIPPED = _counter(
    "moves_skipped_total",
    "Planned moves for which no Migration was created.",
    "strategy",
    "reason",
)
OBJECTIVE = _gauge(
    "objective", "What all strategies together cost, before the last plan and after it.", "plan"
)
NODES_IN_USE = _gauge(
    "nodes_in_use", "Nodes with pods that are not their own, such as a DaemonSet's.", "plan"
)
IMBALANCE = _gauge(
    "cluster_imbalance_ratio",
    "Standard deviation of the utilisation of nodes.",
    "resource",
    "plan",
)

# ---------------------------------------------------------------- migrations

MIGRATIONS = _gauge("migrations", "Migrations that exist, finished ones too.", "phase")
MIGRATIONS_FINISHED = _counter(
    "migrations_finished_total", "Migrations that have ended.", "mode", "outcome"
)
MIGRATION_DURATION = _histogram(
    "migration_duration_seconds",
    "How long migrations took, from the start of the last attempt to the end.",
    MOVE_BUCKETS,
    "mode",
    "outcome",
)
STEP_DURATION = _histogram(
    "migration_step_duration_seconds",
    "How long the steps of migrations took.",
    MOVE_BUCKETS,
    "mode",
    "step",
)
OLDEST_MIGRATION = _gauge(
    "oldest_migration_seconds",
    "For how long the migration that has been in its step for longest has been in it.",
)
QUEUE_DEPTH = _gauge("queue_depth", "Objects that wait for a worker.")
QUEUE_FAILING = _gauge("queue_failing", "Objects that failed the last time and are tried again.")

# ---------------------------------------------------------------- what is known of the cluster

API_REQUESTS = _counter(
    "api_requests_total", "Requests to the API server.", "verb", "resource", "code"
)
API_DURATION = _histogram(
    "api_request_duration_seconds",
    "How long requests to the API server took; a watch, until it was accepted.",
    CALL_BUCKETS,
    "verb",
)
WATCH_LAG = _gauge(
    "watch_lag_seconds",
    "Seconds since what is known of a resource was last known to be up to date.",
    "resource",
)
CACHE_AGE = _gauge(
    "cache_age_seconds", "The largest watch lag of all resources, once the cluster is loaded."
)

# ---------------------------------------------------------------- extender and webhook

EXTENDER_DURATION = _histogram(
    "extender_request_duration_seconds",
    "How long requests of kube-scheduler took.",
    SERVING_BUCKETS,
    "verb",
    "code",
)
WEBHOOK_DURATION = _histogram(
    "webhook_request_duration_seconds",
    "How long reviews of new pods took.",
    SERVING_BUCKETS,
    "code",
)
RESERVATIONS = _gauge("reservations", "Migrations for which room is held on their targets.")
CERTIFICATE_EXPIRY = _gauge(
    "certificate_expiry_timestamp_seconds", "When the serving certificate expires."
)

FIXED = tuple(value for value in vars().copy().values() if isinstance(value, Definition))
"""All metrics apart from those that strategies measure."""


def of_measure(measure: Measure) -> Definition:
    """The metric of what a strategy measures."""
    return _gauge(measure.name, measure.description, "strategy", "plan")


def of_strategies(strategies: Iterable[type[Strategy]]) -> dict[str, Definition]:
    """By the name of the measure: the metrics of what these strategies measure.

    Strategies of other people may measure what others do, but not under the name of a metric that
    means something else: that one is left out.
    """
    taken = {definition.name for definition in FIXED}
    found: dict[str, Definition] = {}
    for strategy in strategies:
        for measure in strategy.measures:
            if PREFIX + measure.name not in taken:
                found.setdefault(measure.name, of_measure(measure))
    return found


ALL = (*FIXED, *of_strategies(STRATEGIES.values()).values())
"""All metrics of this program without plugins."""
