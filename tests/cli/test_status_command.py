"""`rescheduler status` on a real control plane: with a leader, without one, and when it changes."""

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aiohttp import web

from rescheduler.controller.leader_election.lease_object import LEASE
from rescheduler.install.metadata import CONTROLLER, labels
from rescheduler.kube.api_server import collection_path, object_path
from rescheduler.status.status_document import ClusterStatus
from rescheduler.status.status_reader import StatusReader, StatusSource
from testcluster import TestCluster
from testcluster.applying import apply
from testcluster.builders import pod
from testcluster.client import JsonObject
from testcluster.components import kubeconfig_text
from testcluster.ports import pick_ports
from testcluster.waiting import wait_until
from tests.cli.conftest import Result
from tests.cli.pod_connections import pods_reached_by
from tests.conftest import Start
from tests.interrupts import interruptible
from tests.kube.faultproxy import Fault, FaultProxy, cut_at_once
from tests.leader_election.replicas import NAMESPACE, Replica, Replicas, replicas_on
from tests.migration.support import Sandbox, client_for, other_node

Command = Callable[..., Result]
PROGRAM = Path(sys.executable).with_name("rescheduler")
MAINTENANCE = {"scheduler.alpha.kubernetes.io/maintenance": "true"}


class Asker:
    """Runs the command on a cluster."""

    def __init__(self, command: Command, kubeconfig: Path, lease: str = "") -> None:
        self.command = command
        lease_option = ("--leader-election-lease", lease) if lease else ()
        self.options = ("status", f"--kubeconfig={kubeconfig}", *lease_option)

    def text(self, *options: str, code: int = 0) -> str:
        result = self.command(*self.options, *options)
        assert result.code == code, result.out + result.err
        return " ".join((result.out + result.err).split())

    def json(self, *options: str, code: int = 0) -> dict[str, Any]:
        result = self.command(*self.options, "-o", "json", *options)
        assert (result.code, result.err) == (code, "")
        found: dict[str, Any] = json.loads(result.out)
        return found


def notes(status: dict[str, Any]) -> dict[str, str]:
    return {note["reason"]: note["sentence"] for note in status["notes"]}


def started(replicas: Replicas) -> tuple[Replica, str]:
    """A replica, and the address of its status."""
    (port,) = pick_ports(1)
    return replicas.start("--health", f"127.0.0.1:{port}"), f"http://127.0.0.1:{port}"


def create_pod_of(replica: Replica, cluster: TestCluster, url: str, node: str) -> None:
    """A pod with the name and the arguments of a replica, as if it ran in there."""
    body = pod(f"{NAMESPACE}/{replica.name}", on=node)
    body["spec"]["containers"][0]["args"] = ["run", f"--health=:{url.rpartition(':')[2]}"]
    apply(cluster, body)
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/{replica.name}"
    wait_until(lambda: cluster.client.get(path)["status"].get("podIP"), what="the pod runs")


def test_a_cluster_without_a_controller_shows_its_nodes_and_what_is_missing(
    command: Command, quiet_cluster: TestCluster
) -> None:
    asker = Asker(command, quiet_cluster.kubeconfig)
    found = asker.json()
    assert notes(found).keys() == {"NoLease", "CrdMissing"}
    assert (found["lease"], found["replica"], found["migrations"]) == (None, None, None)
    assert [node["name"] for node in found["nodes"]["fullest"]] == ["a", "b"]
    assert found["nodes"]["fullest"][0]["cpu"] == 0.75
    text = asker.text()
    assert "rescheduler crds | kubectl apply -f -" in text
    assert "no Lease rescheduler/rescheduler or kube-system/rescheduler" in text
    # Nobody listens there, and that is what was asked for.
    nobody = asker.json("--url", "http://127.0.0.1:1", code=1)
    assert "Connection refused" in notes(nobody)["NotReached"]
    assert "expected an address" in asker.text("--url", "127.0.0.1:1", code=2)
    assert "expected NAMESPACE/NAME" in asker.text("--leader-election-lease", "x", code=2)


def test_a_server_that_cannot_be_reached_is_an_error(tmp_path: Path, command: Command) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    config = {
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        "users": [{"name": "c", "user": {"token": "t"}}],
        "current-context": "c",
    }
    kubeconfig.write_text(json.dumps(config))
    text = Asker(command, kubeconfig).text(code=1)
    assert text.startswith("rescheduler: GET /apis/coordination.k8s.io/")
    assert "could not connect to https://127.0.0.1:1" in text


def kubeconfig_of_reader(sandbox: Sandbox, replicas: Replicas, directory: Path) -> Path:
    """Of somebody who may read Leases and pods in the namespace of the replicas."""
    cluster, name = sandbox.cluster, f"{sandbox.namespace}-reader"
    account, token = replicas.new_account(name, sandbox.namespace)
    group = "rbac.authorization.k8s.io"
    metadata = {"name": name, "namespace": NAMESPACE}
    rule = {"apiGroups": ["", "coordination.k8s.io"], "resources": ["pods", "leases"]}
    role = {"kind": "Role", "rules": [{**rule, "verbs": ["get"]}]}
    subject = {"kind": "ServiceAccount", "name": account, "namespace": sandbox.namespace}
    binding = {
        "kind": "RoleBinding",
        "roleRef": {"apiGroup": group, "kind": "Role", "name": name},
        "subjects": [subject],
    }
    common = {"apiVersion": f"{group}/v1", "metadata": metadata}
    apply(cluster, {**common, **role}, {**common, **binding})
    file = directory / "reader.kubeconfig"
    file.write_text(kubeconfig_text(cluster.server, cluster.ca_file, account, token))
    return file


async def test_what_was_known_stays_on_the_screen_while_the_server_is_away(
    sandbox: Sandbox, proxy: FaultProxy
) -> None:
    sandbox.migrate({"metadata": {"name": "cart", "uid": "0"}}, "b", name="waiting", paused=True)
    async with client_for(sandbox.cluster, proxy.url) as client:
        reader = StatusReader(client, StatusSource((f"{sandbox.namespace}/none",)))

        async def shown(*reasons: str) -> ClusterStatus:
            """The status, when it has just these notes."""
            async with asyncio.timeout(60):
                while True:
                    found = await reader.read()
                    if [note.reason for note in found.notes] == [*reasons]:
                        return found
                    await asyncio.sleep(0.05)

        async with reader.following():
            before = await shown("NoLease")
            assert f"{sandbox.namespace}/waiting" in listed(before)
            proxy.chaos = lambda request: cut_at_once
            proxy.cut_all()
            assert listed(await shown("ApiServerUnavailable")) == listed(before)
            proxy.chaos = None
            assert listed(await shown("NoLease")) == listed(before)


async def test_who_may_read_only_the_second_lease_is_told_who_leads(sandbox: Sandbox) -> None:
    """It was not asked for, because the first one may not be read, whether or not it exists."""
    cluster, namespace = sandbox.cluster, sandbox.namespace
    group = "rbac.authorization.k8s.io"
    rule = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get"]}
    common = {"apiVersion": f"{group}/v1", "metadata": {"name": "r", "namespace": namespace}}
    binding = {
        "kind": "RoleBinding",
        "roleRef": {"apiGroup": group, "kind": "Role", "name": "r"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "powerless"}],
    }
    apply(cluster, {**common, "kind": "Role", "rules": [rule]}, {**common, **binding})
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "held"},
        "spec": {"holderIdentity": "somebody"},
    }
    sandbox.outside.create(collection_path(LEASE, namespace), lease)
    async with client_for(cluster, token=cluster.powerless_token) as client:
        source = StatusSource(("forbidden/rescheduler", f"{namespace}/held"))

        # The API server learns about rights a moment after they are given.
        async with asyncio.timeout(30):
            while True:
                found = await StatusReader(client, source).read()
                if found.lease is not None:
                    break
                await asyncio.sleep(0.1)
    assert found.lease.holder == "somebody"
    assert [note.reason for note in found.notes if "Lease" in note.sentence] == []

    # That of an earlier installation: the leader may hold the one that cannot be read.
    sandbox.outside.patch(object_path(LEASE, f"{namespace}/held"), {"spec": {"holderIdentity": ""}})
    async with client_for(cluster, token=cluster.powerless_token) as client:
        found = await StatusReader(client, source).read()
    said = [note.sentence for note in found.notes if "Lease" in note.sentence]
    assert any("Nobody holds" in sentence for sentence in said)
    assert any("may not" in sentence or "forbidden" in sentence for sentence in said)


async def test_the_age_of_a_lease_goes_on_while_the_server_is_away(
    sandbox: Sandbox, proxy: FaultProxy
) -> None:
    """It stood still at the second before, as if the leader were known to live."""
    key = f"{sandbox.namespace}/held"
    spec: JsonObject = {"holderIdentity": "somebody", "renewTime": "2026-01-01T00:00:00.000000Z"}
    spec |= {"leaseDurationSeconds": 2**31 - 1}
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": spec}
    sandbox.outside.create(
        collection_path(LEASE, sandbox.namespace), {**lease, "metadata": {"name": "held"}}
    )
    async with client_for(sandbox.cluster, proxy.url) as client:
        reader = StatusReader(client, StatusSource((key,)))
        async with reader.following():
            ages = [renewed(await reader.read())]
            proxy.chaos = lambda request: cut_at_once
            proxy.cut_all()
            ages += [renewed(await reader.read()) for _ in range(2)]
    assert ages[0] < ages[1] < ages[2]


def renewed(status: ClusterStatus) -> float:
    assert status.lease is not None
    assert status.lease.renewed_seconds_ago is not None
    return status.lease.renewed_seconds_ago


async def test_a_server_that_is_away_is_asked_for_one_thing_only(
    sandbox: Sandbox, proxy: FaultProxy
) -> None:
    """Each further call would wait as long as the first."""
    asked: set[str] = set()

    def cut(request: web.Request) -> Fault:
        asked.add(request.path)
        return cut_at_once

    proxy.chaos = cut
    lease = f"{sandbox.namespace}/none"
    async with client_for(sandbox.cluster, proxy.url) as client:
        source = StatusSource((lease,), url="http://127.0.0.1:1", pod_labels="a=b")
        found = await StatusReader(client, source).read()
    assert {note.reason for note in found.notes} == {"ApiServerUnavailable", "NotReached"}
    assert asked == {object_path(LEASE, lease)}


def listed(status: ClusterStatus) -> list[str]:
    assert status.migrations is not None
    return [migration.name for migration in status.migrations.listed]


def test_without_a_leader_a_replica_of_the_installation_is_asked(
    sandbox: Sandbox, start: Start, command: Command
) -> None:
    """A dry run elects nobody; and who still loads the cluster does not compete for the Lease."""
    (port,) = pick_ports(1)
    start("run", "--dry-run", "--health", f"127.0.0.1:{port}")
    (node,) = sandbox.add_nodes("a")
    body = pod(f"{sandbox.namespace}/replica", on=node)
    body["metadata"]["labels"] = labels(CONTROLLER)
    body["spec"]["containers"][0]["args"] = ["run", "--dry-run", f"--health=:{port}"]
    apply(sandbox.cluster, body)
    wait_until(lambda: sandbox.pods()[0]["status"].get("podIP"), what="the pod runs")
    lease = f"{sandbox.namespace}/rescheduler"
    asker = Asker(command, sandbox.cluster.kubeconfig, lease)
    forward = f"kubectl -n {sandbox.namespace} port-forward pod/replica 8080:{port}"
    unreached = notes(asker.json())
    assert unreached.keys() == {"NoLease", "NotReached"}
    assert forward in unreached["NotReached"]
    with pods_reached_by(sandbox.cluster, node):
        wait_until(lambda: "Result" in asker.text(), what="a round has ended")
        found, text = asker.json(), asker.text()
    assert (found["replica"]["role"], found["notes"]) == ("Planner", [])
    assert "nobody: a dry run elects no leader" in text


def test_status_follows_the_leader_and_says_why_nothing_moves(
    sandbox: Sandbox, tmp_path: Path, command: Command
) -> None:
    with replicas_on(sandbox.cluster, tmp_path, sandbox.namespace) as replicas:
        asker = Asker(command, sandbox.cluster.kubeconfig, replicas.lease)
        check_status(asker, sandbox, replicas, tmp_path / "screen")


def check_status(asker: Asker, sandbox: Sandbox, replicas: Replicas, screen: Path) -> None:
    cluster = sandbox.cluster
    (a, *_) = sandbox.add_nodes("a", labels=MAINTENANCE)
    sandbox.add_nodes("b", "c")
    (web,) = sandbox.deploy("web", 1)
    bare = pod(f"{sandbox.namespace}/alone", on=a, cpu="100m")
    apply(cluster, bare)
    sandbox.migrate(web, other_node(sandbox, web), name="held", paused=True)
    solo = pod(f"{sandbox.namespace}/solo", on=sandbox.nodes[1], cpu="100m")
    apply(cluster, solo)
    solo = sandbox.outside.get(sandbox.path("pods", "solo"))
    sandbox.migrate(solo, sandbox.nodes[2], name="refused")

    # One leads, another one waits.
    first, first_url = started(replicas)
    first.wait_for("Finished a round")
    assert replicas.leader() is first
    second, second_url = started(replicas)
    second.wait_for("Waiting for the lease")

    # Asked at its address, the leader tells about the round.
    def with_blocked_pod() -> dict[str, Any]:
        found = asker.json("--url", first_url)
        return found if found["replica"]["round"]["blocked"] else {}

    found = wait_until(with_blocked_pod, what="a round has found the blocked pod")
    replica = found["replica"]
    assert (replica["version"], replica["role"], found["notes"]) == (1, "Leader", [])
    assert replica["leader"] == replica["replica"] == found["lease"]["holder"]
    assert replica["sync"]["loaded"]
    assert replica["round"]["reason"] == "AllBlocked"
    (blocked,) = (each for each in replica["round"]["blockedBy"] if each["reason"] == "BarePod")
    assert f"{sandbox.namespace}/alone" in [each["pod"] for each in blocked["examples"]]
    assert replica["nodes"] == found["nodes"]
    mine = {
        each["name"].partition("/")[2]: each
        for each in found["migrations"]["listed"]
        if each["name"].startswith(f"{sandbox.namespace}/")
    }
    assert {name: each["reason"] for name, each in mine.items()} == {
        "held": "Paused",
        "refused": "Failed",
    }
    assert "Result" in asker.text("--url", first_url)

    # Without an address, the leader's pod is asked, if it is one and the API server reaches it.
    found = asker.json()
    assert (found["lease"]["holder"].rpartition("_")[0], found["replica"]) == (first.name, None)
    assert notes(found).keys() == {"LeaderIsNoPod"}
    assert found["nodes"]["count"] >= 3
    create_pod_of(first, cluster, first_url, sandbox.nodes[1])
    forward = f"kubectl -n {NAMESPACE} port-forward pod/{first.name} 8080:"
    assert forward in notes(asker.json())["NotReached"]
    with pods_reached_by(cluster, sandbox.nodes[1]):
        found = asker.json()
    assert (found["notes"], found["replica"]["role"]) == ([], "Leader")
    assert f"/pods/{first.name}/portforward" in found["source"]

    # Who may read the Lease and the pod, and nothing else, is told how to go on.
    reader = Asker(
        asker.command, kubeconfig_of_reader(sandbox, replicas, screen.parent), replicas.lease
    )
    found = reader.json()
    assert notes(found).keys() == {"PortForwardForbidden", "RightMissing"}
    assert forward in notes(found)["PortForwardForbidden"]
    assert (found["migrations"], found["nodes"]) == (None, None)

    # The one that waits names the leader, and how to reach it.
    found = asker.json("--url", second_url)
    assert (found["replica"]["role"], found["replica"]["round"]) == ("Standby", None)
    assert first.name in notes(found)["StandbyAnswered"]
    assert forward in notes(found)["StandbyAnswered"]

    # The leader is lost. A screen that follows it goes on, and shows who leads next.
    with screen.open("wb") as output:
        watching = subprocess.Popen(
            interruptible(PROGRAM, *asker.options, "--watch", "--url", first_url),
            stdout=output,
            stderr=output,
        )
    try:
        wait_until(lambda: "Last round" in screen.read_text(), what="the leader is shown")
        first.signal(signal.SIGKILL)
        replicas.wait_for_end(first)
        wait_until(
            lambda: f"Leader  {second.name}" in screen.read_text(), what="the other one leads"
        )
        assert "NotReached: " in screen.read_text()
        assert watching.poll() is None
        watching.send_signal(signal.SIGINT)
        assert watching.wait(60) == 130
        assert "Traceback" not in screen.read_text()
    finally:
        watching.kill()
        watching.wait()

    def is_leader() -> bool:
        found = asker.json("--url", second_url)["replica"]
        return found["role"] == "Leader" and found["round"] is not None

    wait_until(is_leader, what="the other one has planned")
    assert asker.json("--url", first_url, code=1)["replica"] is None
    cluster.client.delete(f"/api/v1/namespaces/{NAMESPACE}/pods/{first.name}")
