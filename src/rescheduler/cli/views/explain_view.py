"""Explanations for the eye: every node's answer to a pod."""

from collections import Counter
from collections.abc import Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rescheduler.planning.explanation import Acceptance, Explanation, NodeVerdict

# Accepting nodes come first; of many refusing ones a few are enough to see why.
MOST_REFUSING = 25
MOST_ACCEPTING = 25


def show_explanation(explanation: Explanation, console: Console) -> None:
    """Print whether the pod may move, and what each node says."""
    accepting = [each for each in explanation.nodes if each.accepted]
    refusing = [each for each in explanation.nodes if not each.accepted]
    accepting.sort(key=lambda each: each.load_after)
    console.print(Text(f"Pod {explanation.pod}", style="bold"))
    console.print(f"  {whereabouts(explanation)}")
    console.print(f"  {permission(explanation)}")
    console.print()
    console.print(verdicts(explanation, accepting[:MOST_ACCEPTING], refusing[:MOST_REFUSING]))
    left_out = max(len(accepting) - MOST_ACCEPTING, 0), max(len(refusing) - MOST_REFUSING, 0)
    if any(left_out):
        console.print(f"... and {left_out[0]:,} more that accept, {left_out[1]:,} that refuse")
    console.print()
    console.print(Text(summary(accepting, refusing), style="bold"))


def whereabouts(explanation: Explanation) -> str:
    """Where the pod is."""
    return f"on {explanation.node}" if explanation.node else "waiting for a node"


def permission(explanation: Explanation) -> str:
    """Whether it may be moved, and how or why not."""
    if explanation.may_move:
        return f"may be moved, by {explanation.mode}"
    return f"stays where it is: {explanation.blocker}, {explanation.detail}"


def verdicts(
    explanation: Explanation, accepting: list[NodeVerdict], refusing: list[NodeVerdict]
) -> Table:
    """A row per node."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("Node", no_wrap=True)
    table.add_column("Load", justify="right", no_wrap=True)
    table.add_column("With it", justify="right", no_wrap=True)
    table.add_column("Answer", overflow="fold")
    for verdict in accepting + refusing:
        table.add_row(
            verdict.node,
            f"{verdict.load_before:.0%}",
            f"{verdict.load_after:.0%}" if verdict.accepted else "",
            answer(verdict, is_home=verdict.node == explanation.node),
        )
    return table


def answer(verdict: NodeVerdict, is_home: bool) -> Text:
    """What a node says, in words."""
    if not verdict.accepted:
        return Text.assemble((verdict.plugin, "red"), f": {verdict.reason}")
    if is_home:
        return Text("accepts; it is there now", style="green")
    if not verdict.accepted_beside_old_pod:
        return Text("accepts, but only once the old pod is gone", style="yellow")
    return Text("accepts", style="green")


def summary(accepting: list[NodeVerdict], refusing: list[NodeVerdict]) -> str:
    """How many nodes accept, and who refuses most."""
    total = len(accepting) + len(refusing)
    counts = Counter(verdict.plugin for verdict in refusing).most_common()
    refusers = ", ".join(f"{plugin} {count:,}" for plugin, count in counts)
    return f"{len(accepting):,} of {total:,} nodes accept it" + (
        f"; refused by {refusers}." if refusers else "."
    )


def show_acceptances(acceptances: Iterable[Acceptance], console: Console) -> None:
    """Print a line per pod: how many nodes accept it, and who refuses the others."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("Pod", overflow="fold")
    table.add_column("Accepting", justify="right", no_wrap=True)
    table.add_column("Refused by", overflow="fold")
    for each in acceptances:
        counts = Counter(each.why.values()).most_common(3)
        refusers = ", ".join(f"{plugin} {count:,}" for plugin, count in counts)
        table.add_row(each.pod, f"{len(each.fits):,}", refusers)
    console.print(table)
