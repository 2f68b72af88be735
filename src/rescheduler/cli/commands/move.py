"""`rescheduler move`: one pod, to a node, now."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rescheduler.cli.inputs import policy_in
from rescheduler.cli.options import CancelOnInterrupt, Context, Here, Kubeconfig, PolicyFile, Wait

if TYPE_CHECKING:
    from rescheduler.settings import Policy


def move(
    pod: Annotated[str, typer.Argument(metavar="POD", help="The pod, as NAMESPACE/NAME or NAME.")],
    to: Annotated[str, typer.Option("--to", metavar="NODE", help="The node it is to run on.")],
    mode: Annotated[
        str, typer.Option(help="Auto, Handoff, Evict, or Recreate for a pod without a controller.")
    ] = "Auto",
    wait: Wait = False,
    here: Here = False,
    cancel_on_interrupt: CancelOnInterrupt = False,
    policy: PolicyFile = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Move a pod to another node."""
    import asyncio

    from rescheduler.cli.strategy_plugins import strategies_of_others

    rules = policy_in(policy, strategies_of_others())
    done = asyncio.run(
        move_pod(pod, to, mode, wait or here, here, cancel_on_interrupt, rules, kubeconfig, context)
    )
    raise typer.Exit(0 if done else 1)


async def move_pod(
    pod: str,
    target: str,
    mode: str,
    wait: bool,
    here: bool,
    cancel_on_interrupt: bool,
    policy: "Policy",
    kubeconfig: Path | None,
    context: str | None,
) -> bool:
    """Make the Migration and follow it; whether the pod got where it should."""
    import secrets

    from rescheduler.cli.commands.explain import row_of
    from rescheduler.cli.connection import connected
    from rescheduler.cli.migration_creation import ask_and_follow, checked_mode, checked_target
    from rescheduler.cli.migration_follower import check_installed
    from rescheduler.kube.live_store import LiveStore
    from rescheduler.migration.migration_request import migration_body
    from rescheduler.model.tables.cluster_tables import ClusterTables

    way = checked_mode(mode)
    async with connected(kubeconfig, context) as server:
        await check_installed(server)
        store = LiveStore(server, ClusterTables())
        await store.list_once()
        cluster = store.snapshot()
        row = row_of(cluster, pod)
        checked_target(cluster, policy, row, target)
        body = migration_body(
            cluster.pods.keys[row],
            cluster.pods.uids[row],
            target,
            mode=way,
            reason="asked for with rescheduler move",
            # A person who asks again means it.
            salt=secrets.token_hex(4),
        )
        ended = await ask_and_follow(server, [body], policy, wait, here, cancel_on_interrupt)
    return not wait or all(each.status.outcome == "Landed" for each in ended)
