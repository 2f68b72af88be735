"""`rescheduler move`: move one pod to a node."""

from typing import TYPE_CHECKING, Annotated

import typer

from rescheduler.cli.completion import complete_node, complete_pod
from rescheduler.cli.control_characters import escaped
from rescheduler.cli.inputs import load_policy, pod_row
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
from rescheduler.errors import ApiError, SettingsError

if TYPE_CHECKING:
    from rescheduler.kube.server_features import ServerFeatures
    from rescheduler.model.moves import Mode
    from rescheduler.model.snapshot import Snapshot
    from rescheduler.settings import Policy


def move(
    pod: Annotated[
        str,
        typer.Argument(
            metavar="POD", help="Pod, as NAMESPACE/NAME or NAME.", autocompletion=complete_pod
        ),
    ],
    to: Annotated[
        str,
        typer.Option("--to", metavar="NODE", help="Target node.", autocompletion=complete_node),
    ],
    mode: Annotated[
        str,
        typer.Option(
            help="Auto, Handoff, Evict, or Recreate (only for a pod without a controller)."
        ),
    ] = "Auto",
    wait: Wait = False,
    here: Here = False,
    cancel_on_interrupt: CancelOnInterrupt = False,
    log_level: CommandLogLevel = Level.WARNING,
    policy: PolicyFile = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Move one pod to another node.

    Exit code 1: the pod did not get to the target node (known only with --wait or --here).
    """
    import asyncio

    from rescheduler.cli.logs.log_output import log_of_command

    log_of_command(log_level)
    rules = load_policy(policy).policy
    following = FollowOptions(wait=wait, here=here, cancel_on_interrupt=cancel_on_interrupt)
    access = ClusterAccess(kubeconfig, context)
    chosen = mode_named(mode)
    done = asyncio.run(
        move_pod(pod, to, mode=chosen, policy=rules, following=following, access=access)
    )
    raise typer.Exit(0 if done else 1)


def mode_named(text: str) -> "Mode":
    """The mode with this name, in any case."""
    from rescheduler.model.moves import Mode

    modes = {str(mode).lower(): mode for mode in Mode}
    if text.lower() not in modes:
        raise SettingsError(f"--mode {text}: expected one of {', '.join(Mode)}")
    return modes[text.lower()]


async def move_pod(
    pod: str,
    target: str,
    *,
    mode: "Mode",
    policy: "Policy",
    following: FollowOptions,
    access: ClusterAccess,
) -> bool:
    """Create the Migration and follow it. False if the pod did not get to the target node."""
    import secrets

    from rescheduler.cli.connection import connect
    from rescheduler.cli.migration_follower import (
        check_crd_installed,
        key_of,
        migration_follower,
    )
    from rescheduler.controller.drain.drain_outcomes import HeldUp
    from rescheduler.kube.live_store import LiveStore
    from rescheduler.kube.server_features import read_server_features
    from rescheduler.migration.migration_request import migration_body
    from rescheduler.model.moves import Outcome
    from rescheduler.model.tables.cluster_tables import ClusterTables

    async with connect(access) as server:
        await check_crd_installed(server)
        check_mode(mode, await read_server_features(server))
        store = LiveStore(server, ClusterTables())
        await store.list_once()
        cluster = store.snapshot()
        row = pod_row(cluster, pod)
        check_target(cluster, policy, row, target)
        body = migration_body(
            cluster.pods.keys[row],
            cluster.pods.uids[row],
            target,
            mode=mode,
            reason="requested with rescheduler move",
            # A user who repeats the command wants another attempt, not the finished Migration.
            salt=secrets.token_hex(4),
        )
        async with migration_follower(server, policy, following) as follower:
            (ending,) = await follower.create_and_follow([body])
    if isinstance(ending, ApiError):
        raise ending
    if ending is None:
        console().print(f"migration {key_of(body)} was deleted before it finished", soft_wrap=True)
        return False
    if isinstance(ending, HeldUp):
        console().print(f"pod {pod} was {escaped(ending.text)}", soft_wrap=True)
        return False
    return not following.waits or ending.status.outcome == Outcome.LANDED


def check_mode(mode: "Mode", features: "ServerFeatures") -> None:
    """Raise if the API server is too old for the mode; say so if another mode is used instead."""
    from rescheduler.cli.migration_follower import note_missing_features
    from rescheduler.model.moves import Mode

    if mode in {Mode.HANDOFF, Mode.RECREATE} and features.placing_blocker is not None:
        raise SettingsError(f"--mode {mode}: {features.placing_blocker}")
    if mode == Mode.AUTO:
        note_missing_features(features)


def check_target(cluster: "Snapshot", policy: "Policy", row: int, target: str) -> None:
    """Raise unless the target node accepts the pod."""
    from rescheduler.planning.explanation import explain

    pod = cluster.pods.keys[row]
    if target not in cluster.nodes.index:
        raise SettingsError(f"--to {target}: there is no such node")
    explanation = explain(cluster, policy, row)
    if explanation.node == target:
        raise SettingsError(f"--to {target}: pod {pod} already runs on this node")
    verdict = next(verdict for verdict in explanation.nodes if verdict.node == target)
    if not verdict.accepted:
        raise SettingsError(
            f"--to {target}: the node does not accept pod {pod}: {verdict.plugin}: {verdict.reason}"
        )
