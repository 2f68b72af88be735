"""Prometheus and promtool, and a Prometheus that scrapes this machine.

The programs are those of the system; else Debian's, unpacked to the cache without being installed,
so that no service starts; else they are built from source, which takes minutes. Debian 12 has
version 2.42, and the source is 3.x: what is tested with them has to work with both.
"""

import json
import shutil
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

from testcluster.build import ensure_program, prometheus_programs
from testcluster.cache import report
from testcluster.ports import pick_ports
from testcluster.realnodes.tools import ToolError, ensure_unpacked
from testcluster.waiting import wait_until

DEBIAN_PACKAGE = "prometheus"
ANSWER_SECONDS = 30.0

CONFIGURATION = """\
global:
  scrape_interval: {milliseconds}ms
  scrape_timeout: {milliseconds}ms
  evaluation_interval: 1s
rule_files: [{rules}]
scrape_configs:
- job_name: rescheduler
  static_configs: {installations}
"""


@dataclass(frozen=True)
class PrometheusPrograms:
    """Where both programs are."""

    prometheus: Path
    promtool: Path


@cache
def ensure_prometheus() -> PrometheusPrograms:
    """Both programs: of the system, of Debian, or built now."""
    found = [shutil.which(name) for name in ("prometheus", "promtool")]
    if all(found):
        return PrometheusPrograms(*(Path(path) for path in found if path))
    try:
        programs = ensure_unpacked([DEBIAN_PACKAGE]) / "usr" / "bin"
    except ToolError as error:
        sources = prometheus_programs()
        minutes = sum(each.minutes for each in sources)
        report(
            f"Prometheus is built from source, in up to {minutes} minutes, "
            f"for Debian's cannot be had: {error}."
        )
        return PrometheusPrograms(*map(ensure_program, sources))
    return PrometheusPrograms(programs / "prometheus", programs / "promtool")


class PrometheusError(Exception):
    """Prometheus refused a query; the message is its own."""


class Prometheus:
    """A Prometheus that scrapes addresses of this machine often, and evaluates rules."""

    def __init__(
        self,
        programs: PrometheusPrograms,
        directory: Path,
        installations: Mapping[str, Sequence[str]],
        rules: Path,
        scrape_seconds: float = 0.5,
    ) -> None:
        """Of each installation, by its namespace, the addresses of its replicas.

        Metrics that are not answered in the time between two scrapes are gone until the next one.
        """
        self._directory = directory
        (port,) = pick_ports(1)
        self._url = f"http://127.0.0.1:{port}"
        configuration = directory / "prometheus.yaml"
        listed = [
            {"targets": list(replicas), "labels": {"namespace": namespace}}
            for namespace, replicas in installations.items()
        ]
        configuration.write_text(
            CONFIGURATION.format(
                rules=rules,
                milliseconds=round(1000 * scrape_seconds),
                installations=json.dumps(listed),
            )
        )
        self._command = [
            str(programs.prometheus),
            f"--config.file={configuration}",
            f"--storage.tsdb.path={directory / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--log.level=warn",
        ]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "Prometheus":
        with (self._directory / "prometheus.log").open("wb") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)
        wait_until(self._is_ready, what="Prometheus is ready")
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The samples that an expression gives now."""
        return self._get("query", query=expression)["result"]  # type: ignore[no-any-return]

    def metric_names(self) -> set[str]:
        """All names that it has scraped."""
        return set(self._get("label/__name__/values"))

    def rules(self) -> list[dict[str, Any]]:
        """The rules of all groups, with their health."""
        groups = self._get("rules")["groups"]
        return [rule for group in groups for rule in group["rules"]]

    def _is_ready(self) -> bool:
        assert self._process is not None
        log = (self._directory / "prometheus.log").read_text
        assert self._process.poll() is None, f"Prometheus has ended:\n{log()}"
        try:
            with urllib.request.urlopen(f"{self._url}/-/ready", timeout=ANSWER_SECONDS) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def _get(self, path: str, **parameters: str) -> Any:
        url = f"{self._url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=ANSWER_SECONDS) as answer:
                return json.load(answer)["data"]
        except HTTPError as error:
            raise PrometheusError(json.load(error)["error"]) from error
