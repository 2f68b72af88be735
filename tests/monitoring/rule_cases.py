"""What Prometheus scrapes when each alert has a cause, and on a healthy day.

Values are written as promtool reads them, one a minute: `3+2x4` is 3 5 7 9 11, `_x5` is five times
nothing, `stale` is the end of a series.
"""

import re
from dataclasses import dataclass, field
from typing import Any

from rescheduler.install.monitoring import alerts
from rescheduler.install.monitoring.alerts import ALERTS, Alert

TARGET = {"namespace": "tools", "job": "tools/rescheduler"}
A, B, C = "10.0.0.1:8080", "10.0.0.2:8080", "10.0.0.3:8080"
DAY_MINUTES = 24 * 60
DAY_SECONDS = 24 * 3600

Series = dict[str, str]
"""Values by the name and the labels of a series."""


def series(name: str, values: str, instance: str = A, **labels: str) -> Series:
    found = {**TARGET, "instance": instance, **labels}
    inside = ", ".join(f'{label}="{value}"' for label, value in found.items())
    return {f"{name}{{{inside}}}": values}


def buckets(name: str, counts: dict[str, str], **labels: str) -> Series:
    """A histogram: for each bound, how many requests were faster."""
    merged: Series = {}
    for bound, values in counts.items():
        merged |= series(f"{name}_bucket", values, **labels, le=bound)
    return merged


def constant(value: float, minutes: int = 120) -> str:
    return f"{value}+0x{minutes}"


@dataclass(frozen=True)
class Case:
    """Why an alert fires, when it does, and how it says it."""

    alert: Alert
    series: Series
    fires_at_minute: int
    value: str = ""
    """The value, as it is written in the description."""
    labels: dict[str, str] = field(default_factory=lambda: TARGET)

    @property
    def as_test(self) -> dict[str, Any]:
        """A test of promtool: silent in the beginning, then firing with these words."""
        rule = self.alert.rule
        expected = {
            "exp_labels": {**rule["labels"], **self.labels},
            "exp_annotations": {
                name: self.rendered(text) for name, text in rule["annotations"].items()
            },
        }
        silent = {"eval_time": "0m", "alertname": self.alert.name, "exp_alerts": []}
        firing = {
            "eval_time": f"{self.fires_at_minute}m",
            "alertname": self.alert.name,
            "exp_alerts": [expected],
        }
        return {
            "name": f"{self.alert.name} fires",
            "interval": "1m",
            "input_series": as_input(self.series),
            "alert_rule_test": [silent, firing],
        }

    def rendered(self, text: str) -> str:
        text = re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda found: self.labels[found[1]], text)
        return re.sub(r"\{\{ \$value[^}]*\}\}", self.value, text)


def as_input(found: Series) -> list[dict[str, str]]:
    return [{"series": name, "values": values} for name, values in found.items()]


def threshold(share: float, instance: str = A, minutes: int = 120) -> Series:
    """The policy's imbalanceThreshold, which every replica has."""
    labels = {"strategy": "Any", "threshold": "imbalanceThreshold"}
    return series(
        "rescheduler_policy_threshold_ratio", constant(share, minutes), instance, **labels
    )


def moves(requested: str, refused: str, instance: str = A) -> Series:
    """How many planned moves got a Migration, and how many did not, because of the API server."""
    skipped, reason = "rescheduler_moves_skipped_total", "NotCreated"
    return series(
        "rescheduler_moves_requested_total", requested, instance, strategy="Any", mode="Handoff"
    ) | series(skipped, refused, instance, strategy="Any", reason=reason)


EXTENDER = "rescheduler_extender_request_duration_seconds"
WEBHOOK = "rescheduler_webhook_request_duration_seconds"

CASES = (
    Case(
        alerts.ABSENT,
        series("rescheduler_build_info", "1+0x5 stale"),
        fires_at_minute=30,
        labels={},
    ),
    # A dry run whose container is started, lives for five minutes, and is gone for one.
    Case(
        alerts.RESTARTING,
        series("process_start_time_seconds", "60+0x4 _ 420+0x4 _ 780+0x4 _ 1140+0x4 _ 1500+0x9")
        | series("rescheduler_build_info", "1+0x4 _ 1+0x4 _ 1+0x4 _ 1+0x4 _ 1+0x9"),
        fires_at_minute=28,
        value="4",
    ),
    Case(
        alerts.NO_LEADER,
        series("rescheduler_leader", "1 0+0x20") | series("rescheduler_leader", "0+0x20", B),
        fires_at_minute=10,
    ),
    Case(
        alerts.TWO_LEADERS,
        series("rescheduler_leader", "1+0x20") | series("rescheduler_leader", "0 1+0x20", B),
        fires_at_minute=10,
        value="2",
    ),
    Case(
        alerts.CACHE_STALE,
        series("rescheduler_cache_age_seconds", "30+60x20"),
        fires_at_minute=10,
        value="10m 30s",
    ),
    Case(
        alerts.API_ERRORS,
        series("rescheduler_api_requests_total", "0+30x60", code="200", verb="get")
        | series("rescheduler_api_requests_total", "0+10x60", code="503", verb="get"),
        fires_at_minute=40,
        value="25%",
    ),
    # The server refuses reads because of load; that a budget refuses evictions is no part of it.
    Case(
        alerts.API_ERRORS,
        series("rescheduler_api_requests_total", "0+30x60", code="200", resource="pods")
        | series("rescheduler_api_requests_total", "0+20x60", code="429", resource="pods")
        | series("rescheduler_api_requests_total", "0+50x60", code="429", resource="pods/eviction"),
        fires_at_minute=40,
        value="20%",
    ),
    Case(
        alerts.ROUNDS_FAILING,
        series("rescheduler_rounds_total", "0+1x60", result="planned")
        | series("rescheduler_rounds_total", "0+3x60", result="failed"),
        fires_at_minute=30,
        value="75%",
    ),
    Case(
        alerts.ROUNDS_STOPPED,
        series("rescheduler_last_round_timestamp_seconds", "60+0x120"),
        fires_at_minute=61,
    ),
    # Plans do not end any more after 20 minutes, and the pod is restarted every eleven.
    Case(
        alerts.ROUNDS_STOPPED,
        series("rescheduler_last_round_timestamp_seconds", "0+60x20 stale")
        | series("rescheduler_rounds_total", "0+2x20 0+0x100", result="planned")
        | series("rescheduler_rounds_total", "0+0x121", result="unchanged")
        | series("rescheduler_leader", f"1+0x20 {'0 1+0x9 ' * 9}"),
        fires_at_minute=60,
    ),
    # The same with two replicas: each takes over while the other is restarted.
    Case(
        alerts.ROUNDS_STOPPED,
        series("rescheduler_rounds_total", "0+2x20 0+0x100", result="planned")
        | series("rescheduler_rounds_total", "0+0x121", B, result="planned")
        | series("rescheduler_leader", f"1+0x20 {'_ 0+0x9 1+0x10 ' * 4}")
        | series("rescheduler_leader", f"0+0x20 {'0 1+0x9 _ 0+0x9 ' * 4}", B),
        fires_at_minute=70,
    ),
    *(
        Case(
            alerts.NOTHING_PLANNED,
            series("rescheduler_plan_idle", constant(1), reason="AllBlocked")
            | series(f"rescheduler_{name}", constant(value), plan="before", strategy="Any"),
            fires_at_minute=61,
            labels={**TARGET, "reason": "AllBlocked"},
        )
        for name, value in (
            ("overloaded_nodes", 2),
            ("overcommitted_nodes", 1),
            ("rule_violations", 1),
            ("pods_to_drain", 3),
        )
    ),
    Case(
        alerts.NOTHING_PLANNED,
        series("rescheduler_plan_idle", constant(1), reason="AllBlocked")
        | series("rescheduler_load_difference_ratio", constant(0.4), plan="before", strategy="Any")
        | threshold(0.3)
        | threshold(0.3, B),
        fires_at_minute=61,
        labels={**TARGET, "reason": "AllBlocked"},
    ),
    # For some minutes there is another reason, because a Deployment is scaled up.
    Case(
        alerts.NOTHING_PLANNED,
        series("rescheduler_plan_idle", "1+0x40 stale _x4 1+0x60", reason="AllBlocked")
        | series("rescheduler_plan_idle", "_x41 1+0x4 stale", reason="TooManyPendingPods")
        | series("rescheduler_pods_to_drain", constant(3), plan="before", strategy="Any"),
        fires_at_minute=61,
        labels={**TARGET, "reason": "AllBlocked"},
    ),
    Case(
        alerts.POLICY_RELOAD_FAILED,
        series("rescheduler_policy_last_reload_successful", "1+0x5 0+0x20"),
        fires_at_minute=20,
    ),
    # A policy of the cluster forbids Migrations in a namespace, and then in all of them.
    Case(
        alerts.WRITES_REFUSED,
        moves("0+5x60", "0+10x60"),
        fires_at_minute=40,
    ),
    Case(
        alerts.WRITES_REFUSED,
        moves("0+0x60", "0+10x60"),
        fires_at_minute=40,
    ),
    # The right to update Migrations was taken away: one after the other is tried in vain.
    Case(
        alerts.WRITES_REFUSED,
        series("rescheduler_queue_failing", "0+0x5 3+1x40"),
        fires_at_minute=30,
    ),
    # The only one that fails is withdrawn after five minutes; the next round plans it anew.
    Case(
        alerts.WRITES_REFUSED,
        series("rescheduler_queue_failing", f"0+0x5 {'1+0x4 0 ' * 8}"),
        fires_at_minute=40,
    ),
    Case(
        alerts.MIGRATION_STUCK,
        series("rescheduler_oldest_migration_seconds", "0+60x60"),
        fires_at_minute=30,
        value="30m 0s",
    ),
    Case(
        alerts.MOVES_FAILING,
        series("rescheduler_migrations_finished_total", "0+1x90", outcome="Landed", mode="Handoff")
        | series(
            "rescheduler_migrations_finished_total", "0+1x90", outcome="Failed", mode="Handoff"
        ),
        fires_at_minute=80,
        value="50%",
    ),
    Case(
        alerts.EXTENDER_SLOW,
        buckets(EXTENDER, {"0.25": "0+0x60", "0.5": "0+60x60", "+Inf": "0+60x60"}, verb="filter"),
        fires_at_minute=30,
        value="497.5ms",
        labels={**TARGET, "verb": "filter"},
    ),
    Case(
        alerts.WEBHOOK_SLOW,
        buckets(WEBHOOK, {"0.5": "0+0x60", "1": "0+60x60", "+Inf": "0+60x60"}),
        fires_at_minute=30,
        value="995ms",
    ),
    Case(
        alerts.CERTIFICATE_OLD,
        series("rescheduler_certificate_expiry_timestamp_seconds", f"_ {20 * DAY_SECONDS}+0x120"),
        fires_at_minute=120,
        value="19d 22h 0m 0s",
    ),
)


def before_noon(values: str) -> str:
    """For a replica that is stopped in an update at noon. Its end is seen a minute later."""
    return f"{values}+0x720 stale"


def after_noon(values: str) -> str:
    """For its successor."""
    return f"_x722 {values}x{DAY_MINUTES - 723}"


def all_day(value: float) -> str:
    return constant(value, DAY_MINUTES)


def short_trouble(usual: float, trouble: float, minutes: int) -> str:
    """All day one value, but another one for a while from ten o'clock on."""
    rest = DAY_MINUTES - 600 - minutes
    return f"{usual}+0x599 {trouble}+0x{minutes - 1} {usual}+0x{rest}"


def healthy_day() -> Series:
    """A day on which all alerts are silent, though it is not without trouble.

    A leads until noon, when the Deployment is updated: A is replaced by C, and B leads. Only who
    leads has metrics of plans and migrations.
    """
    requests, finished = "rescheduler_api_requests_total", "rescheduler_migrations_finished_total"
    rounds, certificate = (
        "rescheduler_rounds_total",
        "rescheduler_certificate_expiry_timestamp_seconds",
    )
    overloaded, idle = "rescheduler_overloaded_nodes", "rescheduler_plan_idle"
    before = {"plan": "before", "strategy": "Any"}
    day = DAY_MINUTES
    parts = (
        series("rescheduler_build_info", all_day(1), B),
        # At noon both seem to lead for a moment, and then nobody.
        series("rescheduler_leader", before_noon("1")),
        series("rescheduler_leader", f"0+0x718 1 1 0 0 1+0x{day - 723}", B),
        series("rescheduler_leader", after_noon("0+0"), C),
        series("rescheduler_cache_age_seconds", short_trouble(70, 400, minutes=4)),
        series("rescheduler_cache_age_seconds", all_day(60), B),
        # An API server is restarted at five o'clock.
        series(requests, f"0+30x{day}", B, code="200", verb="list"),
        series(requests, f"0+0x300 20+20x4 100+0x{day - 306}", B, code="503", verb="list"),
        # Budgets refuse evictions for two hours, because a node is drained.
        series(
            requests,
            f"0+0x200 30+30x120 3630+0x{day - 322}",
            B,
            code="429",
            verb="create",
            resource="pods/eviction",
        ),
        # The first round of the day has to wait for 20 minutes.
        series(rounds, "0+0x20 2+2x279 562+0x7 564+2x412 stale", result="planned"),
        series(rounds, "0+0x300 2+2x7 16+0x412 stale", result="failed"),
        series(rounds, f"0+0x722 1+2x{day - 724}", B, result="planned"),
        series(rounds, after_noon("0+0"), C, result="planned"),
        series("rescheduler_last_round_timestamp_seconds", "0+60x720 stale"),
        series("rescheduler_last_round_timestamp_seconds", f"_x722 {722 * 60}+60x717", B),
        # Two nodes are overloaded for 50 minutes, and no pod of theirs may be moved.
        series(overloaded, short_trouble(0, 2, minutes=50), **before),
        series(idle, "_x600 1+0x49 stale", reason="AllBlocked"),
        # Pods leave a node for two hours, and nothing else is planned meanwhile.
        series("rescheduler_pods_to_drain", "4+0x120 0+0x599 stale", **before),
        series(idle, "1+0x120 stale", reason="UnfinishedMoves"),
        # All afternoon, no move could improve what is wrong.
        series("rescheduler_overcommitted_nodes", f"_x722 1+0x{day - 723}", B, **before),
        series("rescheduler_rule_violations", f"_x722 2+0x{day - 723}", B, **before),
        series("rescheduler_load_difference_ratio", f"_x722 0.5+0x{day - 723}", B, **before),
        # In the morning nothing is planned for hours, and the policy allows the difference.
        series("rescheduler_load_difference_ratio", "0.4+0x720 stale", **before),
        series(idle, "_x121 1+0x470 stale", reason="NotWorthIt"),
        threshold(0.45, B, day),
        # A container is restarted twice; processes of others in the job all the time.
        series("process_start_time_seconds", f"1+0x400 2+0x20 3+0x{day - 422}", B),
        series("process_start_time_seconds", f"1+60x{day}", "10.0.0.9:9090"),
        series(idle, f"_x722 1+0x{day - 723}", B, reason="NothingToImprove"),
        series("rescheduler_policy_last_reload_successful", short_trouble(1, 0, minutes=4), B),
        # An API server that is restarted refuses a move now and then, and more for a while.
        moves("0+0.5x720 stale", "0+0.01x540 5.4+1x9 15.4+0.01x169 stale"),
        # In the evening only one pod is to be moved, and that is refused for four minutes.
        moves(f"_x722 0+0x481 1+0x{day - 1205}", f"_x722 0+0x477 1+2x3 7+0x{day - 1205}", B),
        series("rescheduler_queue_failing", short_trouble(0, 5, minutes=14)),
        series("rescheduler_oldest_migration_seconds", short_trouble(140, 1000, minutes=4)),
        # Two moves fail when there are no others; later one in eleven.
        series(finished, f"0+0x300 0+0.2x{day - 301}", outcome="Landed", mode="Handoff"),
        series(finished, f"0+0x100 2+0x{day - 101}", B, outcome="Failed", mode="Evict"),
        series(finished, f"0+0x300 0+0.02x{day - 301}", outcome="CameBack", mode="Evict"),
        buckets(EXTENDER, {"0.25": f"0+60x{day}", "+Inf": f"0+60x{day}"}, verb="filter"),
        buckets(WEBHOOK, {"0.5": f"0+60x{day}", "+Inf": f"0+60x{day}"}),
        # It is renewed at noon, with 30 days left.
        series(certificate, f"{30 * DAY_SECONDS}+0x720 {90 * DAY_SECONDS}+0x{day - 721}"),
    )
    merged: Series = {}
    for part in parts:
        assert not merged.keys() & part.keys(), part
        merged |= part
    return merged


def healthy_test() -> dict[str, Any]:
    """A test of promtool that no alert fires at any minute of the day."""
    firing = {
        "expr": 'count by (alertname) (count_over_time(ALERTS{alertstate="firing"}[1d]))',
        "eval_time": "24h",
        "exp_samples": [],
    }
    silent = [
        {"eval_time": f"{hour}h", "alertname": alert.name, "exp_alerts": []}
        for alert in ALERTS
        for hour in (1, 6, 11, 18, 24)
    ]
    return {
        "name": "a healthy day",
        "interval": "1m",
        "input_series": as_input(healthy_day()),
        "promql_expr_test": [firing],
        "alert_rule_test": silent,
    }
