"""`rescheduler drain`: empty a node of every pod that can move, without interrupting service."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rescheduler.cli.inputs import policy_in
from rescheduler.cli.options import CancelOnInterrupt, Context, Here, Kubeconfig, PolicyFile, Wait

if TYPE_CHECKING:
    from rescheduler.settings import Policy


def drain(
    node: Annotated[str, typer.Argument(metavar="NODE", help="The node to be emptied.")],
    wait: Wait = False,
    here: Here = False,
    cancel_on_interrupt: CancelOnInterrupt = False,
    policy: PolicyFile = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Cordon a node and move its pods elsewhere, by handoff wherever that is possible.

    Exit code 1 says that pods are left that should have gone; they are listed with the reason.
    """
    import asyncio

    from rescheduler.cli.strategy_plugins import strategies_of_others

    rules = policy_in(policy, strategies_of_others())
    arguments = (node, rules, wait or here, here, cancel_on_interrupt, kubeconfig, context)
    is_empty = asyncio.run(drain_node(*arguments))
    raise typer.Exit(0 if is_empty else 1)


async def drain_node(
    node: str,
    policy: "Policy",
    wait: bool,
    here: bool,
    cancel_on_interrupt: bool,
    kubeconfig: Path | None,
    context: str | None,
) -> bool:
    """Drain a node; whether all that should go has gone, or has been asked to."""
    from rescheduler.cli.connection import connected
    from rescheduler.cli.migration_creation import ask_and_follow
    from rescheduler.cli.migration_follower import check_installed
    from rescheduler.cli.views.console import console
    from rescheduler.controller.node_drain import NodeDrain
    from rescheduler.migration.migration_object import Migration

    async with connected(kubeconfig, context) as server:
        await check_installed(server)

        async def create_and_follow(bodies: list[dict[str, Any]]) -> list[Migration] | None:
            ended = await ask_and_follow(server, bodies, policy, wait, here, cancel_on_interrupt)
            return ended if wait else None

        drain = NodeDrain(server, node, policy, create_and_follow)
        await drain.cordon()
        console().print(f"node {node} is cordoned")
        remaining = await drain.run()
    for pod, reason in remaining.blocked.items():
        console().print(f"stays: {pod}: {reason}", soft_wrap=True)
    for pod, reason in remaining.failed.items():
        console().print(f"not moved: {pod}: {reason}", soft_wrap=True)
    if remaining.blocked or remaining.failed:
        return False
    console().print(f"node {node} is empty" if wait else "asked for all moves")
    return True
