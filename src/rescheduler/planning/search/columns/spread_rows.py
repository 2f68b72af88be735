"""Hard topology spread as constraints of the master problem.

For any two domains, the one must not hold more matching pods beyond the other than the allowed
skew, or than at the start. Only for few domains, such as zones, and few constraints: the
feasibility checker judges all of them in the end.
"""

from itertools import permutations

import numpy as np

from rescheduler.model.snapshot import Floats
from rescheduler.planning.feasibility.plugins.pod_topology_spread import SpreadCounts
from rescheduler.planning.problem.problem import Problem
from rescheduler.planning.search.columns.pod_classes import STAYS, Contents, Numbers, PodClasses

MOST_SPREAD_ROWS = 240
_MOST_DOMAINS = 5


class SpreadRows:
    """A row for each ordered pair of domains of each constraint."""

    def __init__(
        self, problem: Problem, classes: PodClasses, most_rows: int = MOST_SPREAD_ROWS
    ) -> None:
        self._sides: list[Floats] = []
        self._counted: list[Floats] = []
        most: list[float] = []
        for spread, counted in _counted_classes(problem, classes).items():
            domains = np.flatnonzero(spread.counted_domains).tolist()
            pairs = list(permutations(domains, 2))
            if len(domains) > _MOST_DOMAINS or len(most) + len(pairs) > most_rows:
                continue
            held = _held_by_classes(spread, classes, counted)
            for more, less in pairs:
                side = np.where(spread.domain_of_node == more, 1.0, 0.0)
                side -= spread.domain_of_node == less
                self._sides.append(side * spread.counted_nodes)
                self._counted.append(counted)
                skew = max(
                    spread.constraint.max_skew, int(spread.counts[more] - spread.counts[less])
                )
                # Pods of no class stay where they are.
                others = spread.counts - held
                most.append(float(skew - others[more] + others[less]))
        self.most: Floats = np.array(most, np.float64)
        nodes, rows = len(classes.start), len(most)
        self._side: Floats = np.array(self._sides).reshape(rows, nodes)
        self._of_class: Floats = np.array(self._counted).reshape(rows, len(classes))

    def entries(self, nodes: Numbers, contents: Contents) -> Floats:
        """What each of these columns adds to each row."""
        return np.asarray((contents @ self._of_class.T) * self._side[:, nodes].T)

    def worth(self, duals: Floats) -> Floats:
        """What the rows make a pod worth: a row per node, a column per class."""
        return np.asarray((self._side * duals[:, None]).T @ self._of_class)


def _counted_classes(problem: Problem, classes: PodClasses) -> dict[SpreadCounts, Floats]:
    """The constraints of the classes, and which classes each of them counts."""
    templates = np.flatnonzero(classes.of_template != STAYS).tolist()
    counted: dict[SpreadCounts, Floats] = {}
    for template, spreads in problem.checker.topology_spread.spreads(templates).items():
        for spread in spreads:
            row = counted.setdefault(spread, np.zeros(len(classes)))
            row[classes.of_template[template]] = 1.0
    return counted


def _held_by_classes(spread: SpreadCounts, classes: PodClasses, counted: Floats) -> Floats:
    """How many pods of the classes that are counted each domain holds at the start."""
    held = classes.start @ counted * spread.counted_nodes
    domain = np.maximum(spread.domain_of_node, 0)
    return np.bincount(domain, held, len(spread.counts)).astype(np.float64)
