"""`rescheduler history` shows moves that are over, also when their Migrations are gone."""

import asyncio
import io
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from email.utils import format_datetime
from functools import partial
from typing import Any

import pytest
from aiohttp import web
from rich.console import Console

from rescheduler.cli.options import ClusterAccess
from rescheduler.cli.views import history_view
from rescheduler.cli.views.history_view import as_json, counts, print_counts, print_moves
from rescheduler.migration.memory.move_filter import MoveFilter
from rescheduler.migration.memory.move_record import MoveRecord, MoveRecordSpec
from rescheduler.migration.migration_object import WorkloadReference
from rescheduler.model.moves import Mode, Outcome
from rescheduler.model.objects import Identity
from tests.cli.conftest import Result
from tests.kube.faultproxy import Exchange, FaultProxy
from tests.kube.support import eventually
from tests.migration.support import Sandbox, controller_on, other_node

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
POD = {"metadata": {"name": "web-1", "uid": "0"}}
Command = Callable[..., Result]


def record(
    pod: str = "web-1",
    *,
    workload: str = "ReplicaSet/web-5d9",
    template_hash: str = "5d9",
    outcome: Outcome = Outcome.LANDED,
    hours_ago: float = 1.0,
    strategy: str = "LoadBalancing",
    **fields: Any,
) -> MoveRecord:
    kind, _, name = workload.partition("/")
    spec = MoveRecordSpec(
        namespace="shop",
        pod=pod,
        source_node="a.example",
        target_node="b.example",
        outcome=outcome,
        workload=WorkloadReference(kind, name, template_hash=template_hash) if name else None,
        mode=Mode.HANDOFF,
        strategy=strategy,
        **{
            "reason": "b has more room",
            "finished_at": NOW - timedelta(hours=hours_ago),
            **fields,
        },
    )
    return MoveRecord(Identity(name=pod), spec)


@pytest.mark.parametrize(
    ("wanted", "accepted"),
    [
        (MoveFilter(), True),
        (MoveFilter(namespace="shop"), True),
        (MoveFilter(namespace="data"), False),
        (MoveFilter(earliest=NOW - timedelta(hours=1)), True),
        (MoveFilter(earliest=NOW - timedelta(minutes=59)), False),
        (MoveFilter(strategy="LoadBalancing"), True),
        (MoveFilter(strategy="Defragmentation"), False),
        (MoveFilter(workload="web-5d9"), True),
        (MoveFilter(workload="ReplicaSet/web-5d9"), True),
        (MoveFilter(workload="web"), True),
        (MoveFilter(workload="Deployment/web"), True),
        (MoveFilter(workload="ReplicaSet/shop/web-5d9"), True),
        (MoveFilter(workload="Deployment/shop/web"), True),
        (MoveFilter(workload="Deployment/data/web"), False),
        (MoveFilter(workload="StatefulSet/web"), False),
        (MoveFilter(workload="api"), False),
        (MoveFilter(outcome=Outcome.LANDED), True),
        (MoveFilter(outcome=Outcome.FAILED), False),
    ],
)
def test_moves_are_chosen_by_what_is_given(wanted: MoveFilter, accepted: bool) -> None:
    assert wanted.accepts(record()) == accepted


def test_a_pod_without_a_workload_is_of_none() -> None:
    assert not MoveFilter(workload="web").accepts(record(workload=""))
    assert MoveFilter().accepts(record(workload=""))


def test_a_line_says_what_was_moved_and_why_or_how_it_failed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = record("db-0", outcome=Outcome.FAILED, message="new pod not Ready after 120s")
    elsewhere = record("api-1", outcome=Outcome.ELSEWHERE, new_node="c", strategy="")
    for columns in ("80", "200"):
        monkeypatch.setenv("COLUMNS", columns)
        print_moves([record(), failed, elsewhere])
        printed = " ".join(capsys.readouterr().out.split())
        assert "2026-03-01 11:00 shop/web-1 a → b" in printed
        assert "b has more room" in printed
        assert "new pod not Ready after 120s" in printed
        assert "elsewhere (c)" in printed
        assert "by hand" in printed


def test_what_tenants_write_cannot_control_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    print_moves([record(reason="\x1b[2Jgone", strategy="x\ny")])
    printed = capsys.readouterr().out
    assert "\x1b[2J" not in printed
    assert "x\\ny" in printed


def test_moves_are_counted_by_day_strategy_and_workload(
    capsys: pytest.CaptureFixture[str],
) -> None:
    records = [
        record(),
        record(outcome=Outcome.FAILED, hours_ago=30, strategy=""),
        record(outcome=Outcome.CAME_BACK, workload=""),
    ]
    ended = {"Landed": 0, "Elsewhere": 0, "CameBack": 0, "Failed": 0}
    assert counts(records, "day") == [
        {"day": "2026-02-28", "moves": 1, **ended, "Failed": 1},
        {"day": "2026-03-01", "moves": 2, **ended, "Landed": 1, "CameBack": 1},
    ]
    assert [row["strategy"] for row in counts(records, "strategy")] == ["LoadBalancing", "by hand"]
    workloads = [row["workload"] for row in counts(records, "workload")]
    assert workloads == ["Deployment/shop/web", "shop/web-1"]
    print_counts(records, "day")
    assert "2026-03-01" in capsys.readouterr().out
    print_counts([], "day")
    assert capsys.readouterr().out == "No moves.\n"


@pytest.mark.parametrize("width", [80, 200])
def test_a_terminal_without_arrows_gets_none(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    screen = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="backslashreplace")
    monkeypatch.setattr(history_view, "console", lambda: Console(file=screen, width=width))
    print_moves([record()])
    screen.flush()
    assert b"a -> b" in screen.buffer.getvalue()
    assert b"\\u2192" not in screen.buffer.getvalue()


def test_times_are_those_of_utc_whoever_wrote_them(capsys: pytest.CaptureFixture[str]) -> None:
    far = datetime(2026, 3, 1, 23, 30, tzinfo=timezone(timedelta(hours=-5)))
    records = [record(finished_at=far)]
    print_moves(records)
    assert capsys.readouterr().out.startswith("2026-03-02 04:30  shop/web-1")
    assert [row["day"] for row in counts(records, "day")] == ["2026-03-02"]
    last = datetime.max.replace(tzinfo=timezone(timedelta(hours=-5)))
    assert [row["day"] for row in counts([record(finished_at=last)], "day")] == ["9999-12-31"]


def test_a_deployment_is_one_workload_through_all_its_rollouts() -> None:
    earlier, later = record(), record(workload="ReplicaSet/web-7c4b6d", template_hash="7c4b6d")
    others = record(workload="ReplicaSet/web-5d9-x"), record(workload="StatefulSet/web-5d9")
    rows = counts([earlier, later, *others], "workload")
    assert [(row["workload"], row["moves"]) for row in rows] == [
        ("Deployment/shop/web", 2),
        ("ReplicaSet/shop/web-5d9-x", 1),
        ("StatefulSet/shop/web-5d9", 1),
    ]
    assert MoveFilter(workload="Deployment/web").accepts(later)


def test_json_has_every_field() -> None:
    (found,) = as_json([record()])
    assert found["outcome"] == "Landed"
    assert found["workload"] == "ReplicaSet/shop/web-5d9"
    assert found["finishedAt"] == NOW - timedelta(hours=1)


async def test_a_move_is_shown_when_its_migration_is_gone(
    sandbox: Sandbox, command: Command
) -> None:
    sandbox.add_nodes("a", "b")
    (old,) = sandbox.deploy("web", 1)
    target = other_node(sandbox, old)
    async with controller_on(sandbox.cluster):
        name = sandbox.migrate(old, target, reason="for the test")
        await sandbox.finished(name)
        await eventually(lambda: sandbox.move_records(), "it is recorded")
    access = ("--kubeconfig", sandbox.cluster.kubeconfig, "-n", sandbox.namespace)
    history = partial(asyncio.to_thread, command, "history", *access)
    before = await history("-o", "json")
    sandbox.outside.delete(sandbox.path("migrations", name))
    after = await history("-o", "json")
    assert (after.code, after.out) == (0, before.out), after.err
    (move,) = json.loads(after.out)["moves"]
    assert (move["pod"], move["targetNode"]) == (old["metadata"]["name"], target)
    assert (move["outcome"], move["reason"]) == ("Landed", "for the test")
    text = await history("--workload", "web", "--since", "1h")
    assert "for the test" in text.out
    assert (await history("--outcome", "Failed")).out == "No moves.\n"
    by_day = await history("--by", "day", "-o", "json")
    (day,) = json.loads(by_day.out)["byDay"]
    assert day["Landed"] == 1
    for by in ("workload", "strategy"):
        counted = await history("--by", by, "-o", "json")
        (group,) = json.loads(counted.out)[f"by{by.title()}"]
        same = await history(f"--{by}", group[by], "-o", "json")
        assert same.out == after.out, group
    ever = await history("--since", "99999999h", "-o", "json")
    assert (ever.code, ever.out) == (0, after.out), ever.err


async def test_how_long_ago_a_move_was_is_counted_by_the_clock_of_the_server(
    sandbox: Sandbox, proxy: FaultProxy, access: ClusterAccess, command: Command
) -> None:
    """It is an hour behind ours, and so are those who wrote down when the move ended."""
    hour_ago = datetime.now(UTC) - timedelta(hours=1)

    async def from_an_hour_ago(exchange: Exchange) -> web.StreamResponse:
        async with exchange.server_answer() as answer:
            headers = {"Date": format_datetime(hour_ago, usegmt=True)}
            return web.Response(
                status=answer.status,
                body=await answer.read(),
                content_type=answer.content_type,
                headers=headers,
            )

    path = sandbox.path("migrations", sandbox.migrate(POD, "b")) + "/status"
    ended = f"{hour_ago - timedelta(minutes=5):%Y-%m-%dT%H:%M:%SZ}"
    ending = {"phase": "Completed", "outcome": "Landed", "finishedAt": ended}
    sandbox.outside.patch(path, {"status": ending})
    proxy.chaos = lambda request: from_an_hour_ago
    options = ("--kubeconfig", access.kubeconfig, "-n", sandbox.namespace, "-o", "json")
    history = partial(asyncio.to_thread, command, "history", *options)
    assert len(json.loads((await history("--since", "10m")).out)["moves"]) == 1
    assert json.loads((await history("--since", "4m")).out)["moves"] == []


def test_a_time_that_is_none_is_an_error_for_people(command: Command) -> None:
    wrong = command("history", "--since", "yesterday")
    assert wrong.code == 2
    assert "--since 'yesterday': expected a duration" in wrong.err
