"""The server refuses to create a Migration: its pod is named, and others are moved nevertheless."""

import pytest
from aiohttp import web

from rescheduler.cli.commands.drain import drain_node
from rescheduler.cli.commands.move import move_pod
from rescheduler.cli.options import ClusterAccess, FollowOptions
from rescheduler.errors import Refused
from rescheduler.model.moves import Mode
from rescheduler.settings import Policy
from tests.kube.faultproxy import FaultProxy, answer_with
from tests.migration.support import Sandbox, node_of, other_node

QUOTA = (
    '{"kind":"Status","code":403,"reason":"Forbidden",'
    '"message":"migrations.rescheduler.dev is forbidden: exceeded quota: few"}'
)


def creates_migration(request: web.Request) -> bool:
    return request.method == "POST" and request.path.endswith("/migrations")


@pytest.mark.parametrize("here", [False, True])
async def test_a_refused_migration_holds_up_no_other(
    sandbox: Sandbox, proxy: FaultProxy, access: ClusterAccess, here: bool
) -> None:
    (first,) = sandbox.add_nodes("a")
    sandbox.deploy("web", 2)
    sandbox.add_nodes("b")
    proxy.next(creates_migration, answer_with(403, QUOTA))
    following = FollowOptions(wait=False, here=here, cancel_on_interrupt=False)
    remaining = await drain_node(first, policy=Policy(), following=following, access=access)
    (failure,) = remaining.failed.values()
    assert failure.startswith("was not moved: ")
    assert "exceeded quota: few" in failure
    assert len(sandbox.all("migrations")) == 1
    assert len(remaining.moving) == (0 if here else 1)
    left = [pod["metadata"]["name"] for pod in sandbox.pods() if node_of(pod) == first]
    if here:
        assert [f"{sandbox.namespace}/{name}" for name in left] == list(remaining.failed)


async def test_a_move_whose_migration_is_refused_fails_with_the_servers_words(
    sandbox: Sandbox, proxy: FaultProxy, access: ClusterAccess
) -> None:
    sandbox.add_nodes("a", "b")
    (pod,) = sandbox.deploy("web", 1)
    proxy.next(creates_migration, answer_with(403, QUOTA))
    following = FollowOptions(wait=True, here=False, cancel_on_interrupt=False)
    with pytest.raises(Refused, match="exceeded quota: few"):
        await move_pod(
            f"{sandbox.namespace}/{pod['metadata']['name']}",
            other_node(sandbox, pod),
            mode=Mode.AUTO,
            policy=Policy(),
            following=following,
            access=access,
        )
