"""`rescheduler plan`: what would be moved, and why. It changes nothing."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rescheduler.cli.files import read_input
from rescheduler.cli.options import Context, Kubeconfig

if TYPE_CHECKING:
    from rescheduler.model.snapshot import Snapshot
    from rescheduler.planning.plan import Plan
    from rescheduler.settings import Policy


class Output(StrEnum):
    """How a plan is shown."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


def plan(
    snapshot: Annotated[
        list[str] | None,
        typer.Option(
            "--snapshot",
            "-s",
            metavar="FILE",
            help="Plan for the cluster in this file, instead of a live one; - is stdin. "
            "May be given several times.",
        ),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option("--policy", "-p", metavar="FILE", help="What to improve, and how far to go."),
    ] = None,
    output: Annotated[
        Output, typer.Option("--output", "-o", help="How to show it.")
    ] = Output.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Show which pods would be moved, where to, and why. Nothing is changed."""
    if snapshot and (kubeconfig or context):
        raise typer.BadParameter("a snapshot and a live cluster at once", param_hint="--snapshot")
    from rescheduler.planning.planner import make_plan

    rules = policy_in(policy)
    cluster = cluster_in(snapshot) if snapshot else live_cluster(kubeconfig, context)
    show(make_plan(cluster, rules), output)


def policy_in(file: str | None) -> "Policy":
    """The policy in a file, or the defaults."""
    from rescheduler.settings import Policy, read_policy

    return read_policy(*read_input(file)) if file else Policy()


def cluster_in(files: list[str]) -> "Snapshot":
    """The cluster that these files describe together."""
    from rescheduler.model.listing import read_cluster

    return read_cluster(map(read_input, files))


def live_cluster(kubeconfig: Path | None, context: str | None) -> "Snapshot":
    """The cluster as it is now."""
    import asyncio

    from rescheduler.cli.connecting import read_live

    return asyncio.run(read_live(kubeconfig, context))


def show(plan: "Plan", output: Output) -> None:
    """Print a plan on standard output."""
    if output is Output.TABLE:
        from rich.console import Console

        from rescheduler.cli.plan_view import show_plan

        show_plan(plan, Console(highlight=False))
    else:
        sys.stdout.write(plan_as_json(plan) if output is Output.JSON else plan_as_yaml(plan))


def plan_as_json(plan: "Plan") -> str:
    """The plan as other programs read it."""
    import msgspec

    return msgspec.json.format(msgspec.json.encode(plan)).decode() + "\n"


def plan_as_yaml(plan: "Plan") -> str:
    """The same as YAML."""
    import msgspec
    import yaml

    text: str = yaml.dump(
        msgspec.json.decode(msgspec.json.encode(plan)), Dumper=yaml.CSafeDumper, sort_keys=False
    )
    return text
