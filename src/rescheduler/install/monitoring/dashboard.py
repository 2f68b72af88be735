"""The dashboard: what the rescheduler does, the cluster, migrations, and its own health."""

import json
from typing import Any

from rescheduler.install.monitoring.grafana import (
    Query,
    Row,
    chart,
    dashboard,
    number,
    stacked_chart,
)
from rescheduler.install.monitoring.promql import INSTALLATION, quantile

CHOSEN = 'cluster=~"$cluster", namespace=~"$namespace", job=~"$job"'
"""What the variables of the dashboard choose."""

WINDOW = "$__rate_interval"


def metric(name: str, *conditions: str) -> str:
    """A metric of the installations that were chosen."""
    return f"rescheduler_{name}{{{', '.join((CHOSEN, *conditions))}}}"


def latest(name: str, *labels: str) -> str:
    """What the leader reports. In a dry run all replicas do: the largest value counts."""
    by = f" by ({', '.join(labels)})" if labels else ""
    return f"max{by} ({metric(name)})"


def per_minute(name: str, *labels: str) -> str:
    """How often something happens in a minute."""
    return f"60 * {per_second(name, *labels)}"


def per_second(name: str, *labels: str) -> str:
    """How often something happens in a second."""
    by = f" by ({', '.join(labels)})" if labels else ""
    return f"sum{by} (rate({metric(name)}[{WINDOW}]))"


def percentiles(histogram: str, *labels: str) -> tuple[Query, ...]:
    """The median and the slowest hundredth of what a histogram counts."""
    names = " ".join(f"{{{{{label}}}}}" for label in labels)
    return tuple(
        Query(
            quantile(share, metric(f"{histogram}_bucket"), WINDOW, *labels),
            f"{title} {names}".strip(),
        )
        for share, title in ((0.5, "p50"), (0.99, "p99"))
    )


def of_process(expression: str) -> str:
    """What is known about our own processes; a job may have those of others too."""
    return f"{expression} and on ({INSTALLATION}, instance) {metric('build_info')}"


NO_DATA_IS_ZERO = " or vector(0)"
FIRING = f'count(ALERTS{{{CHOSEN}, alertname=~"Rescheduler.*", alertstate="firing"}})'
_UNDER_WAY = 'phase=~"Pending|InProgress"'
_LOST = 'outcome=~"Failed|CameBack"'
PLANNED = f"sum({latest('planned_moves', 'strategy')})"
IN_PROGRESS = f"sum({metric('migrations', _UNDER_WAY)})"
LAST_ROUND = f"time() - {latest('last_round_timestamp_seconds')}"
LOST_IN_A_DAY = f"sum(increase({metric('migrations_finished_total', _LOST)}[1d]))"
_OF_IMBALANCE = 'threshold="imbalanceThreshold"'
IMBALANCE_THRESHOLD = f"max({metric('policy_threshold_ratio', _OF_IMBALANCE)})"
DAYS_LEFT = f"(min({metric('certificate_expiry_timestamp_seconds')}) - time())"

ROWS = (
    Row(
        "What it does",
        (
            number(
                "Alerts",
                "How many alerts about the rescheduler fire now.",
                Query(FIRING + NO_DATA_IS_ZERO),
                alarming_from=1,
            ),
            number(
                "Replicas",
                "How many replicas are scraped.",
                Query(f"count({metric('build_info')}) or vector(0)"),
            ),
            number(
                "Last round",
                "How long ago the cluster was last looked at.",
                Query(LAST_ROUND),
                "s",
                alarming_from=1800,
            ),
            number(
                "Planned moves",
                "How many moves the newest plan has.",
                Query(PLANNED),
            ),
            number(
                "Migrations under way",
                "How many moves have been asked for and have not ended.",
                Query(IN_PROGRESS),
            ),
            number(
                "Lost moves in a day",
                "How many moves were given up or brought their pod back.",
                Query(LOST_IN_A_DAY),
                alarming_from=10,
            ),
            stacked_chart(
                "Rounds per minute",
                "How often the cluster is looked at, by result: a plan, nothing new, left out, "
                "or an error.",
                Query(per_minute("rounds_total", "result"), "{{result}}"),
            ),
            chart(
                "Duration of a round",
                "How long the stages of a round take: reading the cluster, planning, and asking "
                "for moves.",
                *percentiles("round_duration_seconds", "stage"),
                unit="s",
            ),
            stacked_chart(
                "Planned moves",
                "How many moves the newest plan has, by the strategy that gains most from them.",
                Query(latest("planned_moves", "strategy"), "{{strategy}}"),
            ),
            stacked_chart(
                "Requested moves per minute",
                "How many planned moves are started, by strategy and mode.",
                Query(
                    per_minute("moves_requested_total", "strategy", "mode"), "{{strategy}} {{mode}}"
                ),
            ),
            stacked_chart(
                "Moves left out per minute",
                "How many planned moves are not started, by strategy and reason.",
                Query(
                    per_minute("moves_skipped_total", "strategy", "reason"),
                    "{{strategy}} {{reason}}",
                ),
            ),
            stacked_chart(
                "Blocked pods",
                "How many pods the newest plan leaves in place though a move would help, by "
                "strategy and reason.",
                Query(latest("blocked_pods", "strategy", "reason"), "{{strategy}} {{reason}}"),
            ),
        ),
    ),
    Row(
        "The cluster",
        (
            chart(
                "Imbalance",
                "Standard deviation of the load of the nodes, now and after the plan.",
                Query(
                    latest("cluster_imbalance_ratio", "resource", "plan"), "{{resource}} {{plan}}"
                ),
                unit="percentunit",
            ),
            chart(
                "Fullest minus emptiest node",
                "How far the loads of two nodes are apart, now and after the plan; from "
                "imbalanceThreshold on, pods are moved.",
                Query(latest("load_difference_ratio", "plan"), "{{plan}}"),
                Query(IMBALANCE_THRESHOLD, "imbalanceThreshold"),
                unit="percentunit",
            ),
            chart(
                "Overloaded nodes",
                "How many nodes are above their threshold, or hold more than they have, now and "
                "after the plan.",
                Query(latest("overloaded_nodes", "plan"), "overloaded {{plan}}"),
                Query(latest("overcommitted_nodes", "plan"), "overcommitted {{plan}}"),
            ),
            chart(
                "Pods in the wrong place",
                "How many rules are broken by pods where they are, and how many pods have to leave "
                "nodes under maintenance, now and after the plan.",
                Query(latest("rule_violations", "strategy", "plan"), "{{strategy}} {{plan}}"),
                Query(latest("pods_to_drain", "plan"), "to drain {{plan}}"),
            ),
            chart(
                "Objective",
                "What all strategies together want to be low, now and after the plan.",
                Query(latest("objective", "plan"), "{{plan}}"),
            ),
            chart(
                "Why nothing is planned",
                "1 for the reason why the newest plan has no moves.",
                Query(latest("plan_idle", "reason"), "{{reason}}"),
            ),
            chart(
                "Nodes in use",
                "How many nodes run pods that are not the node's own, now and after the plan.",
                Query(latest("nodes_in_use", "plan"), "{{plan}}"),
            ),
            chart(
                "Cost of the nodes in use",
                "What these nodes cost, in the unit of the prices in your policy.",
                Query(latest("nodes_in_use_cost", "plan"), "{{plan}}"),
            ),
            chart(
                "Room for large pods",
                "How many pods of the size that room is kept free for would fit.",
                Query(latest("free_shapes", "plan"), "{{plan}}"),
            ),
        ),
    ),
    Row(
        "Migrations",
        (
            stacked_chart(
                "Migrations by phase",
                "How many Migrations there are, finished ones included until they are deleted.",
                Query(latest("migrations", "phase"), "{{phase}}"),
            ),
            stacked_chart(
                "Finished per minute, by outcome",
                "How moves end: on their target, elsewhere, back where they were, given up, or "
                "withdrawn before they started.",
                Query(per_minute("migrations_finished_total", "outcome"), "{{outcome}}"),
            ),
            stacked_chart(
                "Finished per minute, by mode",
                "How pods are moved: with the new pod first, by eviction, or as a copy.",
                Query(per_minute("migrations_finished_total", "mode"), "{{mode}}"),
            ),
            chart(
                "Duration of a migration",
                "How long a move takes from its start to its end, by mode.",
                *percentiles("migration_duration_seconds", "mode"),
                unit="s",
            ),
            chart(
                "Duration of a step",
                "How long each step of a move takes; starting a pod until it is Ready is most "
                "of it.",
                *percentiles("migration_step_duration_seconds", "step"),
                unit="s",
            ),
            chart(
                "Oldest step",
                "How long the slowest migration has been in its step; ReschedulerMigrationStuck "
                "fires at 15 minutes.",
                Query(latest("oldest_migration_seconds"), "oldest"),
                unit="s",
            ),
        ),
    ),
    Row(
        "Health",
        (
            number(
                "Leaders",
                "How many replicas lead; there should be one.",
                Query(f"sum({metric('leader')})"),
                alarming_from=2,
            ),
            number(
                "Policy",
                "1 if the newest policy is in use, 0 if it was refused.",
                Query(f"min({metric('policy_last_reload_successful')})"),
            ),
            number(
                "Certificate",
                "How long the certificate of the extender is valid.",
                Query(DAYS_LEFT),
                "s",
            ),
            number(
                "Failing",
                "How many migrations or nodes failed at the last try and are tried again.",
                Query(latest("queue_failing")),
            ),
            number(
                "Reservations",
                "For how many pods on their way room is held.",
                Query(latest("reservations")),
            ),
            number(
                "Changes of leader in a day",
                "How often another replica took over.",
                Query(f"sum(increase({metric('leader_transitions_total')}[1d]))"),
            ),
            chart(
                "Age of the view of the cluster",
                "How old the oldest thing is that a replica knows; on nodes and pods older than 3 "
                "minutes nothing is planned.",
                Query(metric("cache_age_seconds"), "{{instance}}"),
                unit="s",
            ),
            chart(
                "Watch lag",
                "How long ago each kind was last known to be up to date.",
                Query(f"max by (resource) ({metric('watch_lag_seconds')})", "{{resource}}"),
                unit="s",
            ),
            chart("Leader", "Which replica leads.", Query(metric("leader"), "{{instance}}")),
            stacked_chart(
                "Requests to the API server",
                "How many requests a second are sent, by the code of the answer.",
                Query(per_second("api_requests_total", "code"), "{{code}}"),
                unit="reqps",
            ),
            chart(
                "Duration of requests to the API server",
                "How long the API server takes to answer, by verb.",
                *percentiles("api_request_duration_seconds", "verb"),
                unit="s",
            ),
            chart(
                "Queue",
                "How many migrations or nodes wait for the controller.",
                Query(latest("queue_depth"), "waiting"),
                Query(latest("queue_failing"), "tried again"),
            ),
            stacked_chart(
                "Requests of kube-scheduler",
                "How many requests a second kube-scheduler sends to the extender, by verb and "
                "code.",
                Query(
                    per_second("extender_request_duration_seconds_count", "verb", "code"),
                    "{{verb}} {{code}}",
                ),
                unit="reqps",
            ),
            chart(
                "Duration of requests of kube-scheduler",
                "How long kube-scheduler waits for the extender; after 0.5 s it goes on alone.",
                *percentiles("extender_request_duration_seconds", "verb"),
                unit="s",
            ),
            chart(
                "Duration of the webhook",
                "How long the API server waits for the webhook when a pod is created.",
                *percentiles("webhook_request_duration_seconds"),
                unit="s",
            ),
            chart(
                "CPU",
                "How many cores each replica uses.",
                Query(
                    of_process(f"rate(process_cpu_seconds_total{{{CHOSEN}}}[{WINDOW}])"),
                    "{{instance}}",
                ),
            ),
            chart(
                "Memory",
                "How much memory each replica holds.",
                Query(of_process(f"process_resident_memory_bytes{{{CHOSEN}}}"), "{{instance}}"),
                unit="bytes",
            ),
            chart(
                "Policies",
                "Which policy each replica uses; all should use the same.",
                Query(f"count by (hash) ({metric('policy_info')})", "{{hash}}"),
            ),
        ),
    ),
)


def rescheduler_dashboard() -> dict[str, Any]:
    """The dashboard as Grafana imports it."""
    return dashboard(
        "rescheduler",
        "Rescheduler",
        "What the rescheduler does, why, and whether it is healthy.",
        ROWS,
    )


def dashboard_text() -> str:
    """The file to import."""
    return json.dumps(rescheduler_dashboard(), indent=2) + "\n"
