"""What searches return."""

from collections.abc import Sequence
from typing import NamedTuple

from rescheduler.model.snapshot import Ints


class SearchStep(NamedTuple):
    """A pod goes to a node."""

    pod: int
    source: int
    target: int


def without_detours(steps: Sequence[SearchStep], template_of: Ints) -> list[SearchStep]:
    """Steps that lead to the same with fewer moves.

    Pods of one template are interchangeable. So where one comes to a node that another leaves, the
    first may as well go where the other one goes.
    """
    short: list[SearchStep] = []
    for step in steps:
        joined = step
        while (other := _detour(joined, short, template_of)) is not None:
            short.remove(other)
            first, last = (other, joined) if other.target == joined.source else (joined, other)
            joined = SearchStep(first.pod, first.source, last.target)
        if joined.source != joined.target:
            short.append(joined)
    return short


def _detour(step: SearchStep, others: Sequence[SearchStep], template_of: Ints) -> SearchStep | None:
    """One of the others that ends where the step begins, or begins where it ends."""
    return next(
        (
            other
            for other in others
            if (other.target == step.source or other.source == step.target)
            and template_of[other.pod] == template_of[step.pod]
        ),
        None,
    )
