"""`rescheduler plan`: what would be moved, and why. It changes nothing."""

import sys
import time
from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from rescheduler.cli.inputs import cluster_from, policy_in, refuse_second_use_of_stdin
from rescheduler.cli.options import Context, Kubeconfig, PolicyFile, SnapshotFiles
from rescheduler.cli.views.console import console

if TYPE_CHECKING:
    from rescheduler.planning.plan import Plan


class Output(StrEnum):
    """How a plan is shown."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


def plan(
    snapshot: SnapshotFiles = None,
    policy: PolicyFile = None,
    output: Annotated[
        Output, typer.Option("--output", "-o", help="How to show it.")
    ] = Output.TABLE,
    seed: Annotated[
        int,
        typer.Option(
            metavar="NUMBER", help="Decides between equals: the same number gives the same plan."
        ),
    ] = 0,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Show which pods would be moved, where to, and why. Nothing is changed."""
    refuse_second_use_of_stdin(snapshot, policy)
    from rescheduler.cli.strategy_plugins import naming_the_plugin, strategies_of_others
    from rescheduler.planning.context import PlanningContext
    from rescheduler.planning.planner import SEARCHING, make_plan

    strategies = strategies_of_others()
    rules = policy_in(policy, strategies)
    cluster = cluster_from(snapshot, kubeconfig, context)
    circumstances = PlanningContext(now=time.time(), seed=seed)
    out_of_time = once_over(SEARCHING * rules.planning_timeout_seconds)
    with naming_the_plugin(strategies):
        made = make_plan(cluster, rules, circumstances, strategies, out_of_time)
    show(made, output)


def once_over(seconds: float) -> Callable[[], bool]:
    """A question that is answered with yes once so much time has passed, counted from now."""
    end = time.monotonic() + seconds
    return lambda: time.monotonic() >= end


def show(plan: "Plan", output: Output) -> None:
    """Print a plan on standard output."""
    if output is Output.TABLE:
        from rescheduler.cli.views.plan_view import show_plan

        show_plan(plan, console())
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
