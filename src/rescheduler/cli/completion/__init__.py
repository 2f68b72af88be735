"""Shell completion: names of nodes, pods and contexts, read from the live cluster.

A shell runs the program with an environment variable for each press of Tab. Then typer computes
what could follow, and asks these functions for names. What they need is imported only then.
"""

import typer

COMPLETION_VARIABLE = "_RESCHEDULER_COMPLETE"
"""The environment variable by which a shell asks; typer derives it from the program's name."""


def complete_node(context: typer.Context, incomplete: str) -> list[str]:
    """Nodes of the cluster."""
    from rescheduler.cli.completion.live_names import nodes

    return nodes(context.params, incomplete)


def complete_pod(context: typer.Context, incomplete: str) -> list[str]:
    """Pods of the cluster, as NAMESPACE/NAME."""
    from rescheduler.cli.completion.live_names import pods

    return pods(context.params, incomplete)


def complete_context(context: typer.Context, incomplete: str) -> list[str]:
    """Contexts of the kubeconfig."""
    from rescheduler.cli.completion.live_names import contexts

    return contexts(context.params, incomplete)
