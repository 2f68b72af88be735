"""Pod groups: all of a group's wanted moves, or none."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from rescheduler.labels import POD_GROUPS
from rescheduler.planning.problem.problem import Problem
from rescheduler.planning.search.ordering import MoveOrdering
from rescheduler.planning.search.steps import SearchStep

PodGroupKey = tuple[str, str]
"""A namespace and the name of a group in it."""


def whole_groups(
    problem: Problem, order: MoveOrdering, steps: Sequence[SearchStep]
) -> list[SearchStep]:
    """The steps that are possible without moving only a part of some group."""
    groups = _groups(problem)
    if not groups:
        return list(steps)
    kept = order.executable(steps)
    while broken := _split_groups(problem, groups, steps, kept):
        steps = [step for step in kept if groups.get(step.pod) not in broken]
        kept = order.executable(steps)
    return kept


def _groups(problem: Problem) -> dict[int, PodGroupKey]:
    """The group of each pod that is in one."""
    of_template = {
        number: (template.namespace, template.labels[key])
        for number, template in enumerate(problem.snapshot.templates)
        for key in POD_GROUPS
        if key in template.labels
    }
    if not of_template:
        return {}
    pods = problem.snapshot.pods
    members = np.flatnonzero(np.isin(pods.template, list(of_template)) & pods.placed)
    return {pod: of_template[int(pods.template[pod])] for pod in members.tolist()}


def _split_groups(
    problem: Problem,
    groups: dict[int, PodGroupKey],
    wanted: Sequence[SearchStep],
    kept: Sequence[SearchStep],
) -> set[PodGroupKey]:
    """Groups of which some pod moves while another that should move as well does not."""
    moving = {step.pod for step in kept}
    staying: defaultdict[PodGroupKey, int] = defaultdict(int)
    for step in wanted:
        if step.pod not in moving and step.pod in groups:
            staying[groups[step.pod]] += 1
    leaving = problem.nodes_to_empty
    for pod, group in groups.items():
        if pod not in moving and leaving[problem.snapshot.pods.node[pod]]:
            staying[group] += 1
    return {groups[pod] for pod in moving if pod in groups} & set(staying)
