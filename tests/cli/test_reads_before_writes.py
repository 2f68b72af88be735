"""`drain` and `move` change nothing unless everything that they need could be read.

It is the real server, behind a proxy that answers for it where a read is to fail.
"""

import pytest

from rescheduler.cli.commands.drain import drain_node
from rescheduler.cli.commands.move import move_pod
from rescheduler.cli.options import ClusterAccess, FollowOptions
from rescheduler.errors import ReschedulerError, SettingsError
from rescheduler.model.moves import Mode
from rescheduler.settings import Policy
from testcluster.client import JsonObject
from tests.kube.faultproxy import Fault, FaultProxy, Matches, answer_with
from tests.migration.support import Sandbox, other_node

FORBIDDEN = (
    '{"kind":"Status","code":403,"reason":"Forbidden",'
    '"message":"User \\"ops\\" cannot list resource \\"pods\\" at the cluster scope"}'
)
UNREADABLE = '{"metadata":{"resourceVersion":"1"},"items":[{"metadata":{"name":7}}]}'

IN_THE_BACKGROUND = FollowOptions(wait=False, here=False, cancel_on_interrupt=False)
HERE = FollowOptions(wait=False, here=True, cancel_on_interrupt=False)


def lists(plural: str, *, labelled: bool = False) -> Matches:
    """Lists of a kind: those of the objects with certain labels, or the others."""
    return lambda request: (
        request.method == "GET"
        and request.path.endswith(f"/{plural}")
        and ("labelSelector" in request.query) is labelled
    )


UNREADABLE_LISTS = [
    pytest.param(lists("csinodes"), answer_with(200, UNREADABLE), id="undecodable"),
    pytest.param(lists("deployments"), answer_with(403, FORBIDDEN), id="forbidden"),
    pytest.param(lists("migrations"), answer_with(403, FORBIDDEN), id="migrations"),
]
UNREADABLE_HERE = pytest.param(
    lists("pods", labelled=True), answer_with(403, FORBIDDEN), id="pods of migrations"
)


def spec_of(sandbox: Sandbox, node: str) -> JsonObject:
    spec: JsonObject = sandbox.outside.get(f"/api/v1/nodes/{node}")["spec"]
    return spec


@pytest.mark.parametrize(("fails", "fault"), [*UNREADABLE_LISTS, UNREADABLE_HERE])
async def test_a_node_stays_as_it_was_if_its_drain_cannot_read_all_it_needs(
    sandbox: Sandbox,
    proxy: FaultProxy,
    access: ClusterAccess,
    fails: Matches,
    fault: Fault,
) -> None:
    (node,) = sandbox.add_nodes("a")
    sandbox.deploy("web", 1)
    sandbox.add_nodes("b")
    before = spec_of(sandbox, node)
    proxy.chaos = lambda request: fault if fails(request) else None
    with pytest.raises(ReschedulerError):
        await drain_node(node, policy=Policy(), following=HERE, access=access)
    assert spec_of(sandbox, node) == before
    assert sandbox.all("migrations") == []


async def test_a_node_that_is_not_there_is_reported_and_nothing_is_written(
    sandbox: Sandbox, access: ClusterAccess
) -> None:
    with pytest.raises(SettingsError, match="node nowhere: there is no such node"):
        await drain_node("nowhere", policy=Policy(), following=HERE, access=access)


@pytest.mark.parametrize(("fails", "fault"), [*UNREADABLE_LISTS, UNREADABLE_HERE])
async def test_no_migration_is_created_if_move_cannot_read_all_it_needs(
    sandbox: Sandbox,
    proxy: FaultProxy,
    access: ClusterAccess,
    fails: Matches,
    fault: Fault,
) -> None:
    sandbox.add_nodes("a", "b")
    (pod,) = sandbox.deploy("web", 1)
    proxy.chaos = lambda request: fault if fails(request) else None
    with pytest.raises(ReschedulerError):
        await move_pod(
            f"{sandbox.namespace}/{pod['metadata']['name']}",
            other_node(sandbox, pod),
            mode=Mode.AUTO,
            policy=Policy(),
            following=HERE,
            access=access,
        )
    assert sandbox.all("migrations") == []


async def test_a_drain_cordons_its_node_though_there_is_nothing_to_move(
    sandbox: Sandbox, access: ClusterAccess, capfd: pytest.CaptureFixture[str]
) -> None:
    (node,) = sandbox.add_nodes("a")
    await drain_node(node, policy=Policy(), following=IN_THE_BACKGROUND, access=access)
    assert spec_of(sandbox, node)["unschedulable"] is True
    await drain_node(node, policy=Policy(), following=IN_THE_BACKGROUND, access=access)
    assert capfd.readouterr().out.splitlines() == [
        f"node {node} cordoned",
        f"node {node} was cordoned already",
    ]
