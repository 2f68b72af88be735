"""`rescheduler drain`: empty a node without interrupting service."""

from typing import TYPE_CHECKING, Annotated

import typer

from rescheduler.cli.inputs import load_policy
from rescheduler.cli.options import (
    CancelOnInterrupt,
    ClusterAccess,
    Context,
    FollowOptions,
    Here,
    Kubeconfig,
    PolicyFile,
    Wait,
)
from rescheduler.cli.views.console import console

if TYPE_CHECKING:
    from rescheduler.controller.node_drain import RemainingPods
    from rescheduler.settings import Policy


def drain(
    node: Annotated[str, typer.Argument(metavar="NODE", help="Node to empty.")],
    wait: Wait = False,
    here: Here = False,
    cancel_on_interrupt: CancelOnInterrupt = False,
    policy: PolicyFile = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Cordon a node and move its pods to other nodes.

    Pods are moved by handoff where possible.

    Exit code 1: some pods stay on the node. They are listed with the reason.
    """
    import asyncio

    rules = load_policy(policy).policy
    following = FollowOptions(wait=wait, here=here, cancel_on_interrupt=cancel_on_interrupt)
    access = ClusterAccess(kubeconfig, context)
    remaining = asyncio.run(drain_node(node, policy=rules, following=following, access=access))
    for pod, reason in remaining.blocked.items():
        console().print(f"pod {pod} stays: {reason}", soft_wrap=True)
    for pod, reason in remaining.failed.items():
        console().print(f"pod {pod} was not moved: {reason}", soft_wrap=True)
    if remaining.blocked or remaining.failed:
        raise typer.Exit(1)
    if following.waits:
        console().print(f"node {node} is empty")
    else:
        console().print("to watch the migrations: kubectl get migrations --all-namespaces --watch")


async def drain_node(
    node: str, *, policy: "Policy", following: FollowOptions, access: ClusterAccess
) -> "RemainingPods":
    """Cordon and drain the node. Without --wait, the pods that get no Migration remain."""
    from rescheduler.cli.connection import connect
    from rescheduler.cli.migration_follower import MigrationFollower, check_crd_installed
    from rescheduler.controller.node_drain import NodeDrain

    async with connect(access) as server:
        await check_crd_installed(server)
        follower = MigrationFollower(server, policy, following)
        drain = NodeDrain(server, node, policy, follower.create_and_follow)
        await drain.cordon()
        console().print(f"node {node} cordoned")
        return await drain.run()
