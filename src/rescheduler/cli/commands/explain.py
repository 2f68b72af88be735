"""`rescheduler explain`: which nodes accept a pod, and whether the pod may be moved."""

import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from rescheduler.cli.completion import complete_pod
from rescheduler.cli.control_characters import escaped_json
from rescheduler.cli.inputs import (
    load_cluster,
    load_policy,
    pod_row,
    refuse_second_use_of_stdin,
)
from rescheduler.cli.options import (
    ClusterAccess,
    Context,
    Kubeconfig,
    PolicyFile,
    SnapshotFiles,
)
from rescheduler.cli.views.console import console

if TYPE_CHECKING:
    from rescheduler.model.snapshot import Snapshot
    from rescheduler.settings import Policy


class ExplainOutput(StrEnum):
    """The formats of an explanation."""

    TABLE = "table"
    JSON = "json"


def explain(
    pod: Annotated[
        str | None,
        typer.Argument(
            metavar="POD", help="Pod, as NAMESPACE/NAME or NAME.", autocompletion=complete_pod
        ),
    ] = None,
    all_pods: Annotated[
        bool,
        typer.Option("--all", help="Explain every pod that has a node, in one line each."),
    ] = False,
    with_old_pod: Annotated[
        bool,
        typer.Option(
            "--with-old-pod",
            help="Check the nodes for a second pod, while the old pod still runs on its node.",
        ),
    ] = False,
    snapshot: SnapshotFiles = None,
    policy: PolicyFile = None,
    output: Annotated[
        ExplainOutput, typer.Option("--output", "-o", help="Output format.")
    ] = ExplainOutput.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Show which nodes accept a pod, and whether it may be moved.

    For every other node, shows the scheduler plugin that rejects the pod, and the reason.
    """
    if (pod is None) != all_pods:
        raise typer.BadParameter("expected either a pod or --all", param_hint="POD")
    if all_pods and policy:
        raise typer.BadParameter("--all does not use a policy", param_hint="--policy")
    refuse_second_use_of_stdin(snapshot, policy)
    loaded = load_policy(policy)
    cluster = load_cluster(snapshot, ClusterAccess(kubeconfig, context)).snapshot
    if pod is None:
        show_all(cluster, with_old_pod, output)
    else:
        show_one(cluster, loaded.policy, pod, with_old_pod, output)


def show_one(
    cluster: "Snapshot", policy: "Policy", pod: str, with_old_pod: bool, output: ExplainOutput
) -> None:
    """Print the explanation of one pod."""
    import msgspec

    from rescheduler.planning.explanation import explain as explained

    explanation = explained(cluster, policy, pod_row(cluster, pod), beside_old_pod=with_old_pod)
    if output is ExplainOutput.JSON:
        text = msgspec.json.format(msgspec.json.encode(explanation)).decode()
        sys.stdout.write(escaped_json(text) + "\n")
        return
    from rescheduler.cli.views.explanation_view import show_explanation

    show_explanation(explanation, console())


def show_all(cluster: "Snapshot", with_old_pod: bool, output: ExplainOutput) -> None:
    """Print the nodes that accept each pod, a line per pod."""
    import msgspec

    from rescheduler.planning.explanation import acceptances

    found = acceptances(cluster, beside_old_pod=with_old_pod)
    if output is ExplainOutput.JSON:
        for acceptance in found:
            sys.stdout.write(escaped_json(msgspec.json.encode(acceptance).decode()) + "\n")
        return
    from rescheduler.cli.views.explanation_view import show_acceptances

    show_acceptances(found, console())
