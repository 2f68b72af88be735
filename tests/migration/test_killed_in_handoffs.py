"""The controller is killed at every write of a handoff and of its rollback; another one continues.

Each process first finishes what the one before has left, and is then killed too.
"""

import pytest

from testcluster.applying import apply
from testcluster.builders import budget, deployment, service
from testcluster.client import JsonObject
from testcluster.waiting import wait_until
from tests.migration.killed_controllers import Case, cases, run_killed
from tests.migration.ready_pod_watch import ReadyPodWatch
from tests.migration.support import COST, Sandbox, is_ready, node_of

pytestmark = pytest.mark.long

HANDOFF = (
    "start",
    "create-new",
    "nominate",
    "label-old",
    "open-gate",
    "lower-cost",
    "hand-over",
    "adopt",
    "give-away",
    "finish",
)
ROLLBACK = ("undo", "delete-new", "restore-old", "finish")


def test_killed_in_a_handoff_it_continues_with_no_second_copy_and_no_gap(sandbox: Sandbox) -> None:
    sandbox.add_nodes("first", cpu="16")
    served = Case("h-served", "after-leave-services")
    # First: what is known about the kubelet of a node is not learned again.
    learned = Case("h-learned", "after-learn-kubelet")
    all_cases = [*cases("h", HANDOFF), learned, served]
    for case in all_cases:
        body = deployment(f"{sandbox.namespace}/{case.app}", 1, "100m", template=sandbox.here())
        protection = budget(f"{sandbox.namespace}/{case.app}", min_available=1)
        apply(sandbox.cluster, body, protection)
    apply(
        sandbox.cluster,
        *(service(f"{sandbox.namespace}/{case.app}") for case in (served, learned)),
    )
    wait_until(lambda: sum(map(is_ready, sandbox.pods())) == len(all_cases))
    (target,) = sandbox.add_nodes("second", cpu="16")
    with ReadyPodWatch(sandbox.cluster, sandbox.namespace) as watcher:
        statuses = run_killed(sandbox, all_cases, target)
        wait_until(lambda: len(sandbox.pods()) == len(all_cases), what="one pod each")
    assert {status["outcome"] for status in statuses.values()} == {"Landed"}
    assert {node_of(found) for found in sandbox.pods()} == {target}
    assert set(watcher.fewest.values()) == {1}
    assert max(watcher.most.values()) <= 2
    assert watcher.problems == []


def test_killed_in_a_rollback_it_leaves_the_old_pod_exactly_as_it_was(sandbox: Sandbox) -> None:
    sandbox.add_nodes("first", cpu="16")
    all_cases = cases("u", ROLLBACK)
    for case in all_cases:
        body = deployment(f"{sandbox.namespace}/{case.app}", 1, "100m", template=sandbox.here())
        apply(sandbox.cluster, body)
    wait_until(lambda: sum(map(is_ready, sandbox.pods())) == len(all_cases))
    for found in sandbox.pods():
        path = sandbox.path("pods", found["metadata"]["name"])
        sandbox.outside.patch(path, {"metadata": {"annotations": {COST: "7", "note": "mine"}}})
    before = {found["metadata"]["uid"]: written_on(found) for found in sandbox.pods()}
    (target,) = sandbox.add_nodes("second", cpu="50m")
    statuses = run_killed(sandbox, all_cases, target)
    assert {status["phase"] for status in statuses.values()} == {"Failed"}
    assert {found["metadata"]["uid"]: written_on(found) for found in sandbox.pods()} == before


def written_on(pod: JsonObject) -> tuple[dict[str, str], dict[str, str]]:
    metadata = pod["metadata"]
    return metadata.get("labels", {}), metadata.get("annotations", {})
