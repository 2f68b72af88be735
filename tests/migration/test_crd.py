"""The API server rejects invalid Migrations."""

from typing import Any

import pytest

from testcluster.client import ApiError, JsonObject
from tests.migration.support import Sandbox

POD: JsonObject = {"metadata": {"name": "web-1", "uid": "0123"}}


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ({"pod": {"name": "web-1"}}, "spec.pod.uid: Required value"),
        ({"pod": {"uid": "0123"}}, "spec.pod.name: Required value"),
        ({"pod": {"name": "Web_1", "uid": "0123"}}, "spec.pod.name"),
        ({"targetNode": ""}, "spec.targetNode"),
        ({"targetNode": None}, "spec.targetNode: Required value"),
        ({"mode": "Teleport"}, 'Unsupported value: "Teleport"'),
        ({"timeoutSeconds": 0}, "should be greater than or equal to 1"),
        ({"timeoutSeconds": "soon"}, "must be of type integer"),
        ({"ttlSecondsAfterFinished": -1}, "should be greater than or equal to 0"),
    ],
)
def test_invalid_migrations_are_rejected(
    sandbox: Sandbox, spec: dict[str, Any], complaint: str
) -> None:
    wanted = {"targetNode": "a", **spec}
    with pytest.raises(ApiError, match="422") as refusal:
        sandbox.migrate(POD, wanted.pop("targetNode"), **wanted)
    assert complaint in str(refusal.value)


@pytest.mark.parametrize(
    "change", [{"targetNode": "b"}, {"pod": {"name": "web-2", "uid": "4"}}, {"mode": "Evict"}]
)
def test_what_is_moved_where_cannot_be_changed(sandbox: Sandbox, change: dict[str, Any]) -> None:
    name = sandbox.migrate(POD, "a")
    with pytest.raises(ApiError, match="is immutable"):
        sandbox.outside.patch(sandbox.path("migrations", name), {"spec": change})


def test_it_can_be_paused_and_kept_for_longer(sandbox: Sandbox) -> None:
    path = sandbox.path("migrations", sandbox.migrate(POD, "a"))
    spec = {"paused": True, "ttlSecondsAfterFinished": 5, "timeoutSeconds": 7}
    assert sandbox.outside.patch(path, {"spec": spec})["spec"]["paused"] is True


def test_what_has_finished_stays_finished(sandbox: Sandbox) -> None:
    path = sandbox.path("migrations", sandbox.migrate(POD, "a")) + "/status"
    sandbox.outside.patch(path, {"status": {"phase": "Failed"}})
    with pytest.raises(ApiError, match="stays finished"):
        sandbox.outside.patch(path, {"status": {"phase": "Pending"}})


@pytest.mark.parametrize(
    ("time", "is_accepted"),
    [
        ("2026-11-19T06:10:00Z", True),
        ("2026-11-19T06:10:00.123456Z", True),
        ("2026-11-19T06:10:00-05:30", True),
        ("0000-01-01T00:00:00Z", False),
        ("0001-01-01T00:00:00+12:00", False),
        ("9999-12-31T23:59:59Z", False),
        ("2026-11-19T06:10:00+99:99", False),
    ],
)
def test_a_time_that_nobody_can_reckon_with_is_rejected(
    sandbox: Sandbox, time: str, is_accepted: bool
) -> None:
    """A Migration or a record that cannot be decoded would keep all others from being read."""
    path = sandbox.path("migrations", sandbox.migrate(POD, "a")) + "/status"
    status = {"phase": "Failed", "finishedAt": time}
    record = {
        "apiVersion": "rescheduler.dev/v1alpha1",
        "kind": "MoveRecord",
        "metadata": {"name": f"{sandbox.namespace}-record"},
        "spec": {
            "namespace": sandbox.namespace,
            "pod": "web-1",
            "sourceNode": "a",
            "targetNode": "b",
            "outcome": "Landed",
            "finishedAt": time,
        },
    }
    records = "/apis/rescheduler.dev/v1alpha1/moverecords"
    if is_accepted:
        sandbox.outside.patch(path, {"status": status})
        sandbox.outside.create(records, record)
        sandbox.outside.delete(f"{records}/{sandbox.namespace}-record")
        return
    with pytest.raises(ApiError, match="finishedAt in body should match"):
        sandbox.outside.patch(path, {"status": status})
    with pytest.raises(ApiError, match="finishedAt in body should match"):
        sandbox.outside.create(records, record)


def test_kubectl_shows_the_progress(sandbox: Sandbox) -> None:
    sandbox.migrate(POD, "worker-3")
    shown = sandbox.cluster.kubectl("get", "mig", "--namespace", sandbox.namespace)
    header, line = shown.splitlines()
    columns = ["NAME", "POD", "FROM", "TO", "MODE", "PHASE", "STEP", "OUTCOME", "AGE", "MESSAGE"]
    assert header.split() == columns
    assert line.split()[1:4] == ["web-1", "worker-3", "Pending"]
    assert line.endswith("waiting to be started")


def test_what_the_command_prints_is_what_kubectl_applies(
    sandbox: Sandbox, capfd: pytest.CaptureFixture[str]
) -> None:
    from rescheduler.cli import run

    assert run("rescheduler", ["crds"]) == 0
    printed = capfd.readouterr().out
    apply = ("apply", "--server-side", "--force-conflicts", "-f", "-")
    applied = sandbox.cluster.kubectl(*apply, input=printed)
    assert "migrations.rescheduler.dev serverside-applied" in applied
    assert "moverecords.rescheduler.dev serverside-applied" in applied
