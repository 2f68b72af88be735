"""A replica of the rescheduler as a process whose metrics are scraped."""

import os
import subprocess
import sys
from pathlib import Path

from testcluster import TestCluster
from testcluster.components import ADMIN_USER, kubeconfig_text
from testcluster.ports import pick_ports
from tests.monitoring.scraping import page, scrape


class ReplicaProcess:
    """Runs `rescheduler run` or `serve`; if it is started again, at the same address."""

    def __init__(self, directory: Path, policy: str, cluster: TestCluster, url: str = "") -> None:
        """With a URL, something is in front of the API server."""
        directory.mkdir()
        (self._port,) = pick_ports(1)
        self.address = f"127.0.0.1:{self._port}"
        self.policy = directory / "policy.yaml"
        self.policy.write_text(policy)
        self._log = directory / "log"
        self._kubeconfig = directory / "kubeconfig"
        server = (url or cluster.server, cluster.ca_file, ADMIN_USER, cluster.admin_token)
        self._kubeconfig.write_text(kubeconfig_text(*server))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def process(self) -> "subprocess.Popen[bytes]":
        assert self._process is not None, "it was not started"
        return self._process

    def start(self, command: str, *arguments: str | Path, plugins: Path | None = None) -> None:
        """Start it, with the strategies that are installed in the directory of plugins."""
        program = Path(sys.executable).with_name("rescheduler")
        options = ("--policy", self.policy, "--health", self.address)
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                [program, command, *options, f"--kubeconfig={self._kubeconfig}", *arguments],
                stdout=output,
                stderr=output,
                env={**os.environ, **({"PYTHONPATH": str(plugins)} if plugins else {})},
            )

    def kill(self) -> None:
        """End it at once, if it runs."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def is_ready(self) -> bool:
        """Whether it knows the cluster; it fails if the process has ended."""
        assert self.process.poll() is None, self._log.read_text()
        return page(self._port, "/readyz")[0] == 200

    def leads(self) -> bool:
        """Whether its metrics say that it leads."""
        return self.is_ready() and scrape(self._port).value("leader") == 1
