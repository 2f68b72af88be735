"""`rescheduler plan`: show which pods would move, and why. It changes nothing."""

import sys
import time
from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from rescheduler.cli.control_characters import escaped_json
from rescheduler.cli.inputs import load_cluster, load_policy, refuse_second_use_of_stdin
from rescheduler.cli.options import (
    ClusterAccess,
    Context,
    Kubeconfig,
    PolicyFile,
    SnapshotFiles,
)
from rescheduler.cli.views.console import console

if TYPE_CHECKING:
    from rescheduler.planning.plan import Plan


class PlanOutput(StrEnum):
    """The formats of a plan."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


def plan(
    snapshot: SnapshotFiles = None,
    policy: PolicyFile = None,
    output: Annotated[
        PlanOutput, typer.Option("--output", "-o", help="Output format.")
    ] = PlanOutput.TABLE,
    seed: Annotated[
        int,
        typer.Option(
            metavar="NUMBER",
            help="Seed for choices between equally good moves. The same seed gives the same plan.",
        ),
    ] = 0,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Show which pods would move, where to, and why. Changes nothing."""
    refuse_second_use_of_stdin(snapshot, policy)
    if seed < 0:
        raise typer.BadParameter(f"{seed}: expected 0 or more", param_hint="--seed")
    from rescheduler.cli.strategy_plugins import plugin_errors_named
    from rescheduler.planning.context import PlanningContext
    from rescheduler.planning.planner import make_plan

    loaded = load_policy(policy)
    cluster = load_cluster(snapshot, ClusterAccess(kubeconfig, context))
    if loaded.policy.min_pod_age_seconds and not cluster.is_now_known:
        note_unknown_time()
    planning = PlanningContext(now=cluster.now, seed=seed)
    used = share_used(loaded.policy.planning_timeout_seconds)
    with plugin_errors_named(loaded.strategies):
        planned = make_plan(cluster.snapshot, loaded.policy, planning, loaded.strategies, used)
    show(planned, output)


def note_unknown_time() -> None:
    """Say on standard error from when the ages of pods are counted."""
    note = "Note: the files do not say when they were written, so for minPodAge pods are as old as"
    print(f"{note} they were when the newest pod was created", file=sys.stderr)


def share_used(seconds: float) -> Callable[[], float]:
    """A function that returns which share of so many seconds, counted from now, is over."""
    start = time.monotonic()
    return lambda: (time.monotonic() - start) / seconds


def show(plan: "Plan", output: PlanOutput) -> None:
    """Print a plan on standard output."""
    if output is PlanOutput.TABLE:
        from rescheduler.cli.views.plan_view import show_plan

        show_plan(plan, console())
    else:
        sys.stdout.write(plan_as_json(plan) if output is PlanOutput.JSON else plan_as_yaml(plan))


def plan_as_json(plan: "Plan") -> str:
    """The plan as indented JSON."""
    import msgspec

    return escaped_json(msgspec.json.format(msgspec.json.encode(plan)).decode()) + "\n"


def plan_as_yaml(plan: "Plan") -> str:
    """The plan as YAML, with the same fields as the JSON."""
    import msgspec
    import yaml

    text: str = yaml.dump(
        msgspec.json.decode(msgspec.json.encode(plan)), Dumper=yaml.CSafeDumper, sort_keys=False
    )
    return text
