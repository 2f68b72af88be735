"""What commands work on: a cluster, from files or live, and a policy."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from rescheduler.files.local_files import STANDARD, read_input

if TYPE_CHECKING:
    from rescheduler.cli.strategy_plugins import Strategies
    from rescheduler.model.snapshot import Snapshot
    from rescheduler.settings import Policy


def refuse_second_use_of_stdin(files: list[str] | None, policy: str | None) -> None:
    """Standard input can be read once: a second reader would find it empty."""
    if [*(files or ()), policy].count(STANDARD) > 1:
        raise typer.BadParameter(
            "standard input (-) can be read only once", param_hint="--snapshot"
        )


def policy_in(file: str | None, strategies: "Strategies") -> "Policy":
    """The policy in a file, which may name these strategies of other people; or the defaults."""
    from rescheduler.files.policy_file import read_policy
    from rescheduler.settings import Policy

    return read_policy(*read_input(file), strategies) if file else Policy()


def cluster_from(
    files: list[str] | None, kubeconfig: Path | None, context: str | None
) -> "Snapshot":
    """The cluster that the files describe together or, without any, the live one."""
    if files and (kubeconfig or context):
        raise typer.BadParameter("a snapshot and a live cluster at once", param_hint="--snapshot")
    if files:
        from rescheduler.files.cluster_file import read_cluster

        return read_cluster(map(read_input, files))
    import asyncio

    from rescheduler.cli.connection import read_live

    return asyncio.run(read_live(kubeconfig, context))
