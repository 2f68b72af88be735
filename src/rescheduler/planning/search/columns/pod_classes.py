"""Pods that are alike to this search: same demand, same nodes, same price, same company.

Labels do not matter unless a selector tells pods apart. The fewer the classes, the faster the
search; so where there are many, what matters less is disregarded, and the feasibility checker
refuses what does not work out.
"""

from collections import Counter, defaultdict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rescheduler.model.snapshot import Bools, Floats, Ints
from rescheduler.planning.feasibility.node_conflicts import NodeConflicts
from rescheduler.planning.problem.problem import Problem

Contents = npt.NDArray[np.int16]
"""How many pods of each class: a row per node or column, a column per class."""

Numbers = npt.NDArray[np.signedinteger[Any]]
"""Numbers of nodes, classes, columns or rows."""

STAYS = -1
"""The class of templates whose pods stay where they are."""

# With more classes, those that differ little are put together.
_MANY_CLASSES = 48
# Pods that exclude each other are a class of their own if they are so many, and so large a share
# of the pods of their size. Smaller groups rarely meet on a node.
_LEAST_PODS, _LEAST_SHARE = 20, 0.12
# Prices of moves count as equal within the same half power of two.
_STEPS_PER_DOUBLING = 2


@dataclass(frozen=True, eq=False)
class PodClasses:
    """The classes, and where their pods are at the start."""

    of_template: Ints
    """The class of each template, or STAYS."""
    exclusion_of_template: Ints
    """A number per set of pods that exclude each other on a node; -1: excludes none of its own."""
    demand: Floats
    """A row per class, a column per resource."""
    move_prices: Floats
    refused: Bools
    """Nodes that no further pod of a class may come to: a row per node."""
    most_per_node: Ints
    apart: Bools
    """Pairs of classes that must not share a node."""
    start: Contents
    """What nodes hold of each class, without `homeless` pods."""
    homeless: Ints
    """By equivalence group: pods that break a rule where they are."""
    totals: Ints
    scopes: list[tuple[Ints, int]]
    """Limits: of these classes together, so many pods may move."""

    def __len__(self) -> int:
        return len(self.totals)

    @property
    def interchangeable(self) -> Ints:
        """A number per template: pods with the same one may take each other's targets.

        Not all of a class may: one that excludes others was given a node without them.
        """
        traits = np.column_stack([self.of_template, self.exclusion_of_template])
        numbers = np.unique(traits, axis=0, return_inverse=True)[1]
        return np.asarray(numbers.ravel().astype(np.int32))


def pod_classes(problem: Problem) -> PodClasses:
    """Put the movable pods of a problem into classes."""
    return _Classification(problem).classes()


class _Traits(NamedTuple):
    """What sets a template apart."""

    size: Hashable
    price: int
    scopes: tuple[int, ...]
    exclusion: int
    beyond_node: int
    """The template itself if its feasibility depends on more than its node's pods."""


class _Classification:
    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._groups = problem.groups
        self._templates = np.unique(problem.groups.template).tolist()
        counts = np.bincount(
            self._groups.template,
            weights=self._groups.count,
            minlength=len(problem.snapshot.templates),
        )
        self._count_of: Ints = counts.astype(np.int32)
        self._excludes = problem.checker.affinity_relations.apart_on_node
        self._exclusion_of = self._exclusions()
        self._traits = self._all_traits()

    def classes(self) -> PodClasses:
        of_template, members = self._numbered()
        conflicts, homeless = self._without_homeless()
        start = self._start(of_template, len(members), homeless)
        return PodClasses(
            of_template=of_template,
            exclusion_of_template=self._exclusion_of,
            demand=self._demand(members),
            move_prices=self._move_prices(members),
            refused=self._refused(members, conflicts, of_template, homeless),
            most_per_node=self._most_per_node(members),
            apart=self._apart(members),
            start=start,
            homeless=homeless,
            totals=self._totals(members),
            scopes=self._scopes(members),
        )

    # ------------------------------------------------------------ what templates are like

    def _exclusions(self) -> Ints:
        numbers: dict[frozenset[int], int] = {}
        exclusion_of = np.full(len(self._count_of), -1, np.int32)
        for template in self._templates:
            others = self._excludes.get(template)
            if others:
                exclusion_of[template] = numbers.setdefault(frozenset(others), len(numbers))
        return exclusion_of

    def _all_traits(self) -> dict[int, _Traits]:
        problem = self._problem
        masks = self._numbered_masks()
        demand = np.ascontiguousarray(problem.load.demand.T)
        prices = np.maximum(problem.move_prices / (problem.objective.move_price or 1.0), 1e-9)
        steps = np.round(np.log2(prices) * _STEPS_PER_DOUBLING).astype(np.int64)
        beyond = problem.checker.depends_beyond_node
        return {
            template: _Traits(
                (demand[template].tobytes(), masks[template]),
                int(steps[template]),
                problem.limits.scopes_of[template],
                int(self._exclusion_of[template]),
                template if beyond[template] else -1,
            )
            for template in self._templates
        }

    def _numbered_masks(self) -> dict[int, int]:
        numbers: dict[bytes, int] = {}
        refused = self._problem.pods.refused_masks
        return {
            template: numbers.setdefault(refused(np.array([template]))[0].tobytes(), len(numbers))
            for template in self._templates
        }

    # ------------------------------------------------------------ which are put together

    def _numbered(self) -> tuple[Ints, list[list[int]]]:
        """The class of each template, and the templates of each class."""
        for key in (self._exact_key, self._pooled_key(), self._coarse_key()):
            members: defaultdict[Hashable, list[int]] = defaultdict(list)
            for template in self._templates:
                found = key(template)
                if found is not None:
                    members[found].append(template)
            if len(members) <= _MANY_CLASSES:
                break
        of_template = np.full(len(self._count_of), STAYS, np.int32)
        for number, templates in enumerate(members.values()):
            of_template[templates] = number
        return of_template, list(members.values())

    def _exact_key(self, template: int) -> Hashable:
        return self._traits[template]

    def _pooled_key(self) -> "_PooledKey":
        return _PooledKey(self._traits, self._count_of, is_coarse=False)

    def _coarse_key(self) -> "_PooledKey":
        return _PooledKey(self._traits, self._count_of, is_coarse=True)

    # ------------------------------------------------------------ what classes are like

    def _demand(self, members: list[list[int]]) -> Floats:
        first = [templates[0] for templates in members]
        return np.ascontiguousarray(self._problem.load.demand[:, first].T)

    def _move_prices(self, members: list[list[int]]) -> Floats:
        prices, counts = self._problem.move_prices, self._count_of
        return np.array([np.average(prices[each], weights=counts[each]) for each in members])

    def _exclusive(self, template: int) -> bool:
        return template in self._excludes.get(template, ())

    def _totals(self, members: list[list[int]]) -> Ints:
        return np.array([int(self._count_of[each].sum()) for each in members], np.int32)

    def _most_per_node(self, members: list[list[int]]) -> Ints:
        most = self._totals(members)
        for number, templates in enumerate(members):
            if all(self._exclusive(template) for template in templates):
                sets = len(np.unique(self._exclusion_of[templates]))
                most[number] = min(most[number], sets)
        return most

    def _apart(self, members: list[list[int]]) -> Bools:
        apart = np.zeros((len(members), len(members)), bool)
        uniform = {
            number: self._excludes[templates[0]]
            for number, templates in enumerate(members)
            if templates[0] in self._excludes and self._is_uniform(templates)
        }
        for number, excluded in uniform.items():
            for other, templates in enumerate(members):
                if number != other and excluded.issuperset(templates):
                    apart[number, other] = apart[other, number] = True
        return apart

    def _is_uniform(self, templates: list[int]) -> bool:
        """Whether they all exclude the same pods."""
        return len(set(self._exclusion_of[templates].tolist())) == 1

    def _refused(
        self,
        members: list[list[int]],
        conflicts: NodeConflicts,
        of_template: Ints,
        homeless: Ints,
    ) -> Bools:
        """By what nodes are, and by the pods on them that stay."""
        first = np.array([templates[0] for templates in members], np.int32)
        refused = self._problem.pods.refused_masks(first).T.copy()
        refused |= self._problem.nodes_to_empty[:, None]
        going = of_template[self._groups.template] != STAYS
        left = (self._groups.count - homeless)[going]
        conflicts.add_all(self._groups.template[going], self._groups.node[going], -left)
        for number, templates in enumerate(members):
            if self._is_uniform(templates):
                refused[:, number] |= conflicts.counts[conflicts.row_of[templates[0]]] > 0
        return refused

    def _scopes(self, members: list[list[int]]) -> list[tuple[Ints, int]]:
        limits = self._problem.limits
        classes_of: defaultdict[int, list[int]] = defaultdict(list)
        for number, templates in enumerate(members):
            for scope in limits.scopes_of[templates[0]]:
                classes_of[scope].append(number)
        return [
            (np.array(classes, np.int32), int(limits.allowance[scope]))
            for scope, classes in sorted(classes_of.items())
        ]

    # ------------------------------------------------------------ where pods are

    def _without_homeless(self) -> tuple[NodeConflicts, Ints]:
        """Pods that break a rule, and who is in whose way once they are gone.

        Of two that must not share a node, only one is in the wrong place.
        """
        conflicts = self._problem.conflicts.copy()
        homeless = np.zeros(len(self._groups), np.int32)
        for term in self._problem.violation_terms:
            templates, nodes = self._groups.template, self._groups.node
            for group in np.flatnonzero(
                term.gains_of_leaving(templates, nodes, conflicts)
            ).tolist():
                one = slice(group, group + 1)
                while homeless[group] < self._groups.count[group] and (
                    term.gains_of_leaving(templates[one], nodes[one], conflicts)[0] > 0
                ):
                    homeless[group] += 1
                    conflicts.add(int(templates[group]), int(nodes[group]), -1)
        return conflicts, homeless

    def _start(self, of_template: Ints, classes: int, homeless: Ints) -> Contents:
        start = np.zeros((len(self._problem.snapshot.nodes), classes), np.int16)
        number = of_template[self._groups.template]
        moving = number != STAYS
        settled = (self._groups.count - homeless)[moving]
        np.add.at(start, (self._groups.node[moving], number[moving]), settled.astype(np.int16))
        return start


class _PooledKey:
    """Puts small sets of pods that exclude each other together with others of their size.

    The coarse one also disregards prices, and leaves pods in place that have rules of their own.
    """

    def __init__(self, traits: dict[int, _Traits], count_of: Ints, *, is_coarse: bool) -> None:
        self._traits = traits
        self._is_coarse = is_coarse
        self._by_shape: Counter[Hashable] = Counter()
        self._by_exclusion: Counter[Hashable] = Counter()
        for template, found in traits.items():
            self._by_shape[self._shape(found)] += int(count_of[template])
            self._by_exclusion[self._shape(found), found.exclusion] += int(count_of[template])

    def _shape(self, traits: _Traits) -> Hashable:
        return traits.size if self._is_coarse else (traits.size, traits.price, traits.scopes)

    def __call__(self, template: int) -> Hashable | None:
        traits = self._traits[template]
        if self._is_coarse and (traits.beyond_node >= 0 or traits.scopes):
            return None
        shape = self._shape(traits)
        pods = self._by_exclusion[shape, traits.exclusion]
        is_large = pods >= max(_LEAST_PODS, _LEAST_SHARE * self._by_shape[shape])
        exclusion = traits.exclusion if is_large else -1
        return shape, exclusion, -1 if self._is_coarse else traits.beyond_node
