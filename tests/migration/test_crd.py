"""The API server rejects invalid Migrations."""

from typing import Any

import pytest

from testcluster.client import ApiError, JsonObject
from tests.migration.support import Corner

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
    corner: Corner, spec: dict[str, Any], complaint: str
) -> None:
    wanted = {"targetNode": "a", **spec}
    with pytest.raises(ApiError, match="422") as refusal:
        corner.migrate(POD, wanted.pop("targetNode"), **wanted)
    assert complaint in str(refusal.value)


@pytest.mark.parametrize(
    "change", [{"targetNode": "b"}, {"pod": {"name": "web-2", "uid": "4"}}, {"mode": "Evict"}]
)
def test_what_is_moved_where_cannot_be_changed(corner: Corner, change: dict[str, Any]) -> None:
    name = corner.migrate(POD, "a")
    with pytest.raises(ApiError, match="is immutable"):
        corner.outside.patch(corner.path("migrations", name), {"spec": change})


def test_it_can_be_paused_and_kept_for_longer(corner: Corner) -> None:
    path = corner.path("migrations", corner.migrate(POD, "a"))
    spec = {"paused": True, "ttlSecondsAfterFinished": 5, "timeoutSeconds": 7}
    assert corner.outside.patch(path, {"spec": spec})["spec"]["paused"] is True


def test_what_has_finished_stays_finished(corner: Corner) -> None:
    path = corner.path("migrations", corner.migrate(POD, "a")) + "/status"
    corner.outside.patch(path, {"status": {"phase": "Failed"}})
    with pytest.raises(ApiError, match="stays finished"):
        corner.outside.patch(path, {"status": {"phase": "Pending"}})


def test_kubectl_shows_the_progress(corner: Corner) -> None:
    corner.migrate(POD, "worker-3")
    shown = corner.cluster.kubectl("get", "mig", "--namespace", corner.namespace)
    header, line = shown.splitlines()
    columns = ["NAME", "POD", "FROM", "TO", "MODE", "PHASE", "STEP", "OUTCOME", "AGE", "MESSAGE"]
    assert header.split() == columns
    assert line.split()[1:4] == ["web-1", "worker-3", "Pending"]
    assert line.endswith("waiting to be started")


def test_what_the_command_prints_is_what_kubectl_applies(
    corner: Corner, capfd: pytest.CaptureFixture[str]
) -> None:
    from rescheduler.cli import run

    assert run("rescheduler", ["crds"]) == 0
    printed = capfd.readouterr().out
    apply = ("apply", "--server-side", "--force-conflicts", "-f", "-")
    applied = corner.cluster.kubectl(*apply, input=printed)
    assert "migrations.rescheduler.dev serverside-applied" in applied
