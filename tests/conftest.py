"""What all tests share: a real cluster, built and started when the first test asks for one."""

from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

from testcluster import TestCluster

FreshCluster = Callable[..., TestCluster]

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
