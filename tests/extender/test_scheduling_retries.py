"""A pod that we refused everywhere is tried again, also if only we see that a node accepts it."""

import asyncio
import logging
import signal
from pathlib import Path

import pytest

from rescheduler.extender.retries import scheduling_retries
from rescheduler.extender.retries.refused_pods import MOST_AT_A_TIME, RefusedPod
from rescheduler.extender.retries.scheduling_retries import SchedulingRetries
from rescheduler.kube.clock import WALL_CLOCK
from rescheduler.kube.live_store import cancel
from rescheduler.labels import ACCEPTED_AT
from rescheduler.settings import Policy
from testcluster.builders import node, pod
from testcluster.client import JsonObject
from testcluster.serving import serve
from testcluster.waiting import wait_until
from tests.conftest import Start
from tests.extender.extender_requests import (
    NO_SERVER,
    extender_for,
    filtered,
    put,
    remove,
    tables_of,
)
from tests.extender.kube_scheduler import Pods
from tests.kube.support import eventually
from tests.migration.admission_policies import webhook_down
from tests.migration.support import Sandbox, client_for

LATE = pod("shop/late", cpu="2", memory="1Gi")


class Refusing:
    """A strict extender for one node, which pods have filled, that has just refused `late`."""

    def __init__(self) -> None:
        self.tables = tables_of([node("a", cpu="4", memory="8Gi"), self.big("3"), LATE])
        self.extender = extender_for(self.tables, strict_filter=True)
        assert self.ask() == []

    def big(self, cpu: str) -> JsonObject:
        """The pod that fills the node."""
        return pod("shop/big", on="a", cpu=cpu, memory="1Gi")

    def ask(self) -> list[str]:
        """The scheduler asks about the pod."""
        return filtered(self.extender, LATE, ["a"])

    def look(self) -> list[str]:
        """The pods that are to be tried again."""
        return [refused.pod.name for refused in self.extender.take_accepted()]


@pytest.fixture
def refusing() -> Refusing:
    return Refusing()


def test_a_pod_is_tried_again_once_a_node_accepts_it_at_two_looks(refusing: Refusing) -> None:
    assert [refusing.look() for _ in range(2)] == [[], []]
    put(refusing.tables, refusing.big("500m"))
    assert [refusing.look() for _ in range(4)] == [[], ["late"], [], []]


def test_a_pod_is_not_tried_again_that_a_node_would_have_accepted_only_for_a_moment(
    refusing: Refusing,
) -> None:
    put(refusing.tables, refusing.big("500m"))
    assert refusing.look() == []
    put(refusing.tables, refusing.big("3"))
    assert refusing.look() == []
    put(refusing.tables, refusing.big("500m"))
    assert refusing.look() == []


def test_a_changed_policy_counts(refusing: Refusing) -> None:
    refusing.extender.policy = Policy()
    assert [refusing.look() for _ in range(2)] == [[], ["late"]]


def test_nothing_is_done_for_a_pod_that_the_scheduler_has_asked_about_again(
    refusing: Refusing,
) -> None:
    put(refusing.tables, refusing.big("500m"))
    assert refusing.look() == []
    assert refusing.ask() == ["a"]
    assert [refusing.look() for _ in range(2)] == [[], []]


@pytest.mark.parametrize("placed", [False, True])
def test_nothing_is_done_for_a_pod_that_is_placed_or_gone(refusing: Refusing, placed: bool) -> None:
    assert refusing.look() == []
    put(refusing.tables, refusing.big("500m"))
    if placed:
        put(refusing.tables, pod("shop/late", on="a", cpu="10m", memory="1Gi"))
    else:
        remove(refusing.tables, LATE)
    assert [refusing.look() for _ in range(3)] == [[], [], []]


def test_a_pod_that_is_put_back_is_taken_again_unless_the_scheduler_has_asked_meanwhile(
    refusing: Refusing,
) -> None:
    put(refusing.tables, refusing.big("500m"))
    assert refusing.extender.take_accepted() == []
    (taken,) = refusing.extender.take_accepted()
    refusing.extender.put_back(taken)
    assert refusing.look() == ["late"]
    put(refusing.tables, refusing.big("3"))
    assert refusing.ask() == []
    put(refusing.tables, refusing.big("500m"))
    refusing.extender.put_back(taken)
    assert [refusing.look() for _ in range(2)] == [[], ["late"]]


def test_a_node_that_is_gone_accepts_nothing(refusing: Refusing) -> None:
    remove(refusing.tables, refusing.big("3"))
    remove(refusing.tables, node("a"))
    assert [refusing.look() for _ in range(3)] == [[], [], []]


def test_with_many_refused_the_newest_are_remembered() -> None:
    tables = tables_of([node("a", cpu="1", memory="8Gi")])
    extender = extender_for(tables, strict_filter=True, cpu_threshold=10.0)
    for number in range(150):
        late = pod(f"shop/p{number}", cpu="200m", memory="1Gi")
        put(tables, late)
        assert filtered(extender, late, ["a"]) == []
    extender.policy = Policy(cpu_threshold=100.0)
    assert extender.take_accepted() == []
    # As room for one pod looks like room for each of them, a few are tried again at a time.
    looks = [[refused.pod.name for refused in extender.take_accepted()] for _ in range(11)]
    assert {len(names) for names in looks[:10]} == {MOST_AT_A_TIME}
    assert [name for names in looks for name in names] == [
        f"p{number}" for number in range(50, 150)
    ]


def test_a_policy_that_allows_more_places_a_pod_that_the_scheduler_had_given_up(
    sandbox: Sandbox, start: Start, tmp_path: Path
) -> None:
    """Nothing in the cluster changes."""
    (only,) = sandbox.add_nodes("only", cpu="10")
    served = serve(start, tmp_path, "{strictFilter: true, cpuThreshold: 50}")
    pods = Pods(sandbox)
    with sandbox.cluster.extra_scheduler(served.configuration()):
        pods.create("late", cpu="6")
        wait_until(lambda: pods.why_not("late"), what="the reason is known")
        (tmp_path / "policy.yaml").write_text("{strictFilter: true, cpuThreshold: 70}")
        served.process.send_signal(signal.SIGHUP)
        assert pods.placed("late") == only
    found = sandbox.pod("late")
    assert found is not None
    assert ACCEPTED_AT in found["metadata"]["annotations"]


async def test_a_pod_is_tried_again_after_the_api_server_could_not_be_told(
    sandbox: Sandbox, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    pods = sandbox.path("pods")
    late = pod(f"{sandbox.namespace}/late", cpu="2", schedulerName="nobody")
    late = sandbox.outside.create(pods, late)
    extender = extender_for([node("a", cpu="4"), late], strict_filter=True, cpu_threshold=10.0)
    assert filtered(extender, late, ["a"]) == []

    def annotations() -> JsonObject:
        found: JsonObject = sandbox.outside.get(f"{pods}/late")["metadata"]["annotations"]
        return found

    def touch() -> None:
        sandbox.outside.patch(f"{pods}/late", {"metadata": {"annotations": {"touched": "yes"}}})

    touch()
    async with client_for(sandbox.cluster) as client:
        retries = SchedulingRetries(client, client.server_clock.now)
        running = asyncio.create_task(retries.run(extender.take_accepted, extender.put_back))
        with webhook_down(sandbox, "pods", touch):
            extender.policy = Policy(cpu_threshold=100.0)
            await eventually(lambda: "Failed to have a pod scheduled again" in caplog.text)
            assert ACCEPTED_AT not in annotations()
        await eventually(lambda: ACCEPTED_AT in annotations())
        await cancel([running])


async def test_an_error_of_the_program_ends_nothing_and_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(scheduling_retries, "SECONDS_BETWEEN_LOOKS", 0.0)
    monkeypatch.setattr(scheduling_retries, "SECONDS_AFTER_ERROR", 0.0)
    looks = 0

    def take_accepted() -> list[RefusedPod]:
        nonlocal looks
        looks += 1
        raise KeyError("surprise")

    retries = SchedulingRetries(NO_SERVER, WALL_CLOCK.now)
    running = asyncio.create_task(retries.run(take_accepted, NO_SERVER))
    await eventually(lambda: looks > 2 or running.done())
    await cancel([running])
    assert looks > 2
    assert "Failed to look at refused pods" in caplog.text
    assert "KeyError: 'surprise'" in caplog.text
