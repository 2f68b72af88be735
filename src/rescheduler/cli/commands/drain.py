"""`rescheduler drain`: empty a node of every pod that can move, without interrupting service."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
    from rescheduler.cli.migration_follower import check_installed
    from rescheduler.controller.node_drain import NodeDrain

    async with connected(kubeconfig, context) as server:
        await check_installed(server)
        draining = NodeDrain(server, node, policy, wait, here, cancel_on_interrupt)
        return await draining.run()
