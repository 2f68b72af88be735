"""What all tests share: a real cluster, built and started when the first test asks for one."""

import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from itertools import count
from pathlib import Path

import pytest

from rescheduler.migration.crd import CRD, NAME
from testcluster import TestCluster
from testcluster.builders import namespace as namespace_object
from testcluster.client import ApiError
from testcluster.waiting import wait_until
from tests.interrupts import interruptible
from tests.migration.support import Corner

FreshCluster = Callable[..., TestCluster]
Start = Callable[..., "subprocess.Popen[bytes]"]

numbers = count(1)
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

failed = pytest.StashKey[bool]()
kept_logs = pytest.StashKey[list[Path]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[kept_logs] = []


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remember failures, for a cluster's logs are only worth keeping after one."""
    report = yield
    if report.failed:
        item.stash[failed] = True
        if "cluster" in getattr(item, "fixturenames", ()):
            item.session.stash[failed] = True
    return report


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say where logs were kept here, where no test's captured output hides it."""
    for logs in config.stash[kept_logs]:
        terminalreporter.write_line(f"The logs of a test cluster were kept in {logs}")


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Iterator[TestCluster]:
    """A cluster that all tests share: make your own namespaces, and nodes with your own names.

    A test that stops something, or counts all of something, wants `fresh_cluster`.
    """
    shared = TestCluster()
    shared.start()
    yield shared
    stop(shared, request.config, keep_logs=request.session.stash.get(failed, False))


@pytest.fixture
def fresh_cluster(request: pytest.FixtureRequest) -> Iterator[FreshCluster]:
    """Start clusters of this test's own; it takes what `TestCluster` takes."""
    started: list[TestCluster] = []

    def start(**options: bool) -> TestCluster:
        cluster = TestCluster(**options)
        cluster.start()
        started.append(cluster)
        return cluster

    yield start
    for cluster in started:
        stop(cluster, request.config, keep_logs=request.node.stash.get(failed, False))


def stop(cluster: TestCluster, config: pytest.Config, keep_logs: bool) -> None:
    if keep_logs:
        config.stash[kept_logs].append(cluster.logs)
    cluster.stop(keep_logs=keep_logs)


@pytest.fixture(scope="session")
def migratory(cluster: TestCluster) -> TestCluster:
    """The shared cluster, with Migrations."""
    client = cluster.client
    if not client.exists(f"{CRDS}/{NAME}"):
        client.create(CRDS, CRD)

    def are_served() -> bool:
        try:
            return client.exists("/apis/rescheduler.dev/v1alpha1/migrations")
        except ApiError:
            # Its storage is being set up.
            return False

    wait_until(are_served, what="Migrations are served")
    return cluster


@pytest.fixture
def corner(migratory: TestCluster) -> Iterator[Corner]:
    """A namespace and nodes of the test's own; all of it goes afterwards, without being awaited."""
    name = f"mig-{next(numbers)}"
    client = migratory.client
    client.create("/api/v1/namespaces", namespace_object(name))
    account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
    wait_until(lambda: client.exists(account), what="pods can be made")
    made = Corner(migratory, name)
    yield made
    client.delete(f"/api/v1/namespaces/{name}")
    for node in made.nodes:
        if client.exists(f"/api/v1/nodes/{node}"):
            client.delete(f"/api/v1/nodes/{node}")
    client.close()
    made.outside.close()


@pytest.fixture
def start(corner: Corner, tmp_path: Path) -> Iterator[Start]:
    """Start a command on the cluster; its output goes to a file, and it ends with the test."""
    started = []

    def start_command(*arguments: str | Path) -> "subprocess.Popen[bytes]":
        program = Path(sys.executable).with_name("rescheduler")
        kubeconfig = f"--kubeconfig={corner.cluster.kubeconfig}"
        with (tmp_path / "output").open("ab") as output:
            process = subprocess.Popen(
                interruptible(program, *arguments, kubeconfig), stdout=output, stderr=output
            )
        started.append(process)
        return process

    yield start_command
    for process in started:
        process.kill()
        process.wait()


@pytest.fixture
def output(tmp_path: Path) -> Callable[[], str]:
    return lambda: (tmp_path / "output").read_text() if (tmp_path / "output").exists() else ""
