"""Fixtures for the tests of the command line."""

import logging
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from rescheduler.cli import run
from rescheduler.cli.logs.json_format import JsonFormatter
from rescheduler.cli.logs.log_output import OWN_LOGGER
from rescheduler.cli.logs.text_format import KeyValueFormatter
from rescheduler.cli.options import ClusterAccess
from testcluster import TestCluster
from testcluster.applying import apply
from testcluster.builders import node, pod
from testcluster.components import kubeconfig_text
from tests.interrupts import interruptible
from tests.kube.faultproxy import FaultProxy
from tests.migration.support import Sandbox

StartProgram = Callable[..., "subprocess.Popen[bytes]"]


class Result(NamedTuple):
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def log_of_one_test() -> Iterator[None]:
    """Remove the log handler of a command: it writes to a stream that ends with its test."""
    yield
    root = logging.getLogger()
    for handler in root.handlers[:]:
        if isinstance(handler.formatter, KeyValueFormatter | JsonFormatter):
            root.removeHandler(handler)
            root.setLevel(logging.WARNING)
            logging.getLogger(OWN_LOGGER).setLevel(logging.NOTSET)


@pytest.fixture
def command(capfd: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    """Run a command in this process."""

    def run_command(*arguments: str | Path) -> Result:
        code = run("rescheduler", [str(argument) for argument in arguments])
        printed = capfd.readouterr()
        return Result(code, printed.out, printed.err)

    return run_command


@pytest.fixture
def start_program() -> Iterator[StartProgram]:
    """Start a command as the user does; it is killed at the end of the test."""
    started = []

    def start(*arguments: str | Path, program: str = "rescheduler") -> "subprocess.Popen[bytes]":
        process = subprocess.Popen(
            interruptible(Path(sys.executable).with_name(program), *arguments),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "COLUMNS": "80"},
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture(scope="session")
def quiet_cluster(binary: Path) -> Iterator[TestCluster]:
    """A cluster without controllers: nothing changes in it, so two reads give the same."""
    with TestCluster(controllers=False, scheduler=False, kwok=False) as cluster:
        secretive = pod(
            "shop/secretive",
            on="b",
            cpu="250m",
            annotations={"example.com/note": "confidential-note"},
        )
        secretive["spec"]["containers"][0] |= {
            "env": [{"name": "PASSWORD", "value": "confidential-value"}],
            "command": ["serve", "--token=confidential-argument"],
            "image": "confidential/image:1",
        }
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "keys", "namespace": "shop"},
            "stringData": {"key": "confidential-key"},
        }
        apply(
            cluster,
            node("a", cpu="4", memory="8Gi", zone="z1"),
            node("b", cpu="4", memory="8Gi", zone="z2"),
            *[pod(f"shop/cart-{number}", on="a", cpu="1", memory="1Gi") for number in range(3)],
            secretive,
            secret,
        )
        yield cluster


@pytest.fixture
async def proxy(sandbox: Sandbox) -> AsyncIterator[FaultProxy]:
    """The cluster's server, behind a proxy that can answer for it."""
    cluster = sandbox.cluster
    async with FaultProxy(cluster.server, str(cluster.ca_file), cluster.admin_token) as proxy:
        yield proxy


@pytest.fixture
def access(sandbox: Sandbox, proxy: FaultProxy, tmp_path: Path) -> ClusterAccess:
    """How commands reach the proxy."""
    file = tmp_path / "kubeconfig"
    file.write_text(kubeconfig_text(proxy.url, sandbox.cluster.ca_file, "admin", token="unused"))
    return ClusterAccess(file, None)
