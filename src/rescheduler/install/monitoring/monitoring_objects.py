"""Objects for the Prometheus operator, and a ConfigMap for Grafana. All are switched off."""

from typing import Any

from rescheduler.install.metadata import CONTROLLER, labels
from rescheduler.install.monitoring.alerts import rules
from rescheduler.install.monitoring.dashboard import dashboard_text
from rescheduler.install.options import METRICS_PATH, MONITORING
from rescheduler.install.tree import Tree, Value, dumped

OPERATOR_API = "monitoring.coreos.com/v1"
DASHBOARD_NAME = "rescheduler-dashboard"
DASHBOARD_LABEL = "grafana_dashboard"
"""The label by which the sidecar of Grafana's chart finds dashboards."""

RULES_FILE, DASHBOARD_FILE = "rules.yaml", "dashboard.json"


def contents() -> dict[str, Tree]:
    """What is in the objects, by the names by which they refer to it."""
    return {"alertRules": rules(), "dashboard": dashboard_text()}


def plain_files() -> dict[str, str]:
    """The rules and the dashboard as Prometheus and Grafana read them, without Kubernetes."""
    return {RULES_FILE: dumped(rules()), DASHBOARD_FILE: dashboard_text()}


def pod_monitor() -> dict[Any, Tree]:
    """Has the Prometheus operator scrape every replica, also those on standby."""
    return {
        "apiVersion": OPERATOR_API,
        "kind": "PodMonitor",
        "metadata": operator_metadata(),
        "spec": {
            "selector": {"matchLabels": labels(CONTROLLER)},
            "podMetricsEndpoints": [{"port": MONITORING, "path": METRICS_PATH}],
        },
    }


def prometheus_rule() -> dict[Any, Tree]:
    """The alert rules for the Prometheus operator."""
    return {
        "apiVersion": OPERATOR_API,
        "kind": "PrometheusRule",
        "metadata": operator_metadata(),
        "spec": Value("alertRules"),
    }


def operator_metadata() -> dict[Any, Tree]:
    """The operator may be set up to see only objects with certain labels."""
    return {
        "name": CONTROLLER,
        "namespace": Value("namespace"),
        "labels": Value("monitoringLabels"),
    }


def dashboard_config() -> dict[Any, Tree]:
    """The dashboard, for a Grafana that collects dashboards from ConfigMaps."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": DASHBOARD_NAME,
            "namespace": Value("namespace"),
            "labels": {**labels(CONTROLLER), DASHBOARD_LABEL: "1"},
        },
        "data": {"rescheduler.json": Value("dashboard")},
    }
