"""However the process that owns a cluster ends, the cluster's processes end too."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from testcluster import TestCluster, directories
from testcluster.cluster import ClusterError, PortTakenError
from testcluster.ports import pick_ports
from testcluster.waiting import wait_until

ROOT = Path(__file__).parent.parent.parent
pytestmark = pytest.mark.usefixtures("binary")
# Starts a cluster, prints its directory and process ids, and waits for a signal. Ctrl-C ends it
# even where SIGINT is ignored, as in the background of a shell.
OWNER = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from testcluster import TestCluster
with TestCluster(controllers=False, scheduler=False) as cluster:
    print(cluster.layout.directory, *cluster.pids, flush=True)
    signal.pause()
"""
FAILING_TEST = """
def test_that_fails(fresh_cluster):
    cluster = fresh_cluster(controllers=False, scheduler=False, kwok=False)
    print("OWNED", cluster.layout.directory, *cluster.pids)
    assert False
"""


def none_exists(pids: list[int]) -> bool:
    return not any(is_alive(pid) for pid in pids)


def is_alive(pid: int) -> bool:
    try:
        # In a container, zombies may never be reaped.
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def start_owner() -> tuple[subprocess.Popen[str], Path, list[int]]:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    assert owner.stdout is not None
    directory, *pids = owner.stdout.readline().split()
    return owner, Path(directory), [int(pid) for pid in pids]


def test_stopping_a_cluster_leaves_no_process_and_no_file() -> None:
    cluster = TestCluster(controllers=False, scheduler=False, kwok=False)
    cluster.start()
    pids, directory = cluster.pids, cluster.layout.directory
    assert len(pids) == 2
    assert not none_exists(pids)
    cluster.stop()
    assert none_exists(pids)
    assert not directory.exists()


def test_a_killed_owner_leaves_no_process_and_its_files_go_at_the_next_start() -> None:
    owner, directory, pids = start_owner()
    assert len(pids) == 3
    owner.kill()
    owner.communicate()
    wait_until(lambda: none_exists(pids), what="all components have ended")
    with TestCluster(controllers=False, scheduler=False, kwok=False):
        assert not directory.exists()


def test_a_cluster_that_runs_keeps_its_files_when_another_starts(cluster: TestCluster) -> None:
    files = set(cluster.layout.directory.iterdir())
    with TestCluster(controllers=False, scheduler=False, kwok=False):
        assert files <= set(cluster.layout.directory.iterdir())


def test_only_the_files_of_owners_that_ended_are_removed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    kept, left, used = (directories.create() for _ in range(3))
    for directory, _ in (kept, left, used):
        (directory / "logs").mkdir()
        (directory / "tokens.csv").touch()
    directories.keep_logs(kept[0])
    kept[1].close()
    left[1].close()
    # Of no test cluster, and what somebody else made of one.
    (tmp_path / "testcluster-notes").mkdir()
    (tmp_path / "testcluster-link").symlink_to(used[0])
    directories.remove_leftovers()
    there = {str(path.relative_to(tmp_path)) for path in tmp_path.glob("*")}
    assert there == {kept[0].name, used[0].name, "testcluster-notes", "testcluster-link"}
    assert [path.name for path in kept[0].iterdir()] == ["logs"]
    assert (used[0] / "tokens.csv").exists()
    used[1].close()


def test_ctrl_c_leaves_no_process_and_no_file() -> None:
    owner, directory, pids = start_owner()
    # Like a terminal: to the whole process group, which the components are not in.
    os.killpg(owner.pid, signal.SIGINT)
    owner.communicate()
    assert none_exists(pids)
    assert not directory.exists()


@pytest.mark.parametrize("workers", ["0", "1"])
def test_a_failing_test_leaves_no_process_and_keeps_the_logs(tmp_path: Path, workers: str) -> None:
    (tmp_path / "test_failing.py").write_text(FAILING_TEST)
    (tmp_path / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-n", workers, str(tmp_path)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 1, run.stdout + run.stderr
    line = next(line for line in run.stdout.splitlines() if line.startswith("OWNED "))
    _, directory, *pids = line.split()
    assert none_exists([int(pid) for pid in pids])
    kept = Path(directory) / "logs"
    assert {log.name for log in kept.iterdir()} == {"etcd.log", "kube-apiserver.log"}
    assert list(Path(directory).iterdir()) == [kept]
    assert f"The logs of a test cluster were kept in {kept}" in run.stdout.splitlines()
    subprocess.run(["rm", "-r", directory], check=True)


def test_a_component_that_ends_by_itself_is_reported_with_its_log(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("testcluster.components.etcd", lambda layout: ["--no-such-option"])
    cluster = TestCluster(controllers=False, scheduler=False, kwok=False)
    with pytest.raises(ClusterError, match="etcd ended by itself"):
        cluster.start()
    kept = Path(capsys.readouterr().err.split()[-1])
    assert cluster.pids == []
    subprocess.run(["rm", "-r", str(kept.parent)], check=True)


def test_a_port_taken_at_the_last_moment_is_replaced_by_another(
    cluster: TestCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = cluster.layout.ports.apiserver
    answers = [[taken, *pick_ports(5)], pick_ports(6)]
    monkeypatch.setattr("testcluster.cluster.pick_ports", lambda count: answers.pop(0))
    with TestCluster(controllers=False, scheduler=False, kwok=False) as other:
        assert other.client.get("/version")
    assert answers == []


def test_a_start_gives_up_when_ports_are_always_taken(
    cluster: TestCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = cluster.layout.ports.etcd
    monkeypatch.setattr(
        "testcluster.cluster.pick_ports", lambda count: [taken, *pick_ports(count - 1)]
    )
    with pytest.raises(PortTakenError):
        TestCluster(controllers=False, scheduler=False, kwok=False).start()
