"""A real Prometheus scrapes a controller that moves pods, and runs every expression we ship."""

import json
import subprocess
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import pytest

from rescheduler.install.monitoring.alerts import ALERTS
from rescheduler.settings import StrategyName
from testcluster.builders import pod
from testcluster.ports import pick_ports
from testcluster.prometheus import Prometheus, PrometheusPrograms
from testcluster.serving import client_context, write_certificates
from testcluster.waiting import wait_until
from tests.conftest import Start
from tests.controller.test_planning_loop import set_maintenance
from tests.extender.test_http_server import PATHS
from tests.migration.support import Sandbox, node_of
from tests.monitoring.scraping import complaints
from tests.monitoring.test_alert_rules import RULES
from tests.monitoring.test_dashboard import PANELS, expressions
from tests.monitoring.used_metrics import used_metrics

PODS = 2
POLICY = f"""\
enabledStrategies: [{", ".join(StrategyName)}]
reschedulingInterval: 1s
defragmentation: {{shape: {{cpu: "1"}}}}
"""
IN_GRAFANA = {
    "$__rate_interval": "1m",
    "$cluster": ".*",
    "$namespace": ".*",
    "$job": ".*",
}
"""What Grafana replaces in queries."""


@dataclass(frozen=True)
class Controller:
    """A controller that serves the extender and the webhook as well."""

    directory: Path
    serving: str
    monitoring: str
    process: "subprocess.Popen[bytes]"

    def is_ready(self) -> bool:
        assert self.process.poll() is None, "the controller has ended"
        try:
            with urllib.request.urlopen(f"http://{self.monitoring}/readyz") as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def metrics(self) -> bytes:
        with urllib.request.urlopen(f"http://{self.monitoring}/metrics") as answer:
            return bytes(answer.read())

    def post(self, path: str, body: object) -> None:
        """Send a request as kube-scheduler or the API server does."""
        request = urllib.request.Request(
            f"https://{self.serving}{path}",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, context=client_context(self.directory)) as answer:
            assert answer.status == 200


@pytest.fixture
def controller(sandbox: Sandbox, start: Start, tmp_path: Path) -> Controller:
    """A controller that has a pod to move, and one that it must leave in place."""
    directory = tmp_path / "controller"
    write_certificates(directory)
    (directory / "policy.yaml").write_text(POLICY)
    sandbox.add_nodes("a")
    source = node_of(sandbox.deploy("web", PODS)[0])
    alone = pod(f"{sandbox.namespace}/alone", on=source)
    sandbox.outside.create(sandbox.path("pods"), alone)
    sandbox.add_nodes("b")
    serving, monitoring = (f"127.0.0.1:{port}" for port in pick_ports(2))
    process = start(
        *("run", "--policy", directory / "policy.yaml", "--health", monitoring),
        *("--serve", serving, "--certificates", directory, "--client-ca", directory / "ca.crt"),
        *("--leader-election-lease", f"{sandbox.namespace}/rescheduler"),
    )
    found = Controller(directory, serving, monitoring, process)
    set_maintenance(sandbox, source, "true")
    wait_until(found.is_ready, what="the controller is ready")
    return found


def ask_extender_and_webhook(controller: Controller) -> None:
    for path in ("/extender/filter", "/webhook/pods"):
        controller.post(path, PATHS[path])


def test_every_expression_has_an_answer_and_no_metric_a_fault(
    controller: Controller, prometheus_programs: PrometheusPrograms, tmp_path: Path
) -> None:
    directory = tmp_path / "prometheus"
    directory.mkdir()
    scraped = {"rescheduler": [controller.monitoring]}
    with Prometheus(prometheus_programs, directory, scraped, RULES) as prometheus:
        ask_extender_and_webhook(controller)
        asked = {name for expression in expressions() for name in used_metrics(expression)}
        wait_until(
            lambda: asked <= prometheus.metric_names(),
            what="every metric that is asked for is scraped",
        )
        wait_until(lambda: unanswered(prometheus) == [], what="every panel shows something")
        for alert in ALERTS:
            prometheus.query(alert.expression)
        rules = {rule["name"]: rule for rule in prometheus.rules()}
        assert rules.keys() == {alert.name for alert in ALERTS}
        assert {rule["state"] for rule in rules.values()} <= {"inactive", "pending"}
        assert [rule["lastError"] for rule in rules.values() if "lastError" in rule] == []
    # The same controller, so that one is enough for all of this.
    assert complaints(prometheus_programs, controller.metrics()) == ""


def unanswered(prometheus: Prometheus) -> list[str]:
    """The titles of panels whose queries have no answer."""
    return [
        panel.title
        for panel in PANELS
        for query in panel.queries
        if not prometheus.query(with_values(query.expression))
    ]


def with_values(expression: str) -> str:
    for variable, value in IN_GRAFANA.items():
        expression = expression.replace(variable, value)
    return expression
