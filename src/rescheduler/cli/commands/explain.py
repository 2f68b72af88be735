"""`rescheduler explain`: where a pod could be, and why not elsewhere."""

import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from rescheduler.cli.inputs import cluster_from, policy_in, refuse_second_use_of_stdin
from rescheduler.cli.options import Context, Kubeconfig, PolicyFile, SnapshotFiles
from rescheduler.cli.views.console import console

if TYPE_CHECKING:
    from rescheduler.model.snapshot import Snapshot
    from rescheduler.settings import Policy


class Output(StrEnum):
    """How an explanation is shown."""

    TABLE = "table"
    JSON = "json"


def explain(
    pod: Annotated[
        str | None, typer.Argument(metavar="POD", help="The pod, as NAMESPACE/NAME or NAME.")
    ] = None,
    all_pods: Annotated[
        bool, typer.Option("--all", help="Every pod on a node; as JSON, a line each.")
    ] = False,
    with_old_pod: Annotated[
        bool,
        typer.Option("--with-old-pod", help="Ask nodes while the pod still runs where it is."),
    ] = False,
    snapshot: SnapshotFiles = None,
    policy: PolicyFile = None,
    output: Annotated[
        Output, typer.Option("--output", "-o", help="How to show it.")
    ] = Output.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Show what the scheduler would say of every node for a pod, and whether it may be moved."""
    if (pod is None) != all_pods:
        raise typer.BadParameter("expected either a pod or --all", param_hint="POD")
    if all_pods and policy:
        raise typer.BadParameter("--all asks nodes only, not the policy", param_hint="--policy")
    refuse_second_use_of_stdin(snapshot, policy)
    from rescheduler.cli.strategy_plugins import strategies_of_others

    rules = policy_in(policy, strategies_of_others())
    cluster = cluster_from(snapshot, kubeconfig, context)
    if pod is None:
        show_all(cluster, with_old_pod, output)
    else:
        show_one(cluster, rules, pod, with_old_pod, output)


def show_one(
    cluster: "Snapshot", rules: "Policy", pod: str, with_old_pod: bool, output: Output
) -> None:
    """Print everything about one pod."""
    import msgspec

    from rescheduler.planning.explanation import explain as explained

    explanation = explained(cluster, rules, row_of(cluster, pod), beside_old_pod=with_old_pod)
    if output is Output.JSON:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(explanation)).decode() + "\n")
        return
    from rescheduler.cli.views.explain_view import show_explanation

    show_explanation(explanation, console())


def show_all(cluster: "Snapshot", with_old_pod: bool, output: Output) -> None:
    """Print where every pod could be, a line each."""
    import msgspec

    from rescheduler.planning.explanation import acceptances

    found = acceptances(cluster, beside_old_pod=with_old_pod)
    if output is Output.JSON:
        for acceptance in found:
            sys.stdout.write(msgspec.json.encode(acceptance).decode() + "\n")
        return
    from rescheduler.cli.views.explain_view import show_acceptances

    show_acceptances(found, console())


def row_of(cluster: "Snapshot", pod: str) -> int:
    """The row of a pod that a person named, with or without its namespace."""
    import difflib

    from rescheduler.errors import SettingsError

    keys = cluster.pods.keys
    named = [row for row, key in enumerate(keys) if key == pod or key.rpartition("/")[2] == pod]
    if len(named) > 1:
        several = ", ".join(keys[row] for row in named[:5])
        raise SettingsError(f"pod {pod}: expected NAMESPACE/NAME, for there are {several}")
    if not named:
        close = difflib.get_close_matches(pod, keys, n=1, cutoff=0.5)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise SettingsError(f"pod {pod}: not found among {len(keys):,} pods{hint}")
    if cluster.pods.finished[named[0]]:
        raise SettingsError(f"pod {keys[named[0]]}: it has finished, so it goes nowhere")
    return named[0]
