"""`rescheduler drain`: empty a node without interrupting service."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from rescheduler.cli.completion import complete_node
from rescheduler.cli.control_characters import escaped
from rescheduler.cli.inputs import load_policy
from rescheduler.cli.log_options import CommandLogLevel, Level
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
    from rescheduler.controller.drain.node_drain import RemainingPods
    from rescheduler.settings import Policy


def drain(
    node: Annotated[
        str,
        typer.Argument(metavar="NODE", help="Node to empty.", autocompletion=complete_node),
    ],
    wait: Wait = False,
    here: Here = False,
    cancel_on_interrupt: CancelOnInterrupt = False,
    log_level: CommandLogLevel = Level.WARNING,
    policy: PolicyFile = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Cordon a node and move its pods to other nodes.

    Pods are moved by handoff where possible. With --wait, the command ends when the old pods have
    stopped, too.

    The node is cordoned only if everything could be read and planned. It stays cordoned, whatever
    happens then; to undo that: kubectl uncordon NODE

    Exit code 1: some pods stay on the node, or run nowhere else. They are listed with the reason.
    """
    import asyncio

    from rescheduler.cli.logs.log_output import log_of_command

    log_of_command(log_level)
    rules = load_policy(policy).policy
    following = FollowOptions(wait=wait, here=here, cancel_on_interrupt=cancel_on_interrupt)
    access = ClusterAccess(kubeconfig, context)
    remaining = asyncio.run(drain_node(node, policy=rules, following=following, access=access))
    for line in lines_about(remaining, node, waited=following.waits):
        console().print(escaped(line), soft_wrap=True)
    if remaining.blocked or remaining.failed:
        raise typer.Exit(1)


def lines_about(remaining: "RemainingPods", node: str, *, waited: bool) -> Iterator[str]:
    """How the drain of a node ended, and what is left to do."""
    from rescheduler.cli.views.stopping_view import first_names, number_stopping

    yield from (f"pod {pod} stays: {reason}" for pod, reason in remaining.blocked.items())
    yield from (f"pod {pod} {failure}" for pod, failure in remaining.failed.items())
    if remaining.stopping:
        yield f"{number_stopping(remaining.stopping)}: {first_names(remaining.stopping)}"
    if remaining.node_is_gone:
        yield f"node {node} no longer exists"
    elif remaining.blocked or remaining.failed:
        yield how_to_uncordon(node)
    elif waited:
        yield f"node {node} is empty"
    elif not remaining.moving:
        yield f"node {node} has no pods to move"
    if remaining.moving:
        yield "to watch the migrations: kubectl get migrations --all-namespaces --watch"


def how_to_uncordon(node: str) -> str:
    """What is left of a drain that did not empty its node."""
    return f"node {node} stays cordoned. To undo that: kubectl uncordon {node}"


async def drain_node(
    node: str, *, policy: "Policy", following: FollowOptions, access: ClusterAccess
) -> "RemainingPods":
    """Plan, cordon and drain. Without --wait, the pods that get no Migration remain."""
    from rescheduler.cli.connection import connect
    from rescheduler.cli.migration_follower import (
        check_crd_installed,
        migration_follower,
        note_missing_features,
    )
    from rescheduler.cli.stopping_pods import wait_until_stopped
    from rescheduler.cli.views.stopping_view import StoppingView
    from rescheduler.controller.drain.node_drain import NodeDrain
    from rescheduler.kube.server_features import read_server_features

    async with connect(access) as server:

        async def await_stopping() -> dict[str, str]:
            return await wait_until_stopped(
                server, node, StoppingView(console()), server.server_clock
            )

        await check_crd_installed(server)
        note_missing_features(await read_server_features(server))
        drain = NodeDrain(server, node, policy, await_stopping if following.waits else None)
        await drain.plan()
        async with migration_follower(server, policy, following) as follower:
            is_new = await drain.cordon()
            console().print(f"node {node} {'cordoned' if is_new else 'was cordoned already'}")
            with said_if_interrupted(how_to_uncordon(node)):
                return await drain.run(follower.create_and_follow)


@contextmanager
def said_if_interrupted(text: str) -> Iterator[None]:
    """Print a text to standard error if the block fails, or Ctrl-C ends it."""
    try:
        yield
    except BaseException:
        print(text, file=sys.stderr)
        raise
