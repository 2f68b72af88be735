"""Print which nodes accept a pod, and why the others reject it."""

from collections import Counter
from collections.abc import Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rescheduler.cli.control_characters import escaped
from rescheduler.planning.explanation import Acceptance, Explanation, NodeVerdict

# Accepting nodes come first. Of many rejecting nodes, a few are enough to see why.
MOST_REJECTING = 25
MOST_ACCEPTING = 25


def show_explanation(explanation: Explanation, console: Console) -> None:
    """Print whether the pod may be moved, and whether each node accepts it."""
    accepting = [verdict for verdict in explanation.nodes if verdict.accepted]
    rejecting = [verdict for verdict in explanation.nodes if not verdict.accepted]
    accepting.sort(key=lambda verdict: verdict.load_after)
    console.print(Text(escaped(f"Pod {explanation.pod}"), style="bold"))
    console.print(escaped(f"  {location(explanation)}"))
    console.print(escaped(f"  {permission(explanation)}"))
    console.print()
    console.print(verdicts(explanation, accepting[:MOST_ACCEPTING], rejecting[:MOST_REJECTING]))
    left_out = max(len(accepting) - MOST_ACCEPTING, 0), max(len(rejecting) - MOST_REJECTING, 0)
    if any(left_out):
        console.print(f"... and {left_out[0]:,} more that accept, {left_out[1]:,} more that reject")
    console.print()
    console.print(Text(summary(accepting, rejecting), style="bold"))


def location(explanation: Explanation) -> str:
    """The node of the pod."""
    return f"on node {explanation.node}" if explanation.node else "pending, without a node"


def permission(explanation: Explanation) -> str:
    """Whether the pod may be moved, and the mode or the blocker."""
    if explanation.may_move:
        return f"may be moved, mode {explanation.mode}"
    return f"must not be moved, blocker {explanation.blocker}: {explanation.detail}"


def verdicts(
    explanation: Explanation, accepting: list[NodeVerdict], rejecting: list[NodeVerdict]
) -> Table:
    """A row per node."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("Node", no_wrap=True)
    table.add_column("Load", justify="right", no_wrap=True)
    table.add_column("With pod", justify="right", no_wrap=True)
    table.add_column("Result", overflow="fold")
    for verdict in accepting + rejecting:
        table.add_row(
            escaped(verdict.node),
            f"{verdict.load_before:.0%}",
            f"{verdict.load_after:.0%}" if verdict.accepted else "",
            result(verdict, is_current=verdict.node == explanation.node),
        )
    return table


def result(verdict: NodeVerdict, is_current: bool) -> Text:
    """Whether a node accepts the pod, or the plugin that rejects it."""
    if not verdict.accepted:
        return Text.assemble((verdict.plugin, "red"), escaped(f": {verdict.reason}"))
    if is_current:
        return Text("accepts (current node)", style="green")
    if not verdict.accepted_beside_old_pod:
        return Text("accepts only after the old pod is deleted", style="yellow")
    return Text("accepts", style="green")


def summary(accepting: list[NodeVerdict], rejecting: list[NodeVerdict]) -> str:
    """How many nodes accept the pod, and how many each plugin rejects."""
    total = len(accepting) + len(rejecting)
    counts = Counter(verdict.plugin for verdict in rejecting).most_common()
    plugins = ", ".join(f"{plugin} ({count:,})" for plugin, count in counts)
    return f"{len(accepting):,} of {total:,} nodes accept the pod" + (
        f"; rejected by {plugins}." if plugins else "."
    )


def show_acceptances(acceptances: Iterable[Acceptance], console: Console) -> None:
    """Print a line per pod: how many nodes accept it, and which plugins reject the others."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("Pod", overflow="fold")
    table.add_column("Accepting", justify="right", no_wrap=True)
    table.add_column("Rejected by", overflow="fold")
    for acceptance in acceptances:
        counts = Counter(acceptance.why.values()).most_common(3)
        plugins = ", ".join(f"{plugin} ({count:,})" for plugin, count in counts)
        table.add_row(escaped(acceptance.pod), f"{len(acceptance.fits):,}", plugins)
    console.print(table)
