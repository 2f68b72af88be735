"""Which of the labels that migrations write are named by some selector in the cluster.

Budgets, workloads, Services, and the affinity and spread of pods select pods by labels. As long as
none of them names a label of ours, pods that differ in nothing else are alike.
"""

from collections import Counter
from collections.abc import Iterator, Mapping

from rescheduler.labels import MIGRATION_LABELS
from rescheduler.model.objects import (
    Affinity,
    LabelSelector,
    PodAffinityTerm,
    TopologySpreadConstraint,
)

_NONE: frozenset[str] = frozenset()


class SelectedLabels:
    """Counts the selectors that name each of these labels, while selectors come and go."""

    def __init__(self) -> None:
        self._selectors: Counter[str] = Counter()
        self.keys = _NONE
        """The labels that at least one selector names. Another object only if it has changed."""

    def add(self, named: frozenset[str]) -> None:
        """A selector that names these labels is there now."""
        if named:
            self._count(named, 1)

    def remove(self, named: frozenset[str]) -> None:
        """A selector that names these labels is gone."""
        if named:
            self._count(named, -1)

    def _count(self, named: frozenset[str], count: int) -> None:
        for key in named:
            self._selectors[key] += count
        keys = frozenset(+self._selectors)
        if keys != self.keys:
            self.keys = keys


def named_by_selector(selector: LabelSelector | Mapping[str, str] | None) -> frozenset[str]:
    """The labels of migrations that a selector names, whatever it wants of them."""
    if selector is None:
        return _NONE
    if not isinstance(selector, LabelSelector):
        return frozenset(key for key in MIGRATION_LABELS if key in selector)
    expressions = {requirement.key for requirement in selector.match_expressions}
    return frozenset(
        key for key in MIGRATION_LABELS if key in selector.match_labels or key in expressions
    )


def named_by_pod(
    affinity: Affinity | None, spread: tuple[TopologySpreadConstraint, ...]
) -> frozenset[str]:
    """The labels of migrations that a pod's affinity and spread name."""
    named = _NONE
    for term in _pod_terms(affinity):
        keys = (*term.match_label_keys, *term.mismatch_label_keys)
        named |= named_by_selector(term.label_selector) | named_by_selector(dict.fromkeys(keys, ""))
    for constraint in spread:
        keys = constraint.match_label_keys
        named |= named_by_selector(constraint.label_selector)
        named |= named_by_selector(dict.fromkeys(keys, ""))
    return named


def _pod_terms(affinity: Affinity | None) -> Iterator[PodAffinityTerm]:
    if affinity is None:
        return
    for terms in (affinity.pod_affinity, affinity.pod_anti_affinity):
        if terms is not None:
            yield from terms.required
            yield from (weighted.pod_affinity_term for weighted in terms.preferred)
