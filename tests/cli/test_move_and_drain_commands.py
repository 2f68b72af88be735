"""`run`, `move` and `drain` on a real control plane, started as users start them."""

import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rescheduler.cli import run
from testcluster import builders
from testcluster.applying import apply
from testcluster.builders import budget, daemonset, deployment
from testcluster.client import JsonObject
from testcluster.waiting import wait_until
from tests.conftest import FreshCluster, Start
from tests.migration.support import Sandbox, is_ready, node_of, other_node, set_running

MAINTENANCE = "scheduler.alpha.kubernetes.io/maintenance"
POLICY = "reschedulingInterval: 1s\nenabledStrategies: [NodeMaintenance]\n"


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    file = tmp_path / "policy.yaml"
    file.write_text(POLICY)
    return file


def label(sandbox: Sandbox, node: str, value: str | None) -> None:
    sandbox.outside.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {MAINTENANCE: value}}})


def is_cordoned(sandbox: Sandbox, node: str) -> bool:
    spec = sandbox.outside.get(f"/api/v1/nodes/{node}")["spec"]
    return bool(spec.get("unschedulable"))


def test_run_empties_a_node_under_maintenance_and_opens_it_again(
    sandbox: Sandbox, start: Start, policy: Path, output: Callable[[], str]
) -> None:
    sandbox.add_nodes("a", "b")
    pods = sandbox.deploy("web", 3)
    busy = node_of(pods[0])
    process = start("run", "--policy", policy, "--no-leader-election")
    wait_until(lambda: "Finished a round" in output(), what="it runs")
    assert "Nothing to move" in output()
    label(sandbox, busy, "true")
    wait_until(lambda: is_cordoned(sandbox, busy), what="the node is cordoned")
    wait_until(
        lambda: all(node_of(pod) != busy for pod in sandbox.pods("web")), what="the node is empty"
    )
    sandbox.wait_ready("web", 3)
    label(sandbox, busy, None)
    wait_until(lambda: not is_cordoned(sandbox, busy), what="the node is open again")
    process.send_signal(signal.SIGTERM)
    assert process.wait(120) == 0
    assert "Stopped" in output()


def test_run_leaves_a_node_cordoned_that_someone_else_cordoned(
    sandbox: Sandbox, start: Start, policy: Path, output: Callable[[], str]
) -> None:
    mine, other = sandbox.add_nodes("mine", "other")
    sandbox.outside.patch(f"/api/v1/nodes/{mine}", {"spec": {"unschedulable": True}})
    label(sandbox, mine, "true")
    label(sandbox, other, "true")
    start("run", "--policy", policy, "--no-leader-election")
    wait_until(lambda: is_cordoned(sandbox, other), what="the other is cordoned")
    label(sandbox, mine, None)
    label(sandbox, other, None)
    wait_until(lambda: not is_cordoned(sandbox, other), what="the other is open again")
    assert is_cordoned(sandbox, mine)


def test_a_dry_run_changes_nothing(
    sandbox: Sandbox, start: Start, policy: Path, output: Callable[[], str]
) -> None:
    sandbox.add_nodes("a", "b")
    (pod,) = sandbox.deploy("web", 1)
    label(sandbox, node_of(pod), "true")
    start("run", "--dry-run", "--policy", policy)
    wait_until(lambda: "Would have requested a move" in output(), what="it has planned")
    label(sandbox, node_of(pod), None)
    assert not is_cordoned(sandbox, node_of(pod))
    assert sandbox.all("migrations") == []
    assert sandbox.pods("web")[0]["metadata"]["uid"] == pod["metadata"]["uid"]


def test_a_changed_policy_is_reloaded_and_an_invalid_one_rejected(
    start: Start, policy: Path, output: Callable[[], str]
) -> None:
    process = start("run", "--dry-run", "--policy", policy)
    wait_until(lambda: "Finished a round" in output(), what="it runs")
    policy.write_text("reschedulingInterval: soon\n")
    wait_until(lambda: "Rejected an invalid policy and kept the old one" in output())
    assert "reschedulingInterval" in output()
    policy.write_text(POLICY + "maxReschedulePods: 3\n")
    wait_until(lambda: "Reloaded the policy" in output())
    before = output().count("Reloaded the policy")
    process.send_signal(signal.SIGHUP)
    wait_until(lambda: output().count("Reloaded the policy") > before, what="SIGHUP reloads")


def test_move_here_moves_one_pod_and_shows_how_it_ended(
    sandbox: Sandbox, start: Start, output: Callable[[], str]
) -> None:
    sandbox.add_nodes("a", "b")
    (pod,) = sandbox.deploy("web", 1)
    target = other_node(sandbox, pod)
    key = f"{sandbox.namespace}/{pod['metadata']['name']}"
    arguments = "move", key, "--to", target, "--here", "--log-level=info"
    assert start(*arguments).wait(120) == 0
    assert "Completed" in output()
    assert f"INFO Updated a migration action=start pod={key}" in output()
    (new,) = sandbox.pods("web")
    assert node_of(new) == target


@pytest.mark.parametrize(
    ("to", "expected"), [("nowhere", "there is no such node"), ("", "already runs on this node")]
)
def test_move_rejects_a_target_with_a_reason(
    sandbox: Sandbox, capfd: pytest.CaptureFixture[str], to: str, expected: str
) -> None:
    sandbox.add_nodes("a")
    (pod,) = sandbox.deploy("web", 1)
    key = f"{sandbox.namespace}/{pod['metadata']['name']}"
    config = f"--kubeconfig={sandbox.cluster.kubeconfig}"
    assert run("rescheduler", ["move", key, "--to", to or node_of(pod), config]) == 2
    error = capfd.readouterr().err
    assert expected in error
    assert "Traceback" not in error


def test_drain_empties_a_node_whose_budgets_allow_no_eviction(
    sandbox: Sandbox, start: Start, output: Callable[[], str]
) -> None:
    (first,) = sandbox.add_nodes("a")
    sandbox.deploy("web", 3)
    apply(sandbox.cluster, budget(f"{sandbox.namespace}/web", min_available=3))
    sandbox.add_nodes("b", "c")
    assert start("drain", first, "--here").wait(120) == 0, output()
    (reason,) = {found["spec"]["reason"].partition("; ")[0] for found in sandbox.all("migrations")}
    assert reason == f"{first} is being drained"
    assert f"node {first} is empty" in output()
    assert not [pod for pod in sandbox.pods() if node_of(pod) == first]
    assert sum(map(is_ready, sandbox.pods("web"))) == 3


def test_drain_lists_the_pods_that_stay_and_why(
    sandbox: Sandbox, start: Start, output: Callable[[], str]
) -> None:
    (first,) = sandbox.add_nodes("a")
    sandbox.deploy("web", 1)
    sandbox.deploy("pinned", 1, {"nodeSelector": {"kubernetes.io/hostname": first}})
    sandbox.add_nodes("b")
    assert start("drain", first, "--here").wait(120) == 1
    assert f"pod {sandbox.namespace}/pinned" in output()
    assert [
        pod["metadata"]["labels"]["app"] for pod in sandbox.pods() if node_of(pod) == first
    ] == ["pinned"]


def test_drain_ends_although_rollouts_are_stuck_and_says_which(
    sandbox: Sandbox, start: Start, output: Callable[[], str], tmp_path: Path
) -> None:
    """All pods are Ready. But one rollout cannot create its pods, and one waits for minutes."""
    (first,) = sandbox.add_nodes("a")
    for app in ("web", "forbidden", "slow"):
        sandbox.deploy(app, 1)
    sandbox.add_nodes("b")
    stuck = {
        "forbidden": {"template": {"spec": {"serviceAccountName": "nobody"}}},
        "slow": {
            "template": {"metadata": {"annotations": {"version": "2"}}},
            "minReadySeconds": 590,
        },
    }
    for app, spec in stuck.items():
        sandbox.outside.patch(sandbox.path("deployments", app), {"spec": spec})
    sandbox.wait_ready("slow", 2)
    wait_until(lambda: is_stuck(sandbox, "forbidden"), what="its pods cannot be created")
    policy = tmp_path / "policy.yaml"
    policy.write_text("migration: {timeout: 5s}\n")
    assert start("drain", first, "--here", f"--policy={policy}").wait(120) == 1, output()
    printed = output()
    name = f"{sandbox.namespace}/"
    assert f"stays: Deployment {name}forbidden is stuck in a rollout: its new pods" in printed
    assert "was not moved: not started within 5s: Deployment slow is rolling out" in printed
    stayed = {pod["metadata"]["labels"]["app"] for pod in sandbox.pods() if node_of(pod) == first}
    assert "web" not in stayed
    assert {"forbidden", "slow"} <= stayed
    assert all(found["status"]["phase"] == "Completed" for found in sandbox.all("migrations"))


def is_stuck(sandbox: Sandbox, app: str) -> bool:
    found = sandbox.get("deployments", app) or {}
    conditions = found.get("status", {}).get("conditions", [])
    return any(condition["type"] == "ReplicaFailure" for condition in conditions)


def stopping_on_a_node_nobody_plays(sandbox: Sandbox) -> tuple[str, JsonObject]:
    """A node, and a pod on it that ends only when the test lets it end, unlike its replacement."""
    (first,) = sandbox.add_nodes("a", managed=False)
    apply(
        sandbox.cluster,
        deployment(f"{sandbox.namespace}/web", 1, "100m", template=sandbox.here()),
    )
    (pod,) = wait_until(lambda: [pod for pod in sandbox.pods("web") if node_of(pod)])
    set_running(sandbox, pod)
    sandbox.wait_ready("web", 1)
    sandbox.add_nodes("b")
    return first, pod


def test_drain_waits_until_the_old_pods_have_stopped(
    sandbox: Sandbox, start: Start, output: Callable[[], str]
) -> None:
    first, pod = stopping_on_a_node_nobody_plays(sandbox)
    name = pod["metadata"]["name"]
    process = start("drain", first, "--here")
    wait_until(lambda: "1 pod is still stopping, until " in output(), what="it waits")
    assert f"{sandbox.namespace}/{name}" in output().splitlines()[-1]
    assert process.poll() is None
    sandbox.outside.delete(f"{sandbox.path('pods', name)}?gracePeriodSeconds=0")
    assert process.wait(120) == 0, output()
    assert f"node {first} is empty" in output()


def test_drain_fails_if_an_old_pod_does_not_stop_in_time(
    sandbox: Sandbox, start: Start, output: Callable[[], str]
) -> None:
    """The pod has ended, but a finalizer keeps it."""
    first, pod = stopping_on_a_node_nobody_plays(sandbox)
    path = sandbox.path("pods", pod["metadata"]["name"])
    sandbox.outside.patch(path, {"metadata": {"finalizers": ["example.com/backup"]}})
    process = start("drain", first, "--here")
    wait_until(lambda: "1 pod is still stopping, until " in output(), what="it waits")
    sandbox.outside.delete(f"{path}?gracePeriodSeconds=0")
    assert process.wait(120) == 1, output()
    sandbox.outside.patch(path, {"metadata": {"finalizers": None}})
    key = f"{sandbox.namespace}/{pod['metadata']['name']}"
    assert f"pod {key} waits for its finalizers: example.com/backup" in output()
    assert f"kubectl uncordon {first}" in output()
    assert "is empty" not in output()


def test_pods_on_their_way_out_do_not_stay_for_a_drain_that_does_not_wait(
    sandbox: Sandbox, start: Start, output: Callable[[], str]
) -> None:
    first, pod = stopping_on_a_node_nobody_plays(sandbox)
    sandbox.outside.patch(f"/api/v1/nodes/{first}", {"spec": {"unschedulable": True}})
    sandbox.outside.delete(sandbox.path("pods", pod["metadata"]["name"]))
    sandbox.wait_ready("web", 1)
    assert start("drain", first).wait(120) == 0, output()
    key = f"{sandbox.namespace}/{pod['metadata']['name']}"
    assert f"1 pod is still stopping: {key}" in output()
    assert "stays" not in output()
    assert "to watch the migrations" not in output()


def test_a_drain_that_moves_nothing_says_so(
    sandbox: Sandbox, start: Start, output: Callable[[], str]
) -> None:
    (empty,) = sandbox.add_nodes("a")
    assert start("drain", empty).wait(120) == 0, output()
    assert f"node {empty} has no pods to move" in output()
    assert "to watch the migrations" not in output()


def test_pods_that_stay_with_their_node_do_not_count_as_remaining(
    sandbox: Sandbox, start: Start, output: Callable[[], str]
) -> None:
    # Nobody plays this node: pods that have finished would be started again.
    (first,) = sandbox.add_nodes("a", managed=False)
    mirror = builders.pod(
        f"{sandbox.namespace}/proxy",
        on=first,
        cpu="100m",
        annotations={"kubernetes.io/config.mirror": "0123"},
    )
    evicted = builders.pod(f"{sandbox.namespace}/evicted", on=first, phase="Failed")
    evicted["status"]["reason"] = "Evicted"
    done = builders.pod(f"{sandbox.namespace}/done", on=first, phase="Succeeded")
    agents = daemonset(f"{sandbox.namespace}/agent", "100m", template=sandbox.here())
    apply(sandbox.cluster, mirror, evicted, done, agents)
    (agent,) = wait_until(lambda: [pod for pod in sandbox.pods("agent") if node_of(pod)])
    set_running(sandbox, agent)
    assert start("drain", first, "--here").wait(120) == 0, output()
    assert f"node {first} is empty" in output()
    assert len(sandbox.pods()) == 4


def test_a_replica_that_its_kubelet_has_evicted_holds_up_no_drain(
    sandbox: Sandbox, start: Start, output: Callable[[], str]
) -> None:
    (first,) = sandbox.add_nodes("a")
    evicted, _ = sandbox.deploy("web", 2)
    path = sandbox.path("pods", evicted["metadata"]["name"])
    status = {"phase": "Failed", "reason": "Evicted", "conditions": []}
    sandbox.outside.patch(f"{path}/status", {"status": status})
    sandbox.wait_ready("web", 2)
    sandbox.add_nodes("b")
    assert start("drain", first, "--here").wait(120) == 0, output()
    assert f"node {first} is empty" in output()
    assert [pod["metadata"]["name"] for pod in sandbox.pods() if node_of(pod) == first] == [
        evicted["metadata"]["name"]
    ]
    assert sum(map(is_ready, sandbox.pods("web"))) == 2


def test_a_drain_finishes_what_an_earlier_one_has_begun(
    sandbox: Sandbox, start: Start, output: Callable[[], str]
) -> None:
    (first,) = sandbox.add_nodes("a")
    sandbox.deploy("web", 2)
    sandbox.add_nodes("b")
    assert start("drain", first).wait(120) == 0, output()
    before = [migration["metadata"]["name"] for migration in sandbox.all("migrations")]
    assert start("drain", first).wait(120) == 0, output()
    assert f"migration {sandbox.namespace}/{before[0]} of pod " in output()
    assert start("drain", first, "--here").wait(120) == 0, output()
    assert f"node {first} is empty" in output()
    after = {found["metadata"]["name"]: found["status"] for found in sandbox.all("migrations")}
    assert list(after) == before
    assert {status["outcome"] for status in after.values()} == {"Landed"}


def test_ctrl_c_does_not_cancel_migrations_that_were_there_before(
    sandbox: Sandbox, start: Start, output: Callable[[], str]
) -> None:
    first, other = sandbox.add_nodes("a", "b")
    sandbox.outside.patch(f"/api/v1/nodes/{other}", {"spec": {"unschedulable": True}})
    old, _ = sandbox.deploy("web", 2)
    sandbox.outside.patch(f"/api/v1/nodes/{other}", {"spec": {"unschedulable": None}})
    kept = sandbox.migrate(old, other)
    process = start("drain", first, "--wait", "--cancel-on-interrupt")
    wait_until(lambda: output().count("Pending") == 2, what="both Migrations are followed")
    process.send_signal(signal.SIGINT)
    assert process.wait(120) in (1, 130)
    assert "Cancelled 1 migration. Steps already taken are undone." in output()
    assert "1 migration was there before and is not cancelled." in output()
    assert [found["metadata"]["name"] for found in sandbox.all("migrations")] == [kept]


def test_an_interrupted_drain_says_that_its_node_stays_cordoned(
    sandbox: Sandbox, start: Start, output: Callable[[], str]
) -> None:
    (first,) = sandbox.add_nodes("a")
    sandbox.deploy("web", 1)
    sandbox.add_nodes("b")
    process = start("drain", first, "--wait")
    wait_until(lambda: "Pending" in output(), what="the Migration is followed")
    process.send_signal(signal.SIGINT)
    assert process.wait(120) in (1, 130)
    assert f"node {first} stays cordoned. To undo that: kubectl uncordon {first}" in output()
    assert "Traceback" not in output()
    assert is_cordoned(sandbox, first)


def test_a_node_that_is_deleted_ends_its_drain(
    sandbox: Sandbox, start: Start, output: Callable[[], str]
) -> None:
    first, _ = stopping_on_a_node_nobody_plays(sandbox)
    process = start("drain", first, "--here")
    wait_until(lambda: "1 pod is still stopping, until " in output(), what="it waits")
    sandbox.outside.delete(f"/api/v1/nodes/{first}")
    assert process.wait(120) == 0, output()
    assert f"node {first} no longer exists" in output()


@pytest.mark.parametrize("cancels", [True, False])
def test_ctrl_c_leaves_migrations_running_or_cancels_them(
    sandbox: Sandbox, start: Start, output: Callable[[], str], cancels: bool
) -> None:
    sandbox.add_nodes("a")
    (pod,) = sandbox.deploy("web", 1)
    (target,) = sandbox.add_nodes("b")
    key = f"{sandbox.namespace}/{pod['metadata']['name']}"
    more = ["--cancel-on-interrupt"] if cancels else []
    process = start("move", key, "--to", target, "--wait", *more)
    wait_until(lambda: "waiting to be started" in output(), what="it follows the migration")
    process.send_signal(signal.SIGINT)
    assert process.wait(120) in (1, 130)
    assert "Traceback" not in output()
    assert bool(sandbox.all("migrations")) is not cancels
    assert ("Cancelled 1 migration" if cancels else "The migrations keep running") in output()


def test_ctrl_c_undoes_a_migration_that_runs_here(
    sandbox: Sandbox, start: Start, output: Callable[[], str]
) -> None:
    sandbox.add_nodes("a")
    (pod,) = sandbox.deploy("web", 1)
    (target,) = sandbox.add_nodes("b", managed=False)
    key = f"{sandbox.namespace}/{pod['metadata']['name']}"
    process = start("move", key, "--to", target, "--here", "--cancel-on-interrupt")
    wait_until(lambda: len(sandbox.pods("web")) == 2, what="the new pod is there")
    process.send_signal(signal.SIGINT)
    assert process.wait(120) in (1, 130)
    assert sandbox.all("migrations") == []
    assert sandbox.leftovers() == []
    assert is_ready(sandbox.outside.get(sandbox.path("pods", pod["metadata"]["name"])))


@pytest.mark.parametrize("command", ["move", "drain"])
def test_a_migration_that_runs_here_and_is_deleted_is_undone_before_the_command_ends(
    sandbox: Sandbox, start: Start, output: Callable[[], str], command: str
) -> None:
    (first,) = sandbox.add_nodes("a")
    (pod,) = sandbox.deploy("web", 1)
    (target,) = sandbox.add_nodes("b", managed=False)
    key = f"{sandbox.namespace}/{pod['metadata']['name']}"
    arguments = [first] if command == "drain" else [key, "--to", target]
    process = start(command, *arguments, "--here")
    (new,) = wait_until(lambda: [pod for pod in sandbox.pods("web") if node_of(pod) == target])
    # One that is Ready leaves its Services first, which takes a while.
    set_running(sandbox, new)
    (migration,) = sandbox.all("migrations")
    name = migration["metadata"]["name"]
    sandbox.outside.delete(sandbox.path("migrations", name))
    assert process.wait(120) == 1, output()
    assert sandbox.leftovers() == []
    sandbox.wait_ready("web", 1)


def test_a_missing_crd_is_reported_with_the_command_that_installs_it(
    fresh_cluster: FreshCluster, capfd: pytest.CaptureFixture[str]
) -> None:
    cluster = fresh_cluster(controllers=False, scheduler=False, kwok=False)
    config = f"--kubeconfig={cluster.kubeconfig}"
    for arguments in (["run"], ["move", "a/b", "--to", "c"], ["drain", "a"]):
        assert run("rescheduler", [*arguments, config]) == 2
        error = capfd.readouterr().err
        assert "rescheduler crds | kubectl apply -f -" in error
        assert "Traceback" not in error


def test_run_can_be_stopped_while_the_server_does_not_answer(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    """The server accepts connections, but never answers."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"https://127.0.0.1:{silent.getsockname()[1]}"
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(
            sandbox.cluster.kubeconfig.read_text().replace(sandbox.cluster.server, address)
        )
        log = tmp_path / "log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [Path(sys.executable).with_name("rescheduler"), "run", "--kubeconfig", kubeconfig],
                stderr=output,
            )
        try:
            wait_until(lambda: "Started" in log.read_text(), what="it has started")
            process.send_signal(signal.SIGTERM)
            assert process.wait(120) == 0
        finally:
            process.kill()
            process.wait()


def test_move_fails_if_its_migration_is_deleted_before_it_finished(
    sandbox: Sandbox, start: Start, output: Callable[[], str]
) -> None:
    sandbox.add_nodes("a", "b")
    (pod,) = sandbox.deploy("web", 1)
    key = f"{sandbox.namespace}/{pod['metadata']['name']}"
    process = start("move", key, "--to", other_node(sandbox, pod), "--wait")
    (migration,) = wait_until(lambda: sandbox.all("migrations"), what="the Migration is created")
    name = migration["metadata"]["name"]
    wait_until(lambda: "Pending" in output(), what="the Migration is followed")
    sandbox.outside.delete(sandbox.path("migrations", name))
    assert process.wait(120) == 1, output()
    assert f"migration {sandbox.namespace}/{name} was deleted before it finished" in output()


def test_drain_fails_if_a_migration_is_deleted_before_it_finished(
    sandbox: Sandbox, start: Start, output: Callable[[], str]
) -> None:
    (first,) = sandbox.add_nodes("a")
    (pod,) = sandbox.deploy("web", 1)
    sandbox.add_nodes("b")
    process = start("drain", first, "--wait")
    (migration,) = wait_until(lambda: sandbox.all("migrations"), what="the Migration is created")
    wait_until(lambda: "Pending" in output(), what="the Migration is followed")
    sandbox.outside.delete(sandbox.path("migrations", migration["metadata"]["name"]))
    assert process.wait(120) == 1, output()
    key = f"{sandbox.namespace}/{pod['metadata']['name']}"
    assert f"pod {key} was not moved: its Migration was deleted before it finished" in output()
    assert "is empty" not in output()


def test_move_succeeds_if_its_migration_is_deleted_after_it_finished(
    sandbox: Sandbox, start: Start, output: Callable[[], str]
) -> None:
    """The last state and the deletion may reach the command in one piece."""
    sandbox.add_nodes("a", "b")
    (pod,) = sandbox.deploy("web", 1)
    key = f"{sandbox.namespace}/{pod['metadata']['name']}"
    process = start("move", key, "--to", other_node(sandbox, pod), "--wait")
    (migration,) = wait_until(lambda: sandbox.all("migrations"), what="the Migration is created")
    wait_until(lambda: "Pending" in output(), what="the Migration is followed")
    path = sandbox.path("migrations", migration["metadata"]["name"])
    process.send_signal(signal.SIGSTOP)
    sandbox.outside.patch(f"{path}/status", {"status": {"phase": "Completed", "outcome": "Landed"}})
    sandbox.outside.delete(path)
    process.send_signal(signal.SIGCONT)
    assert process.wait(120) == 0, output()
