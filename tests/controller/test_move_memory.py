"""What is known of moves outlives their Migrations and the process, in the API server."""

import logging
from typing import Any

import pytest
from aiohttp import web

from rescheduler.migration.memory import record_retention
from rescheduler.settings import MigrationOptions, Seconds
from testcluster.client import ApiError, JsonObject
from tests.controller.test_planning_loop import planning_loop_on, set_maintenance, under_maintenance
from tests.kube.faultproxy import Fault, FaultProxy, answer_with
from tests.migration.support import (
    MOVE_RECORDS,
    Sandbox,
    controller_on,
    is_ready,
    node_of,
    other_node,
)

FORGETFUL = MigrationOptions(
    keep_seconds=Seconds(1), max_retries=0, retry_delay_seconds=Seconds(0.05)
)
WARNING = "Went on without the memory of earlier moves"


def record(sandbox: Sandbox, name: str, **spec: Any) -> JsonObject:
    """A record as the controller writes it."""
    written = {
        "namespace": sandbox.namespace,
        "pod": "web-1",
        "sourceNode": "a",
        "targetNode": "b",
        "outcome": "Landed",
        "finishedAt": "2026-01-01T00:00:00Z",
        **spec,
    }
    return {
        "apiVersion": "rescheduler.dev/v1alpha1",
        "kind": "MoveRecord",
        "metadata": {"name": name},
        "spec": written,
    }


async def fail_a_move(sandbox: Sandbox, pod: JsonObject) -> str:
    """Move a pod to a node that is too small, and wait until its Migration is deleted."""
    (small,) = sandbox.add_nodes("small", cpu="50m")
    name = sandbox.migrate(pod, small, strategy="LoadBalancing", reason="it is crowded")
    await sandbox.until(lambda: sandbox.get("migrations", name) is None, "it is deleted")
    return small


async def test_a_failure_is_known_to_the_next_process_after_its_migration_is_deleted(
    sandbox: Sandbox,
) -> None:
    pod, target = under_maintenance(sandbox)
    async with controller_on(sandbox.cluster, FORGETFUL):
        small = await fail_a_move(sandbox, pod)
    (spec,) = sandbox.move_records()
    assert (spec["pod"], spec["outcome"]) == (pod["metadata"]["name"], "Failed")
    assert (spec["sourceNode"], spec["targetNode"]) == (node_of(pod), small)
    assert (spec["strategy"], spec["reason"]) == ("LoadBalancing", "it is crowded")
    key = f"{sandbox.namespace}/{pod['metadata']['name']}"
    async with planning_loop_on(sandbox) as loop:
        finished = await loop.run_round()
    assert finished is not None
    blockers = {blocked.pod: blocked.blocker for blocked in finished.plan.blocked}
    assert blockers[key] == "RecentlyMoved"
    async with planning_loop_on(sandbox, minutes_later=11) as loop:
        later = await loop.run_round()
    set_maintenance(sandbox, node_of(pod), None)
    assert later is not None
    assert (key, target) in [(move.pod, move.target) for move in later.requested]


async def test_two_controllers_record_a_move_once(
    sandbox: Sandbox, caplog: pytest.LogCaptureFixture
) -> None:
    sandbox.add_nodes("a", "b")
    pods = sandbox.deploy("web", 6)
    async with (
        controller_on(sandbox.cluster, FORGETFUL),
        controller_on(sandbox.cluster, FORGETFUL),
    ):
        for pod in pods:
            sandbox.migrate(pod, other_node(sandbox, pod))
        await sandbox.until(lambda: not sandbox.all("migrations"), "all are deleted")
    moved = [spec["pod"] for spec in sandbox.move_records()]
    assert sorted(moved) == sorted(pod["metadata"]["name"] for pod in pods)
    assert WARNING not in caplog.messages


@pytest.mark.parametrize("fault", [answer_with(503), answer_with(500)], ids=["503", "500"])
async def test_a_migration_is_kept_until_it_is_recorded(sandbox: Sandbox, fault: Fault) -> None:
    sandbox.add_nodes("a", "b")
    (pod,) = sandbox.deploy("web", 1)
    tries = 0

    def refuse(request: web.Request) -> Fault | None:
        nonlocal tries
        if request.method != "POST" or request.path != MOVE_RECORDS:
            return None
        tries += 1
        return fault

    async with (
        FaultProxy(sandbox.cluster.server, str(sandbox.cluster.ca_file)) as proxy,
        controller_on(sandbox.cluster, FORGETFUL, server=proxy.url),
    ):
        proxy.chaos = refuse
        name = sandbox.migrate(pod, other_node(sandbox, pod), ttlSecondsAfterFinished=0)
        await sandbox.until(lambda: tries >= 3, "recording was tried")
        assert sandbox.status(name)["outcome"] == "Landed"
        proxy.chaos = None
        await sandbox.until(lambda: sandbox.get("migrations", name) is None, "it is deleted")
    assert [spec["outcome"] for spec in sandbox.move_records()] == ["Landed"]


def token_without_records(sandbox: Sandbox) -> str:
    """The token of a user who may do everything but use records."""
    groups = {
        "": ["*"],
        "apps": ["*"],
        "batch": ["*"],
        "policy": ["*"],
        "discovery.k8s.io": ["*"],
        "scheduling.k8s.io": ["*"],
        "storage.k8s.io": ["*"],
        "rescheduler.dev": ["migrations", "migrations/status"],
    }
    rules = [
        {"apiGroups": [group], "resources": resources, "verbs": ["*"]}
        for group, resources in groups.items()
    ]
    name = f"no-records-{sandbox.namespace}"
    rbac, version = "/apis/rbac.authorization.k8s.io/v1", "rbac.authorization.k8s.io/v1"
    role = {"apiVersion": version, "kind": "ClusterRole", "metadata": {"name": name}}
    sandbox.outside.create(f"{rbac}/clusterroles", {**role, "rules": rules})
    binding = {
        "apiVersion": version,
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": sandbox.namespace}],
    }
    sandbox.outside.create(f"{rbac}/clusterrolebindings", binding)
    path = f"/api/v1/namespaces/{sandbox.namespace}/serviceaccounts/default/token"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token: str = sandbox.outside.create(path, body)["status"]["token"]
    return token


async def test_without_the_right_to_record_moves_go_on_and_a_warning_says_so_once(
    sandbox: Sandbox, caplog: pytest.LogCaptureFixture
) -> None:
    sandbox.add_nodes("a", "b")
    pods = sandbox.deploy("web", 3)
    token = token_without_records(sandbox)
    with caplog.at_level(logging.WARNING):
        async with controller_on(sandbox.cluster, FORGETFUL, token=token):
            for pod in pods:
                sandbox.migrate(pod, other_node(sandbox, pod))
            await sandbox.until(lambda: not sandbox.all("migrations"), "all are deleted")
    assert sandbox.move_records() == []
    assert sum(map(is_ready, sandbox.pods())) == 3
    (warning,) = [entry for entry in caplog.records if entry.message == WARNING]
    assert "moverecords" in str(warning.__dict__["error"])
    assert "list, watch, create and delete of moverecords" in warning.__dict__["todo"]


async def test_without_their_definition_moves_go_on(
    sandbox: Sandbox, caplog: pytest.LogCaptureFixture
) -> None:
    sandbox.add_nodes("a", "b")
    (pod,) = sandbox.deploy("web", 1)
    missing = answer_with(404, '{"kind":"Status","code":404,"reason":"NotFound","message":"none"}')
    async with FaultProxy(sandbox.cluster.server, str(sandbox.cluster.ca_file)) as proxy:
        proxy.chaos = lambda request: missing if request.path == MOVE_RECORDS else None
        async with controller_on(sandbox.cluster, FORGETFUL, server=proxy.url):
            name = sandbox.migrate(pod, other_node(sandbox, pod))
            await sandbox.until(lambda: sandbox.get("migrations", name) is None, "it is deleted")
    (warning,) = [entry for entry in caplog.records if entry.message == WARNING]
    assert "rescheduler crds | kubectl apply" in warning.__dict__["todo"]


async def test_records_that_cannot_be_listed_do_not_keep_moves_from_going_on(
    sandbox: Sandbox, caplog: pytest.LogCaptureFixture
) -> None:
    sandbox.add_nodes("a", "b")
    (pod,) = sandbox.deploy("web", 1)
    broken = answer_with(500)
    async with FaultProxy(sandbox.cluster.server, str(sandbox.cluster.ca_file)) as proxy:
        proxy.chaos = lambda request: (
            broken if request.path == MOVE_RECORDS and request.method == "GET" else None
        )
        async with controller_on(sandbox.cluster, FORGETFUL, server=proxy.url):
            name = sandbox.migrate(pod, other_node(sandbox, pod))
            await sandbox.until(lambda: sandbox.get("migrations", name) is None, "it is deleted")
    assert WARNING in caplog.messages
    assert [spec["outcome"] for spec in sandbox.move_records()] == ["Landed"]


async def test_the_oldest_records_are_deleted_when_there_are_too_many(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    for left in sandbox.outside.get(MOVE_RECORDS)["items"]:
        sandbox.outside.delete(f"{MOVE_RECORDS}/{left['metadata']['name']}")
    monkeypatch.setattr(record_retention, "MAX_RECORDS", 5)
    for number in range(1, 10):
        finished = f"2026-01-0{number}T00:00:00Z"
        body = record(sandbox, f"{sandbox.namespace}-{number}", finishedAt=finished)
        sandbox.outside.create(MOVE_RECORDS, body)
    monkeypatch.setattr(record_retention, "KEPT", record_retention.KEPT * 1000)
    sandbox.add_nodes("a", "b")
    (pod,) = sandbox.deploy("web", 1)
    async with controller_on(sandbox.cluster, FORGETFUL):
        sandbox.migrate(pod, other_node(sandbox, pod))
        await sandbox.until(
            lambda: len(sandbox.outside.get(MOVE_RECORDS)["items"]) == 5, "there are five"
        )
        await sandbox.until(lambda: not sandbox.all("migrations"), "it is deleted")
    kept = [spec["finishedAt"] for spec in sandbox.move_records()]
    assert kept[:4] == [f"2026-01-0{number}T00:00:00Z" for number in range(6, 10)]
    assert sandbox.move_records()[-1]["pod"] == pod["metadata"]["name"]


def test_a_record_is_not_changed(sandbox: Sandbox) -> None:
    name = f"{sandbox.namespace}-fixed"
    sandbox.outside.create(MOVE_RECORDS, record(sandbox, name))
    with pytest.raises(ApiError, match="a record is not changed"):
        sandbox.outside.patch(f"{MOVE_RECORDS}/{name}", {"spec": {"outcome": "Failed"}})
    sandbox.outside.delete(f"{MOVE_RECORDS}/{name}")


def test_kubectl_shows_what_was_moved(sandbox: Sandbox) -> None:
    name = f"{sandbox.namespace}-shown"
    sandbox.outside.create(MOVE_RECORDS, record(sandbox, name, strategy="LoadBalancing"))
    shown = sandbox.cluster.kubectl("get", "moves", name)
    header, line = shown.splitlines()
    columns = ["NAME", "NAMESPACE", "POD", "FROM", "TO", "OUTCOME", "STRATEGY", "FINISHED"]
    assert header.split() == columns
    assert line.split()[1:7] == [sandbox.namespace, "web-1", "a", "b", "Landed", "LoadBalancing"]
    sandbox.outside.delete(f"{MOVE_RECORDS}/{name}")
