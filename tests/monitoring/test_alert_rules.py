"""Each alert fires for its cause, and all are silent on a healthy day."""

import json
import subprocess
from pathlib import Path

from rescheduler.install.monitoring.alerts import ALERTS, CRITICAL, INFO, WARNING
from testcluster.prometheus import PrometheusPrograms
from tests.install.test_files import DEPLOY
from tests.monitoring.rule_cases import CASES, healthy_day, healthy_test
from tests.monitoring.used_metrics import used_metrics

RULES = DEPLOY / "monitoring" / "rules.yaml"


def promtool(programs: PrometheusPrograms, *arguments: str | Path) -> str:
    done = subprocess.run(
        [programs.promtool, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_promtool_finds_every_rule_and_no_mistake(prometheus_programs: PrometheusPrograms) -> None:
    output = promtool(prometheus_programs, "check", "rules", RULES)
    assert f"SUCCESS: {len(ALERTS)} rules found" in output


def test_each_alert_fires_for_its_cause_and_is_silent_on_a_healthy_day(
    prometheus_programs: PrometheusPrograms, tmp_path: Path
) -> None:
    tests = [healthy_test(), *(case.as_test for case in CASES)]
    file = tmp_path / "rule-tests.json"
    file.write_text(json.dumps({"rule_files": [str(RULES)], "tests": tests}))
    assert "SUCCESS" in promtool(prometheus_programs, "test", "rules", file)


def test_each_alert_has_a_cause() -> None:
    assert {case.alert.name for case in CASES} == {alert.name for alert in ALERTS}


def test_a_healthy_day_has_every_metric_that_alerts_ask_for() -> None:
    """Otherwise they would be silent for want of data."""
    scraped = {name.partition("{")[0] for name in healthy_day()}
    asked = {name for alert in ALERTS for name in used_metrics(alert.expression)}
    # Of the library of Prometheus.
    assert asked | {"process_start_time_seconds"} == scraped


def test_each_alert_says_how_bad_it_is_and_what_to_do() -> None:
    assert len({alert.name for alert in ALERTS}) == len(ALERTS)
    for alert in ALERTS:
        assert alert.severity in (CRITICAL, WARNING, INFO)
        assert alert.summary.endswith(".")
        assert alert.description.endswith(".")
