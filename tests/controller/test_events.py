"""Events read as sentences, are counted when they repeat, and say how far a node is emptied."""

import asyncio
import logging
import re
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from rescheduler.controller.events.migration_events import WARNINGS, sentence
from rescheduler.controller.events.node_events import MaintenanceReporter, is_stuck, pods_stay
from rescheduler.kube.client import Client
from rescheduler.kube.event_recorder import EventRecorder, about_pod
from rescheduler.kube.live_store import cancel
from rescheduler.log_context import MigrationFields, about_migration
from rescheduler.migration.migration_object import (
    Migration,
    MigrationMeta,
    MigrationSpec,
    MigrationStatus,
    PodReference,
)
from rescheduler.migration.state_machine.actions import MigrationEvent
from rescheduler.model.moves import Mode, Outcome
from rescheduler.model.rules.node_availability import DEFAULT_MAINTENANCE_LABEL, NodeLabel
from rescheduler.planning.context import MoveInFlight, PastMove, PlanningContext
from rescheduler.planning.movability.blocker import PASSING
from rescheduler.planning.plan import BlockedPod
from rescheduler.planning.planner import make_plan
from rescheduler.planning.strategies import empties_maintenance_nodes
from rescheduler.settings import NodeMaintenanceOptions, Policy, StrategyName
from rescheduler.status.reasons import BLOCKER_ADVICE
from testcluster.builders import daemonset, deployment, node, pod, replicaset
from testcluster.client import JsonObject
from testcluster.snapshots import snapshot_of
from tests.controller.test_planning_loop import planning_loop_on, set_maintenance
from tests.extender.extender_requests import RecordedEvents
from tests.kube.support import QUICK_CLIENT, credentials
from tests.migration.support import Sandbox, client_for, node_of
from tests.planning.test_planner import MAINTENANCE

MIGRATION = Migration(
    MigrationMeta(name="move-web-1", namespace="shop", uid="u"),
    MigrationSpec(PodReference("web-1"), "b", reason="a is above 80% of its CPU"),
)
STATUS = MigrationStatus(
    mode=Mode.HANDOFF,
    attempts=1,
    source_node="a",
    new_pod="web-2",
    new_node="b",
    outcome=Outcome.LANDED,
    message="new pod web-2 is not Ready after 120s",
)
STATUSES = [
    STATUS,
    MigrationStatus(message="the pod is gone"),
    MigrationStatus(mode=Mode.EVICT, source_node="a", new_node="c", outcome=Outcome.ELSEWHERE),
    MigrationStatus(mode=Mode.EVICT, source_node="a", new_node="a", outcome=Outcome.CAME_BACK),
]


def is_sentence(text: str) -> bool:
    """Whether it begins with a capital letter, ends with a full stop, and has no fields."""
    return bool(re.fullmatch(r"[A-Z][^\n]*[^\s.;:,=]\.", text)) and "=" not in text


@pytest.mark.parametrize("status", STATUSES, ids=lambda status: str(status.outcome) or "none")
@pytest.mark.parametrize("event", MigrationEvent)
def test_events_of_migrations_are_sentences_that_name_the_pod_and_the_node(
    event: MigrationEvent, status: MigrationStatus
) -> None:
    said = sentence(MIGRATION, event, status)
    assert is_sentence(said), said
    assert "shop/web-1" in said
    assert len(said) < 200
    if status.source_node:
        assert "node a" in said
    if event in WARNINGS:
        assert status.message in said, "the reason"


def test_a_started_move_says_from_where_to_where_how_and_why() -> None:
    assert sentence(MIGRATION, MigrationEvent.STARTED, STATUS) == (
        "Started to move pod shop/web-1 from node a to node b by handoff: "
        "a is above 80% of its CPU."
    )


def test_pods_that_stay_are_named_with_the_reason_but_only_a_few() -> None:
    one = pods_stay("a", {"shop/x": "it has no controller"})
    assert one == "Node a keeps a pod that cannot be moved: shop/x (it has no controller)."
    many = pods_stay("a", {f"shop/x{number}": "it has no controller" for number in range(9)})
    assert many.endswith("shop/x2 (it has no controller), and 6 more.")
    assert is_sentence(many)


# ---------------------------------------------------------------- nodes


def reported(reporter: MaintenanceReporter, recorder: RecordedEvents, objects: Any) -> list[str]:
    """The Events of one round."""
    recorder.events.clear()
    snapshot = snapshot_of(objects)
    reporter.report(snapshot, make_plan(snapshot, MAINTENANCE), DEFAULT_MAINTENANCE_LABEL)
    assert all(is_sentence(message.replace("=true", "")) for _, _, message in recorder.events)
    return [reason for name, reason, _ in recorder.events]


def labelled(name: str, value: str = "true") -> JsonObject:
    label = DEFAULT_MAINTENANCE_LABEL
    return node(name, labels={label.key: value})


def test_a_node_is_reported_when_it_is_to_be_emptied_stuck_empty_and_back() -> None:
    owner = deployment("shop/web", replicas=1)
    owned = replicaset("shop/web-5d", replicas=1, owner=owner)
    agents = daemonset("shop/agent")
    agent = pod("shop/agent-1", on="a", owner=agents)
    web, bare = pod("shop/web-5d-1", on="a", owner=owned), pod("shop/bare", on="a")
    common = [owner, owned, agents, agent, node("b")]
    recorder = RecordedEvents()
    reporter = MaintenanceReporter(recorder)
    assert reported(reporter, recorder, [*common, node("a"), web, bare]) == []
    under = [*common, labelled("a")]
    assert reported(reporter, recorder, [*under, web, bare]) == ["MaintenanceStarted"]
    assert reported(reporter, recorder, [*under, web, bare]) == []
    assert reported(reporter, recorder, [*under, bare]) == ["PodsStay"]
    assert "shop/bare" in recorder.events[0][2]
    assert "agent" not in recorder.events[0][2], "it belongs to the node"
    assert reported(reporter, recorder, [*under, bare]) == [], "once is enough"
    assert reported(reporter, recorder, under) == ["NodeEmptied"]
    assert reported(reporter, recorder, under) == []
    assert reported(reporter, recorder, [*common, labelled("a", "no")]) == ["MaintenanceEnded"]
    assert reported(reporter, recorder, [*under]) == [], "it was empty from the beginning"
    assert reported(reporter, recorder, common) == [], "a node that is deleted ends nothing"


def test_a_labelled_node_is_reported_only_while_a_strategy_empties_nodes() -> None:
    balancing = Policy(enabled_strategies=(StrategyName.LOAD_BALANCING,))
    uncordoned = msgspec.structs.replace(
        MAINTENANCE, node_maintenance=NodeMaintenanceOptions(cordon=False)
    )
    assert not empties_maintenance_nodes(balancing, {})
    assert empties_maintenance_nodes(uncordoned, {})
    snapshot = snapshot_of([labelled("a"), node("b"), pod("shop/bare", on="a")])
    recorder = RecordedEvents()
    reporter = MaintenanceReporter(recorder)
    plan = make_plan(snapshot, MAINTENANCE)
    reporter.report(snapshot, plan, None)
    assert recorder.events == []
    reporter.report(snapshot, plan, DEFAULT_MAINTENANCE_LABEL)
    assert [reason for _, reason, _ in recorder.events] == ["MaintenanceStarted", "PodsStay"]


def test_the_end_of_maintenance_names_the_label_that_was_meant() -> None:
    old, new = DEFAULT_MAINTENANCE_LABEL, NodeLabel("example.com/repair=true")
    under, plain = snapshot_of([labelled("a"), node("b")]), snapshot_of([node("a"), node("b")])
    plan = make_plan(under, MAINTENANCE)
    for after, why in (
        (plain, f"its label {old} is gone"),
        (under, f"the policy's label is {new} now, not {old}"),
    ):
        recorder = RecordedEvents()
        reporter = MaintenanceReporter(recorder)
        reporter.report(under, plan, old)
        reporter.report(after, plan, new)
        ((_, reason, message),) = recorder.events
        assert reason == "MaintenanceEnded"
        assert message == f"Node a is no longer under maintenance: {why}."


def test_pods_on_their_way_or_waiting_for_their_turn_are_no_pods_that_stay() -> None:
    owner = replicaset("shop/web", replicas=2)
    web = [pod(f"shop/web-{number}", on="a", owner=owner) for number in range(2)]
    snapshot = snapshot_of([labelled("a"), node("b"), owner, *web, pod("shop/bare", on="a")])
    flying = tuple(MoveInFlight(f"shop/web-{number}", "b") for number in range(2))
    plan = make_plan(snapshot, MAINTENANCE, PlanningContext(in_flight=flying))
    found = {blocked.pod: blocked.blocker for blocked in plan.blocked}
    assert found == {
        "shop/web-0": "BeingMigrated",
        "shop/web-1": "BeingMigrated",
        "shop/bare": "BarePod",
    }
    recorder = RecordedEvents()
    MaintenanceReporter(recorder).report(snapshot, plan, DEFAULT_MAINTENANCE_LABEL)
    assert [reason for _, reason, _ in recorder.events] == ["MaintenanceStarted"]


def test_pods_that_stay_are_reported_once_though_the_reason_says_for_how_long_it_holds() -> None:
    owner = deployment("shop/web", replicas=1)
    owned = replicaset("shop/web-5d", replicas=1, owner=owner)
    web = pod("shop/web-5d-1", on="a", owner=owned)
    snapshot = snapshot_of([owner, owned, labelled("a"), node("b"), web, pod("shop/bare", on="a")])
    landed = PastMove("shop/web-5d-0", "ReplicaSet/shop/web-5d", "b", "a", Outcome.LANDED, 100.0)
    recorder = RecordedEvents()
    reporter = MaintenanceReporter(recorder)
    for now in (110.0, 140.0):
        plan = make_plan(snapshot, MAINTENANCE, PlanningContext(now=now, history=(landed,)))
        reporter.report(snapshot, plan, DEFAULT_MAINTENANCE_LABEL)
    assert [reason for _, reason, _ in recorder.events] == ["MaintenanceStarted", "PodsStay"]
    assert "ended here 10 s ago" in recorder.events[1][2]


@pytest.mark.parametrize("blocker", sorted(PASSING))
def test_a_blocker_that_passes_is_known_and_makes_no_pod_stay(blocker: str) -> None:
    assert blocker in BLOCKER_ADVICE
    assert not is_stuck(BlockedPod("shop/web", blocker, ""))
    assert is_stuck(BlockedPod("shop/web", "BarePod", ""))


async def test_each_line_about_sending_an_event_of_a_migration_names_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    nobody = credentials("http://127.0.0.1:1", "token")
    async with Client(nobody, QUICK_CLIENT) as client:
        recorder = EventRecorder(client)
        running = asyncio.create_task(recorder.run())
        with caplog.filtering(MigrationFields()):
            with about_migration("shop/move"):
                recorder.record(about_pod("shop", "web-1", "1"), "Tried", "Tried it.")
            await recorder.flush(60)
        await cancel([running])
    found = {(record.getMessage(), vars(record).get("migration")) for record in caplog.records}
    assert found == {
        ("Failed a call and will repeat it", "shop/move"),
        ("Failed to send an Event", "shop/move"),
    }


# ---------------------------------------------------------------- on a cluster


def own_events(sandbox: Sandbox, about: str, namespace: str = "") -> list[JsonObject]:
    path = f"/api/v1/namespaces/{namespace or sandbox.namespace}/events"
    found = sandbox.outside.get(path)["items"]
    return [
        event
        for event in found
        if event["involvedObject"]["name"] == about
        and event.get("source", {}).get("component") == "rescheduler"
    ]


async def test_a_repeated_event_is_counted_and_one_that_was_deleted_is_created_again(
    sandbox: Sandbox,
) -> None:
    about = about_pod(sandbox.namespace, "web-1", "uid-1")
    async with client_for(sandbox.cluster) as client:
        recorder = EventRecorder(client)
        for number in range(3):
            await recorder.send(about, "Tried", f"Tried it {number} times.", warning=True)
        (event,) = own_events(sandbox, "web-1")
        assert (event["count"], event["message"]) == (3, "Tried it 2 times.")
        assert (event["type"], event["firstTimestamp"]) == ("Warning", event["firstTimestamp"])
        name = event["metadata"]["name"]
        sandbox.outside.delete(f"/api/v1/namespaces/{sandbox.namespace}/events/{name}")
        await recorder.send(about, "Tried", "Tried it 4 times.", warning=True)
        (event,) = own_events(sandbox, "web-1")
        assert (event["count"], event["message"]) == (4, "Tried it 4 times.")


async def test_an_event_that_cannot_be_encoded_does_not_keep_others_from_being_sent(
    sandbox: Sandbox,
) -> None:
    async with client_for(sandbox.cluster) as client:
        recorder = EventRecorder(client)
        running = asyncio.create_task(recorder.run())
        half_a_character = "\ud800"
        recorder.record(about_pod(sandbox.namespace, "web-1", "1"), half_a_character, "Tried it.")
        recorder.record(about_pod(sandbox.namespace, "web-2", "2"), "Tried", "Tried it.")
        await recorder.flush(60)
        assert not running.done()
        await cancel([running])
    assert own_events(sandbox, "web-1") == []
    (event,) = own_events(sandbox, "web-2")
    assert event["message"] == "Tried it."


async def test_rounds_report_on_nodes_and_dry_runs_do_not(sandbox: Sandbox) -> None:
    (name,) = sandbox.add_nodes("a")
    (found,) = sandbox.deploy("web", 1)
    assert node_of(found) == name
    set_maintenance(sandbox, name, "true")
    async with planning_loop_on(sandbox, dry_run=True) as loop:
        await run_for_one_round(loop)
    assert own_events(sandbox, name, "default") == []
    async with planning_loop_on(sandbox) as loop:
        await run_for_one_round(loop)
    started, stays = sorted(own_events(sandbox, name, "default"), key=lambda e: str(e["reason"]))
    assert (started["reason"], stays["reason"]) == ("MaintenanceStarted", "PodsStay")
    assert "1 pod has to leave it" in started["message"]
    assert found["metadata"]["name"] in stays["message"]
    uid = sandbox.outside.get(f"/api/v1/nodes/{name}")["metadata"]["uid"]
    assert started["involvedObject"]["uid"] == uid
    set_maintenance(sandbox, name, None)


async def run_for_one_round(loop: Any) -> None:
    """Run the loop until it has finished a round, and stop it: that sends its Events."""
    finished = asyncio.Event()
    loop.subscribe(lambda done: finished.set())
    running = asyncio.create_task(loop.run())
    try:
        async with asyncio.timeout(60):
            await finished.wait()
            loop.stop()
            await running
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
