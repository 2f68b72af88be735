"""What commands work on: a cluster, from files or live, and a policy."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from rescheduler.cli.files import read_input

if TYPE_CHECKING:
    from rescheduler.model.snapshot import Snapshot
    from rescheduler.settings import Policy


def policy_in(file: str | None) -> "Policy":
    """The policy in a file, or the defaults."""
    from rescheduler.settings import Policy, read_policy

    return read_policy(*read_input(file)) if file else Policy()


def cluster_from(
    files: list[str] | None, kubeconfig: Path | None, context: str | None
) -> "Snapshot":
    """The cluster that the files describe together or, without any, the live one."""
    if files and (kubeconfig or context):
        raise typer.BadParameter("a snapshot and a live cluster at once", param_hint="--snapshot")
    if files:
        from rescheduler.model.listing import read_cluster

        return read_cluster(map(read_input, files))
    import asyncio

    from rescheduler.cli.connecting import read_live

    return asyncio.run(read_live(kubeconfig, context))
