"""What all tests share: a real cluster, built and started when the first test asks for one.

Tests run in several processes at once, in any order. Each process has a shared cluster of its own.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from secrets import token_hex
from typing import Any

import hypothesis
import pytest

from rescheduler.migration.memory.move_record_crd import ALL_CRDS
from testcluster import TestCluster, ports
from testcluster.build import ensure_binary
from testcluster.builders import namespace as namespace_object
from testcluster.client import ApiError, Client
from testcluster.realnodes import cpu_priority
from testcluster.realnodes.requirements import missing_requirement
from testcluster.waiting import wait_until
from tests.distribution import FilesAndRealNodes
from tests.interrupts import interruptible
from tests.migration.support import Sandbox

FreshCluster = Callable[..., TestCluster]
Start = Callable[..., "subprocess.Popen[bytes]"]
SayAtTheEnd = Callable[[str], None]

# Most tests wait for the cluster. Each process needs about 1 GiB for its own one. One more process,
# because on average one runs tests on real nodes, which hardly compute.
WORKERS_PER_CPU, MORE_WORKERS = 2, 1
MAX_WORKERS = 9

numbers = count(1)
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
# Owners before what they own, which would be created again.
NOTICED_KINDS = (
    ("/apis/rescheduler.dev/v1alpha1", "migrations"),
    ("/apis/batch/v1", "jobs"),
    *[("/apis/apps/v1", f"{kind}s") for kind in ("deployment", "statefulset", "daemonset")],
    ("/apis/apps/v1", "replicasets"),
    ("/api/v1", "replicationcontrollers"),
    ("/api/v1", "pods"),
    ("/api/v1", "persistentvolumeclaims"),
    ("/apis/policy/v1", "poddisruptionbudgets"),
)

# How long examples take says how busy the machine is.
hypothesis.settings.register_profile(
    "patient", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("patient")

failed = pytest.StashKey[bool]()
last_lines = pytest.StashKey[list[str]]()
shared_real_cluster = pytest.StashKey[TestCluster]()


# ---------------------------------------------------------------- several processes at once


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    if config.option.numprocesses == "logical":
        return None
    return min(MAX_WORKERS, WORKERS_PER_CPU * (os.cpu_count() or 1) + MORE_WORKERS)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "cluster: needs the binary; follows from the fixtures")
    config.addinivalue_line("markers", "real_nodes: gets the CPU first; follows from the fixtures")
    config.addinivalue_line("markers", "slow: needs no cluster, but more than 20 s of CPU")
    config.addinivalue_line("markers", "long: waits for minutes, so its file begins early")
    config.stash[last_lines] = []
    # Programs in Go collect garbage less often: a sixth less CPU for some hundred megabytes.
    os.environ.setdefault("GOGC", "400")
    worker = getattr(config, "workerinput", None)
    if worker:
        # Another worker may pick a port between its being picked here and its being bound.
        number = int(worker["workerid"].removeprefix("gw"))
        ports.PORT_RANGE = ports.PORT_RANGE[number :: worker["workercount"]]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if "binary" in getattr(item, "fixturenames", ()):
            item.add_marker("cluster")
        if "needs_real_nodes" in getattr(item, "fixturenames", ()):
            item.add_marker("real_nodes")
    if hasattr(config, "workerinput"):
        items[:] = interleaved(items)


def interleaved(items: list[pytest.Item]) -> list[pytest.Item]:
    """Tests that compute, spread evenly among those that wait for a cluster.

    The slow ones of the former come first, and the long ones of the latter: workers take a file at
    a time, in the order of their first tests, and such a file that came last would keep one worker
    busy while the others have nothing left to do. Tests on real nodes take the longest, all in one
    worker or two.
    """
    real = [item for item in items if item.get_closest_marker("real_nodes")]
    others = [item for item in items if not item.get_closest_marker("real_nodes")]
    waiting = [item for item in others if item.get_closest_marker("cluster")]
    computing = [item for item in others if not item.get_closest_marker("cluster")]
    waiting.sort(key=lambda item: item.get_closest_marker("long") is None)
    computing.sort(key=lambda item: item.get_closest_marker("slow") is None)
    places = {
        item: number / len(kind)
        for kind in (waiting, computing)
        for number, item in enumerate(kind)
    }
    return real + sorted(others, key=places.__getitem__)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FilesAndRealNodes:
    return FilesAndRealNodes(config, log)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, object, object]:
    """Tests on real nodes measure traffic beside all the others, so they get the CPU first."""
    if not runs_on_real_nodes(item):
        return (yield)
    with cpu_priority.before_all_others():
        try:
            return (yield)
        finally:
            if nextitem is None or not runs_on_real_nodes(nextitem):
                stop_real_cluster(item.session)


def runs_on_real_nodes(item: pytest.Item) -> bool:
    return item.get_closest_marker("real_nodes") is not None and not missing_requirement()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remember failures, for a cluster's logs are only worth keeping after one."""
    report = yield
    if report.failed:
        item.stash[failed] = True
        if {"cluster", "real_cluster"}.intersection(getattr(item, "fixturenames", ())):
            item.session.stash[failed] = True
    return report


# ---------------------------------------------------------------- what is printed at the end


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Send the last lines of a worker to the process that prints, now that its cluster is gone."""
    cpu_priority.remove_if_unused()
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["last_lines"] = session.config.stash[last_lines]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    # A worker that crashed has sent nothing.
    node.config.stash[last_lines] += getattr(node, "workeroutput", {}).get("last_lines", [])


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    for line in config.stash[last_lines]:
        terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def say_at_the_end(request: pytest.FixtureRequest) -> SayAtTheEnd:
    """Have a line printed below the results, where no test's captured output hides it."""
    return request.config.stash[last_lines].append


# ---------------------------------------------------------------- clusters


@pytest.fixture(scope="session")
def binary() -> Path:
    """The test cluster's binary. A test that asks for it, however indirectly, is not fast."""
    return ensure_binary()


@pytest.fixture(scope="session")
def cluster(
    request: pytest.FixtureRequest, binary: Path, say_at_the_end: SayAtTheEnd
) -> Iterator[TestCluster]:
    """A cluster that all tests share: make your own namespaces, and nodes with your own names.

    A test that stops something, or counts all of something, wants `fresh_cluster`.
    """
    shared = TestCluster()
    shared.start()
    yield shared
    stop(shared, say_at_the_end, keep_logs=request.session.stash.get(failed, False))


@pytest.fixture
def fresh_cluster(
    request: pytest.FixtureRequest, binary: Path, say_at_the_end: SayAtTheEnd
) -> Iterator[FreshCluster]:
    """Start clusters of this test's own; it takes what `TestCluster` takes."""
    started: list[TestCluster] = []

    def start(**options: Any) -> TestCluster:
        cluster = TestCluster(**options)
        cluster.start()
        started.append(cluster)
        return cluster

    yield start
    for cluster in started:
        stop(cluster, say_at_the_end, keep_logs=request.node.stash.get(failed, False))


def stop(cluster: TestCluster, say_at_the_end: SayAtTheEnd, keep_logs: bool) -> None:
    if keep_logs:
        say_at_the_end(f"The logs of a test cluster were kept in {cluster.logs}")
    cluster.stop(keep_logs=keep_logs)


@pytest.fixture(scope="session")
def needs_real_nodes(binary: Path) -> None:
    """Skip where real nodes cannot run. Tests that ask for it get the CPU before all others."""
    reason = missing_requirement()
    if reason:
        pytest.skip(reason)


@pytest.fixture
def real_cluster(request: pytest.FixtureRequest, needs_real_nodes: None) -> TestCluster:
    """A cluster with Migrations and three real nodes, `real_cluster.nodes`, that tests share.

    Make your own namespaces, and leave the nodes as they were. A test that ends a node wants
    `fresh_cluster(real_nodes=3)`, and asks for `needs_real_nodes`.
    """
    stash = request.session.stash
    if shared_real_cluster not in stash:
        shared = TestCluster(real_nodes=3)
        shared.start()
        stash[shared_real_cluster] = shared
        serve_migrations(shared)
    return stash[shared_real_cluster]


def stop_real_cluster(session: pytest.Session) -> None:
    """Kubelets cost CPU, so they do not run until the end of the session."""
    shared = session.stash.get(shared_real_cluster, None)
    if shared is not None:
        del session.stash[shared_real_cluster]
        say = session.config.stash[last_lines].append
        stop(shared, say, keep_logs=session.stash.get(failed, False))


@pytest.fixture(scope="session")
def migratory(cluster: TestCluster) -> TestCluster:
    """The shared cluster, with Migrations."""
    serve_migrations(cluster)
    return cluster


def serve_migrations(cluster: TestCluster) -> None:
    client = cluster.client
    for crd in ALL_CRDS:
        if not client.exists(f"{CRDS}/{crd['metadata']['name']}"):
            client.create(CRDS, crd)

    def are_served() -> bool:
        try:
            return all(
                client.exists(f"/apis/rescheduler.dev/v1alpha1/{plural}")
                for plural in ("migrations", "moverecords")
            )
        except ApiError:
            # Its storage is being set up.
            return False

    wait_until(are_served, what="Migrations are served")
    client.close()


@contextmanager
def new_sandbox(cluster: TestCluster) -> Iterator[Sandbox]:
    """A namespace and nodes; nothing that another test would notice is left afterwards."""
    # This module is imported twice, by pytest and by tests, and each has numbers of its own.
    name = f"mig-{next(numbers)}-{token_hex(2)}"
    client = cluster.client
    client.create("/api/v1/namespaces", namespace_object(name))
    account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
    wait_until(lambda: client.exists(account), what="pods can be made")
    made = Sandbox(cluster, name)
    yield made
    empty_namespace(client, name)
    for node in made.nodes:
        if client.exists(f"/api/v1/nodes/{node}"):
            client.delete(f"/api/v1/nodes/{node}")
    client.close()
    made.outside.close()


def empty_namespace(client: Client, name: str) -> None:
    """Delete what controllers, schedulers or other tests would notice, without awaiting it.

    The namespace itself stays. To delete it costs the control plane three times as much as a test's
    pods did: it looks for every kind of object, again and again while a pod is being deleted.
    """
    for group, plural in NOTICED_KINDS:
        client.delete(f"{group}/namespaces/{name}/{plural}?gracePeriodSeconds=0")


@pytest.fixture
def sandbox(migratory: TestCluster) -> Iterator[Sandbox]:
    """A namespace and nodes of the test's own."""
    with new_sandbox(migratory) as made:
        yield made


@pytest.fixture
def other_sandbox(migratory: TestCluster) -> Iterator[Sandbox]:
    """Another namespace, with other nodes."""
    with new_sandbox(migratory) as made:
        yield made


@pytest.fixture
def start(sandbox: Sandbox, tmp_path: Path) -> Iterator[Start]:
    """Start a command on the cluster; its output goes to a file, and it ends with the test."""
    started = []

    def start_command(*arguments: str | Path) -> "subprocess.Popen[bytes]":
        program = Path(sys.executable).with_name("rescheduler")
        kubeconfig = f"--kubeconfig={sandbox.cluster.kubeconfig}"
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
