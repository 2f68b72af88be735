"""However the owner of real nodes ends: no process, namespace, cgroup, mount or file is left."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from testcluster import TestCluster, directories
from testcluster.__main__ import write_load
from testcluster.applying import apply
from testcluster.builders import daemonset
from testcluster.realnodes import cgroups
from testcluster.realnodes.nodes import is_running
from testcluster.realnodes.workloads import web_server
from testcluster.waiting import wait_until
from tests.conftest import FreshCluster

ROOT = Path(__file__).parent.parent.parent
pytestmark = pytest.mark.usefixtures("needs_real_nodes")
# Starts a cluster with a pod on its node, prints what there is of it, and waits.
OWNER = """
import json, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from testcluster import TestCluster
from tests.testcluster.test_real_nodes_leave_nothing import start_pods, traces
with TestCluster(real_nodes=1, kwok=False) as cluster:
    start_pods(cluster)
    print(json.dumps(traces(cluster).__dict__), flush=True)
    signal.pause()
"""


@dataclass(frozen=True)
class Traces:
    """What there is of a cluster while it runs."""

    directory: str
    cgroup: str
    pids: list[int]
    namespaces: list[str]
    taken_at: float

    def left(self) -> list[str]:
        """What of it there still is.

        Numbers of processes and namespaces are used again, by clusters of other tests.
        """
        running = [pid for pid in self.pids if is_running(pid) and self._is_older(pid)]
        processes = [f"process {pid}" for pid in running]
        older = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
        used = {name for pid in older if self._is_older(pid) for name in namespaces_of(pid)}
        namespaces = [f"namespace {name}" for name in self.namespaces if name in used]
        groups = [f"cgroup {path}" for path in cgroups.leftovers(self.cgroup)]
        mounts = Path("/proc/self/mountinfo").read_text().splitlines()
        mounts = [f"mount {line}" for line in mounts if self.directory in line]
        files = [self.directory] if Path(self.directory).exists() else []
        return [*processes, *namespaces, *groups, *mounts, *files]

    def _is_older(self, pid: int) -> bool:
        """Whether a process was there when the traces were taken."""
        try:
            return psutil.Process(pid).create_time() <= self.taken_at
        except psutil.Error:
            return False


def traces(cluster: TestCluster) -> Traces:
    pids = cluster.pids
    own = set(namespaces_of(os.getpid()))
    others = {name for pid in pids for name in namespaces_of(pid)} - own
    directory = str(cluster.layout.directory)
    return Traces(directory, cluster.nodes.cgroup, pids, sorted(others), time.time())


def namespaces_of(pid: int | str) -> list[str]:
    """The namespaces in which a process runs, and those that it has open."""
    found = []
    for link in [*Path(f"/proc/{pid}/ns").glob("*"), *Path(f"/proc/{pid}/fd").glob("*")]:
        # The process, or its file, may be gone by now.
        with contextlib.suppress(OSError):
            target = str(link.readlink())
            if ":[" in target and not target.startswith(("socket:", "pipe:", "anon_inode:")):
                found.append(target)
    return found


def start_pods(cluster: TestCluster) -> None:
    apply(cluster, daemonset("shop/web", template=web_server()))
    cluster.kubectl("-n", "shop", "rollout", "status", "daemonset/web", "--timeout=120s")


def start_owner() -> tuple[subprocess.Popen[str], Traces]:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert owner.stdout is not None
    return owner, Traces(**json.loads(owner.stdout.readline()))


def test_stopping_the_cluster_leaves_nothing(fresh_cluster: FreshCluster) -> None:
    cluster = fresh_cluster(real_nodes=2, kwok=False)
    start_pods(cluster)
    there = traces(cluster)
    # The fabric's network namespace, and five of each node; pods have more.
    assert len(there.namespaces) > 11
    assert len(there.left()) > len(there.namespaces) + len(there.pids)
    cluster.stop()
    wait_until(lambda: not there.left(), what="nothing is left")


@pytest.fixture
def load_script(fresh_cluster: FreshCluster, tmp_path: Path) -> tuple[TestCluster, Path]:
    """A cluster, and the script for people who want to send requests to it."""
    cluster = fresh_cluster(real_nodes=1, kwok=False)
    write_load(cluster, tmp_path, "http://10.200.0.1/")
    return cluster, tmp_path / "load"


def start_load(script: Path) -> tuple[subprocess.Popen[bytes], int]:
    """Start the script as a shell does in the background, and wait for the traffic program."""
    process = subprocess.Popen(
        [script, "-rate", "1", "-for", "1h"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    )
    started = psutil.Process(process.pid)

    def programs() -> list[int]:
        family = [started, *started.children(recursive=True)]
        return [found.pid for found in family if "load" in found.cmdline()[1:2]]

    return process, wait_until(programs, what="the load runs")[0]


def test_a_load_started_by_hand_ends_with_the_cluster(
    load_script: tuple[TestCluster, Path],
) -> None:
    cluster, script = load_script
    process, program = start_load(script)
    there = traces(cluster)
    cluster.stop()
    wait_until(lambda: not is_running(program), what="the load ended")
    wait_until(lambda: not there.left(), what="nothing is left")
    process.communicate()


def test_a_load_started_by_hand_reports_when_it_is_ended(
    load_script: tuple[TestCluster, Path],
) -> None:
    _, script = load_script
    process, program = start_load(script)
    process.terminate()
    output, _ = process.communicate()
    assert "sent" in json.loads(output)
    wait_until(lambda: not is_running(program), what="the load ended")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_an_owner_that_is_ended_leaves_nothing(number: signal.Signals) -> None:
    owner, there = start_owner()
    assert there.left() != []
    os.killpg(owner.pid, number)
    owner.communicate()
    wait_until(lambda: not there.left(), what=f"nothing is left after {number.name}")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_an_owner_that_is_ended_again_while_it_stops_leaves_nothing(
    number: signal.Signals,
) -> None:
    owner, there = start_owner()
    os.killpg(owner.pid, signal.SIGINT)
    wait_until(lambda: not all(map(is_running, there.pids)), what="it stops the cluster")
    while owner.poll() is None:
        os.killpg(owner.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            owner.wait(0.1)
    wait_until(lambda: not there.left(), what=f"nothing is left after {number.name}")


def test_logs_that_are_kept_are_all_that_is_left(fresh_cluster: FreshCluster) -> None:
    cluster = fresh_cluster(real_nodes=1, kwok=False)
    there, logs = traces(cluster), cluster.logs
    cluster.stop(keep_logs=True)
    assert there.left() == [there.directory]
    assert list(Path(there.directory).iterdir()) == [logs]
    directories.remove_leftovers()
    assert (logs / "node-1-kubelet.log").exists()
    subprocess.run(["rm", "-r", there.directory], check=True)


def test_what_a_killed_supervisor_and_its_killed_owner_left_goes_at_the_next_start() -> None:
    owner, there = start_owner()
    for child in psutil.Process(owner.pid).children():
        if "testcluster.realnodes.supervisor" in child.cmdline():
            child.kill()
    owner.kill()
    owner.communicate()
    wait_until(lambda: not any(map(is_running, there.pids)), what="all processes ended")
    with TestCluster(controllers=False, scheduler=False, kwok=False):
        # The kernel takes a moment to end the last namespaces.
        wait_until(lambda: not there.left(), what="nothing is left")


def test_an_owner_killed_while_nodes_start_leaves_nothing(tmp_path: Path) -> None:
    starts = OWNER.replace("    start_pods(cluster)\n", "")
    owner = subprocess.Popen(
        [sys.executable, "-c", starts],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    (directory,) = wait_until(lambda: list(tmp_path.glob("testcluster-*")), what="it starts")
    wait_until(lambda: cgroups.leftovers(directory.name), what="its first node starts")
    owner.kill()
    owner.wait()
    there = Traces(str(directory), directory.name, [], [], time.time())
    wait_until(lambda: not there.left(), what="nothing is left")


def test_a_killed_supervisor_takes_the_nodes_along(fresh_cluster: FreshCluster) -> None:
    cluster = fresh_cluster(real_nodes=1, kwok=False)
    start_pods(cluster)
    there = traces(cluster)
    supervisor = cluster.nodes.supervisor
    assert supervisor is not None
    supervisor.kill()
    supervisor.wait()
    wait_until(lambda: not is_running(cluster.nodes.first_pids["node-1"]), what="the node ended")
    cluster.stop()
    wait_until(lambda: not there.left(), what="nothing is left")
