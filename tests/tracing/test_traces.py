"""A migration is one trace, with a span per step, also if another controller finishes it."""

import asyncio
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import pytest
from msgspec.structs import replace
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from rescheduler.errors import SettingsError
from rescheduler.migration.migration_object import (
    Migration,
    MigrationMeta,
    MigrationSpec,
    MigrationStatus,
    Phase,
    PodReference,
    Step,
)
from rescheduler.model.moves import Mode, Outcome
from rescheduler.tracing.migration_spans import MigrationSpan, ended_spans
from rescheduler.tracing.span_exporter import SpanExporter
from rescheduler.tracing.switch import span_exporter
from testcluster.client import JsonObject
from tests.migration.support import Sandbox, node_of, set_running
from tests.tracing.collector import Collector, attributes, collecting

UID = "3f1b6c1e-5c1d-4a5e-9a3b-0d5a7e1c2b4f"
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
CREATED = MigrationMeta(name="move", namespace="shop", uid=UID, creation_timestamp=NOW)
SPEC = MigrationSpec(PodReference("web-1"), "b", strategy="LoadBalancing", reason="more room")


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def in_step(step: Step, seconds: float, **fields: object) -> MigrationStatus:
    given = {"attempts": 1, "mode": Mode.HANDOFF, "source_node": "a", **fields}
    return MigrationStatus(
        phase=Phase.IN_PROGRESS,
        step=step,
        step_started_at=at(seconds),
        **given,  # type: ignore[arg-type]
    )


def spans_of(*changes: tuple[float, MigrationStatus]) -> list[MigrationSpan]:
    """The spans of a migration that is given one status after the other."""
    migration = Migration(CREATED, SPEC)
    found: list[MigrationSpan] = []
    for seconds, status in changes:
        found += ended_spans(migration, status, at(seconds))
        migration = replace(migration, status=status)
    return found


FINISHED = MigrationStatus(
    phase=Phase.COMPLETED, outcome=Outcome.LANDED, finished_at=at(9), attempts=1, source_node="a"
)


def test_a_migration_has_a_span_and_a_child_for_each_step() -> None:
    spans = spans_of(
        (2, in_step(Step.STARTING, 2)),
        (3, in_step(Step.STARTING, 2, message="still waiting")),
        (7, in_step(Step.HANDING_OVER, 7)),
        (9, FINISHED),
    )
    times = [(span.name, span.start, span.end) for span in spans]
    assert times == [
        ("Waiting", at(0), at(2)),
        ("Starting", at(2), at(7)),
        ("HandingOver", at(7), at(9)),
        ("Migration", at(0), at(9)),
    ]
    *steps, whole = spans
    assert whole.parent_id is None
    assert {span.parent_id for span in steps} == {whole.span_id}
    assert {span.trace_id for span in spans} == {UUID(UID).int}
    assert len({span.span_id for span in spans}) == 4
    assert whole.attributes["rescheduler.outcome"] == "Landed"
    assert whole.attributes["rescheduler.strategy"] == "LoadBalancing"
    assert steps[1].attributes["rescheduler.mode"] == "Handoff"
    assert [span.error for span in spans] == [""] * 4


def test_a_step_that_fails_says_why_and_so_does_the_migration() -> None:
    failed = replace(FINISHED, phase=Phase.FAILED, outcome=Outcome.FAILED, message="no room")
    undoing = in_step(Step.UNDOING, 5, message="no room")
    spans = spans_of((2, in_step(Step.STARTING, 2)), (5, undoing), (9, failed))
    errors = {span.name: span.error for span in spans}
    assert errors == {"Waiting": "", "Starting": "no room", "Undoing": "", "Migration": "no room"}


def test_each_attempt_has_spans_of_its_own() -> None:
    waiting = MigrationStatus(phase=Phase.PENDING, attempts=1)
    spans = spans_of(
        (2, in_step(Step.STARTING, 2)),
        (5, waiting),
        (30, in_step(Step.STARTING, 30, attempts=2)),
        (40, FINISHED),
    )
    names = [span.name for span in spans]
    assert names == ["Waiting", "Starting", "Starting", "Migration"]
    assert len({span.span_id for span in spans}) == 4


def test_a_migration_without_a_uid_has_no_trace() -> None:
    nameless = Migration(replace(CREATED, uid="uid-1"), SPEC)
    assert list(ended_spans(nameless, FINISHED, at(1))) == []


# ---------------------------------------------------------------- on or off


def test_traces_are_off_unless_somebody_asks_for_them() -> None:
    assert span_exporter(None, {}) is None
    asked = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}
    assert span_exporter(None, {**asked, "OTEL_SDK_DISABLED": "true"}) is None
    with pytest.raises(SettingsError, match="expected the URL of an OTLP/HTTP collector"):
        span_exporter("localhost:4318", {})


def test_without_the_extra_the_option_says_what_to_install_and_a_variable_only_warns(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.resources", None)
    monkeypatch.delitem(sys.modules, "rescheduler.tracing.span_exporter")
    with pytest.raises(SettingsError, match=r"pip install 'kube-rescheduler\[tracing\]'"):
        span_exporter("http://127.0.0.1:1", {})
    with caplog.at_level(logging.WARNING):
        assert span_exporter(None, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}) is None
    assert caplog.messages == ["Went on without traces"]


def test_nothing_of_opentelemetry_is_imported_while_traces_are_off() -> None:
    code = (
        "import sys; import rescheduler.cli.commands.run, rescheduler.controller.program; "
        "from rescheduler.tracing.switch import span_exporter; span_exporter(None, {}); "
        "sys.exit(any(name.startswith('opentelemetry') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_collector_gets_the_spans_over_the_wire(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.name=mine")
    with collecting() as collector:
        exporter = SpanExporter(collector.url)
        exporter.migration_updated(Migration(CREATED, SPEC), FINISHED, at(9))
        exporter.close()
    assert (set(collector.paths), collector.services) == ({"/v1/traces"}, {"mine"})
    whole = collector.spans[-1]
    assert (whole.name, whole.trace_id.hex()) == ("Migration", UUID(UID).hex)
    assert whole.start_time_unix_nano == int(NOW.timestamp()) * 10**9
    assert whole.end_time_unix_nano - whole.start_time_unix_nano == 9 * 10**9
    assert attributes(whole)["k8s.pod.name"] == "web-1"


# ---------------------------------------------------------------- on a cluster


async def test_a_migration_is_one_trace_even_if_its_controller_is_killed(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    sandbox.add_nodes("a")
    (old,) = sandbox.deploy("web", 1)
    # Nothing becomes Ready there by itself, so the step lasts until the test ends it.
    (target,) = sandbox.add_nodes("still", managed=False)
    with collecting() as collector:
        with controller(sandbox, tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT=collector.url) as first:
            name = sandbox.migrate(old, target, strategy="LoadBalancing")
            await sandbox.until(lambda: pods_on(sandbox, target), "the new pod is placed")
            await sandbox.until(lambda: named(collector, "Waiting"), "the first span is sent")
            first.kill()
        with controller(sandbox, tmp_path, f"--trace-endpoint={collector.url}") as second:
            (new,) = pods_on(sandbox, target)
            set_running(sandbox, new)
            (status,) = await sandbox.finished(name)
            second.terminate()
            assert await asyncio.to_thread(second.wait, 60) == 0
    uid = sandbox.outside.get(sandbox.path("migrations", name))["metadata"]["uid"]
    assert {span.trace_id.hex() for span in collector.spans} == {UUID(uid).hex}
    (whole,) = named(collector, "Migration")
    steps = [span for span in collector.spans if span is not whole]
    assert {span.name for span in steps} == {"Waiting", "Starting", "HandingOver"}
    assert {span.parent_span_id for span in steps} == {whole.span_id}
    found = attributes(whole)
    assert found["rescheduler.source_node"] == node_of(old)
    assert (found["rescheduler.target_node"], found["rescheduler.mode"]) == (target, "Handoff")
    assert (found["rescheduler.outcome"], status["outcome"]) == ("Landed", "Landed")
    assert all(whole.start_time_unix_nano <= span.start_time_unix_nano for span in steps)
    assert collector.services == {"rescheduler"}


@contextmanager
def controller(
    sandbox: Sandbox, directory: Path, *options: str, **environment: str
) -> Iterator["subprocess.Popen[bytes]"]:
    """`rescheduler run`, which plans nothing; it ends with the block."""
    policy = directory / "policy.yaml"
    policy.write_text("enabledStrategies: []")
    access = ("--kubeconfig", sandbox.cluster.kubeconfig, "--no-leader-election")
    program = Path(sys.executable).with_name("rescheduler")
    with (directory / "log").open("ab") as log:
        process = subprocess.Popen(
            [program, "run", "--policy", policy, *access, *options],
            env={**os.environ, "OTEL_BSP_SCHEDULE_DELAY": "100", **environment},
            stdout=log,
            stderr=log,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def pods_on(sandbox: Sandbox, node: str) -> list[JsonObject]:
    return [pod for pod in sandbox.pods() if node_of(pod) == node]


def named(collector: Collector, name: str) -> list[Span]:
    return [span for span in collector.spans if span.name == name]
