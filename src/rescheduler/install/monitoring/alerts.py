"""The alert rules, each with the reason for its threshold.

`critical` is for what can do harm until someone acts. `warning` is for what someone should look at
today. `info` is for what is worth knowing. The rescheduler is no part of what serves requests: if
it stops, pods stay where they are. So only one alert is critical.

A threshold that follows from a default of the policy is several times larger, unless the policy's
own is a metric. If your policy has a much larger value, raise the threshold too.
"""

from dataclasses import dataclass
from typing import Any

from rescheduler.install.monitoring.promql import INSTALLATION, quantile
from rescheduler.kube.live_store import MAX_STORE_AGE_SECONDS

GROUP = "rescheduler"
RUNBOOKS = "docs/monitoring.md"

CRITICAL, WARNING, INFO = "critical", "warning", "info"

DAY_SECONDS = 24 * 3600


@dataclass(frozen=True)
class Alert:
    """One alert. In its texts, Prometheus replaces what is in double braces."""

    name: str
    severity: str
    lasting: str
    """How long the expression has to be true."""
    expression: str
    summary: str
    description: str

    @property
    def runbook(self) -> str:
        """Where it says what to do: the heading is the name."""
        return f"{RUNBOOKS}#{self.name.lower()}"

    @property
    def rule(self) -> dict[str, Any]:
        """The alert as Prometheus reads it."""
        return {
            "alert": self.name,
            "expr": self.expression,
            "for": self.lasting,
            "labels": {"severity": self.severity},
            "annotations": {
                "summary": self.summary,
                "description": self.description,
                "runbook": self.runbook,
            },
        }


def sum_of(expression: str) -> str:
    """The sum over all replicas of an installation."""
    return f"sum by ({INSTALLATION}) ({expression})"


def max_of(expression: str) -> str:
    """The largest value of all replicas of an installation."""
    return f"max by ({INSTALLATION}) ({expression})"


def min_of(expression: str) -> str:
    """The smallest value of all replicas of an installation."""
    return f"min by ({INSTALLATION}) ({expression})"


def share(part: str, whole: str) -> str:
    """Which share of what happened is of one kind."""
    return f"{sum_of(part)} / {sum_of(whole)}"


# ------------------------------------------------------------ is it there?

ABSENT = Alert(
    "ReschedulerAbsent",
    WARNING,
    # Longer than an update of the Deployment and an image that is pulled slowly.
    "15m",
    "absent(rescheduler_build_info)",
    "No rescheduler is scraped.",
    "Prometheus has had no metric of the rescheduler for 15 minutes: it does not run, or it is "
    "not scraped.",
)

_RESTARTS = (
    "changes(process_start_time_seconds[1h])"
    f" and on ({INSTALLATION}, instance) max_over_time(rescheduler_build_info[1h])"
)

RESTARTING = Alert(
    "ReschedulerRestarting",
    WARNING,
    "5m",
    # A pod keeps its address when its container is restarted; in an update, pods are new. Once or
    # twice, for example because a node was short of memory, is no loop.
    f"{max_of(_RESTARTS)} > 2",
    "A replica of the rescheduler is restarted again and again.",
    "A replica in namespace {{ $labels.namespace }} was started {{ $value }} times anew in an "
    "hour. It loads the whole cluster each time, and may never come to a plan.",
)

NO_LEADER = Alert(
    "ReschedulerNoLeader",
    WARNING,
    # A Lease expires after 15 seconds, so a new leader is found twenty times in this time.
    "5m",
    f"{max_of('rescheduler_leader')} == 0",
    "No replica of the rescheduler leads.",
    "Replicas run in namespace {{ $labels.namespace }}, but none has got the Lease. Nothing is "
    "planned, and migrations that have started wait.",
)

TWO_LEADERS = Alert(
    "ReschedulerTwoLeaders",
    CRITICAL,
    # Replicas are scraped at different moments, and one that has gone is forgotten only after a
    # scrape or two. It has to be longer than that.
    "3m",
    f"{sum_of('rescheduler_leader')} > 1",
    "More than one replica of the rescheduler leads.",
    "{{ $value }} replicas in namespace {{ $labels.namespace }} say that they lead. Only one may.",
)

# ------------------------------------------------------------ does it see the cluster?

CACHE_STALE = Alert(
    "ReschedulerCacheStale",
    WARNING,
    "5m",
    # On nodes and pods of this age no round is planned. While all is well, it stays around a
    # minute.
    f"{max_of('rescheduler_cache_age_seconds')} > {MAX_STORE_AGE_SECONDS:g}",
    "The rescheduler's view of the cluster is old.",
    "What a replica in namespace {{ $labels.namespace }} knows of the cluster, of Migrations or "
    "of MoveRecords is {{ $value | humanizeDuration }} old. On an old view of the cluster it plans "
    "nothing.",
)

API_ERRORS = Alert(
    "ReschedulerApiErrors",
    WARNING,
    "15m",
    # Conflicts, objects that are gone (4xx) and evictions that a budget does not allow (429) are
    # part of the work. One request in ten is far more than a restart of an API server costs in a
    # quarter of an hour.
    share(
        'rate(rescheduler_api_requests_total{code=~"5..|error"}[10m]) or '
        'rate(rescheduler_api_requests_total{code="429", resource!="pods/eviction"}[10m])',
        "rate(rescheduler_api_requests_total[10m])",
    )
    + " > 0.1",
    "Many requests of the rescheduler to the API server fail.",
    "{{ $value | humanizePercentage }} of the requests from namespace {{ $labels.namespace }} "
    "were refused because of load, failed in the server, or got no answer.",
)

# ------------------------------------------------------------ does it plan?

ROUNDS_FAILING = Alert(
    "ReschedulerRoundsFailing",
    WARNING,
    # With a round every 30 seconds, 20 of them.
    "10m",
    share(
        'rate(rescheduler_rounds_total{result="failed"}[10m])',
        "rate(rescheduler_rounds_total[10m])",
    )
    + " > 0.5",
    "Most rounds of the rescheduler fail.",
    "{{ $value | humanizePercentage }} of the rounds in namespace {{ $labels.namespace }} ended "
    "with an error.",
)

_ROUNDS = 'increase(rescheduler_rounds_total{result=~"planned|unchanged"}[30m])'


def _led(before: str = "") -> str:
    """Whether a replica led in these ten minutes, though it may have been restarted in them."""
    return f"{max_of(f'max_over_time(rescheduler_leader[10m]{before})')} == 1"


ROUNDS_STOPPED = Alert(
    "ReschedulerRoundsStopped",
    WARNING,
    "5m",
    # Half an hour is 60 times the default of reschedulingInterval. A replica that is restarted
    # again and again, because its plan does not end, never has the time of its last round; its
    # counters start again at zero. In a dry run nobody leads.
    f"{sum_of(_ROUNDS)} == 0 and on ({INSTALLATION}) {_led()}"
    f" and on ({INSTALLATION}) {_led(' offset 30m')}"
    f" or time() - {max_of('rescheduler_last_round_timestamp_seconds')} > 1800",
    "The rescheduler has stopped planning.",
    "In namespace {{ $labels.namespace }}, no round has ended with a plan for 30 minutes.",
)

_DIFFERENCE = max_of('rescheduler_load_difference_ratio{plan="before"}')
_THRESHOLD = max_of('rescheduler_policy_threshold_ratio{threshold="imbalanceThreshold"}')
_OUT_OF_BALANCE = " or ".join(
    (
        *(
            max_of(f'{metric}{{plan="before"}} > 0')
            for metric in (
                "rescheduler_overloaded_nodes",
                "rescheduler_overcommitted_nodes",
                "rescheduler_rule_violations",
                "rescheduler_pods_to_drain",
            )
        ),
        f"{_DIFFERENCE} > on ({INSTALLATION}) {_THRESHOLD}",
    )
)

# No move could improve anything; all in the way are pods of DaemonSets and the like; moves are
# under way; the policy allows none.
_GOOD_REASONS = "NothingToImprove|OnlyPodsOfNodes|UnfinishedMoves|MovesTurnedOff"

_IDLE = f'rescheduler_plan_idle{{reason!~"{_GOOD_REASONS}"}}'

NOTHING_PLANNED = Alert(
    "ReschedulerNothingPlanned",
    INFO,
    # A budget or a pod that has just started blocks a move for a while. An hour is no such while.
    # Whichever reason there is now: one that changes every few minutes lasts for no hour.
    "1h",
    f"max by ({INSTALLATION}, reason) (max_over_time({_IDLE}[1h])) > 0"
    f" and on ({INSTALLATION}) {max_of(_IDLE)} > 0"
    f" and on ({INSTALLATION}) ({_OUT_OF_BALANCE})",
    "The cluster is out of balance, and nothing is planned.",
    "Nodes are overloaded, pods break a rule or have to leave, or the load is uneven. For an hour "
    "the rescheduler in namespace {{ $labels.namespace }} has planned no move: "
    "{{ $labels.reason }}.",
)

POLICY_RELOAD_FAILED = Alert(
    "ReschedulerPolicyReloadFailed",
    WARNING,
    # Long enough to correct a mistake before anybody is called.
    "5m",
    f"{min_of('rescheduler_policy_last_reload_successful')} == 0",
    "A new policy was refused.",
    "The policy in namespace {{ $labels.namespace }} is not valid. The rescheduler goes on with "
    "the last one that was, also after a restart.",
)

# ------------------------------------------------------------ do moves end well?

_NOT_CREATED = sum_of('rate(rescheduler_moves_skipped_total{reason="NotCreated"}[10m])')
_CREATED = sum_of("rate(rescheduler_moves_requested_total[10m])")

WRITES_REFUSED = Alert(
    "ReschedulerWritesRefused",
    WARNING,
    # What is refused is tried again at least every five minutes, and a new plan wants it anew in
    # every round. A conflict, or an API server that is restarted, is over by then, and no longer in
    # the rates, which look back for less: otherwise one refusal would count for as long as this.
    # A Migration that cannot be started is withdrawn after five minutes, and then nothing fails
    # until the next round has planned it anew: so most of the time is enough.
    "15m",
    f"{_NOT_CREATED} / ({_NOT_CREATED} + {_CREATED}) > 0.5"
    f" or avg_over_time(({max_of('rescheduler_queue_failing')} > bool 0)[10m:1m]) > 0.5",
    "The API server refuses what the rescheduler writes.",
    "The rescheduler in namespace {{ $labels.namespace }} cannot create most of the Migrations "
    "that it plans, or fails again and again with an object that is there. Pods are not moved, or "
    "what a move has changed is not cleaned up.",
)

MIGRATION_STUCK = Alert(
    "ReschedulerMigrationStuck",
    WARNING,
    "5m",
    # A step is given up after migration.timeout, 2 minutes by default.
    f"{max_of('rescheduler_oldest_migration_seconds')} > 900",
    "A migration is stuck.",
    "A migration of the rescheduler in namespace {{ $labels.namespace }} has been in the same step "
    "for {{ $value | humanizeDuration }}.",
)

_LOST = 'increase(rescheduler_migrations_finished_total{outcome=~"Failed|CameBack"}[1h])'
_TRIED = 'increase(rescheduler_migrations_finished_total{outcome!="Withdrawn"}[1h])'

MOVES_FAILING = Alert(
    "ReschedulerMovesFailing",
    WARNING,
    "5m",
    # One or two failures say something about a pod, not about the rescheduler. `increase` is not a
    # whole number.
    f"{share(_LOST, _TRIED)} > 0.3 and on ({INSTALLATION}) {sum_of(_LOST)} > 2.5",
    "Many moves fail.",
    "{{ $value | humanizePercentage }} of the moves of the last hour in namespace "
    "{{ $labels.namespace }} were given up, or brought the pod back to its old node.",
)

# ------------------------------------------------------------ are others served?

EXTENDER_SLOW = Alert(
    "ReschedulerExtenderSlow",
    WARNING,
    "10m",
    # kube-scheduler waits for half a second, then goes on without an answer.
    quantile(
        0.99,
        "rescheduler_extender_request_duration_seconds_bucket",
        "5m",
        *INSTALLATION.split(", "),
        "verb",
    )
    + " > 0.25",
    "kube-scheduler waits for the rescheduler.",
    "One in a hundred requests {{ $labels.verb }} takes over {{ $value | humanizeDuration }} "
    "in namespace {{ $labels.namespace }}. After 0.5 s the scheduler goes on without an answer.",
)

WEBHOOK_SLOW = Alert(
    "ReschedulerWebhookSlow",
    WARNING,
    "10m",
    # The API server waits for a second, then goes on without an answer.
    quantile(
        0.99,
        "rescheduler_webhook_request_duration_seconds_bucket",
        "5m",
        *INSTALLATION.split(", "),
    )
    + " > 0.5",
    "The API server waits for the rescheduler.",
    "One in a hundred pods waits longer than {{ $value | humanizeDuration }} for the webhook in "
    "namespace {{ $labels.namespace }} when it is created.",
)

CERTIFICATE_OLD = Alert(
    "ReschedulerCertificateOld",
    WARNING,
    "1h",
    # Certificates are valid for 90 days, and renewed 30 days before their end.
    f"{min_of('rescheduler_certificate_expiry_timestamp_seconds')} - time() < {21 * DAY_SECONDS}",
    "A certificate was not renewed.",
    "The certificate of the extender in namespace {{ $labels.namespace }} is valid for "
    "{{ $value | humanizeDuration }}. It should have been renewed 30 days before its end.",
)

ALERTS = (
    ABSENT,
    RESTARTING,
    NO_LEADER,
    TWO_LEADERS,
    CACHE_STALE,
    API_ERRORS,
    ROUNDS_FAILING,
    ROUNDS_STOPPED,
    NOTHING_PLANNED,
    POLICY_RELOAD_FAILED,
    WRITES_REFUSED,
    MIGRATION_STUCK,
    MOVES_FAILING,
    EXTENDER_SLOW,
    WEBHOOK_SLOW,
    CERTIFICATE_OLD,
)


def rules() -> dict[str, Any]:
    """All alerts as a rule file of Prometheus, and as the spec of a PrometheusRule."""
    return {"groups": [{"name": GROUP, "rules": [alert.rule for alert in ALERTS]}]}
