"""Leave out moves that were to empty a node, or to rearrange it, and only do half of that."""

from collections.abc import Sequence

from rescheduler.planning.problem.problem import Problem
from rescheduler.planning.search.steps import SearchStep


def without_unfinished_nodes(
    problem: Problem, steps: Sequence[SearchStep], wanted: Sequence[SearchStep]
) -> list[SearchStep]:
    """Those of the steps, in their order, that leave nodes which all wanted pods can leave.

    Nodes that other pods come to are finished for them: their steps stay. So do steps that say
    something about pods on other nodes, which later ones may rely on.
    """
    done = {step.pod for step in steps}
    unfinished = {step.source for step in wanted if step.pod not in done}
    unfinished -= {step.target for step in steps}
    template_of = problem.snapshot.pods.template
    return [
        step
        for step in steps
        if step.source not in unfinished or _concerns_others(problem, int(template_of[step.pod]))
    ]


def _concerns_others(problem: Problem, template: int) -> bool:
    """Whether it makes a difference on other nodes where a pod of the template is."""
    beyond = problem.checker.depends_beyond_node
    affected = problem.checker.affected_by(template)
    return bool(beyond[template] or any(beyond[other] for other in affected))
