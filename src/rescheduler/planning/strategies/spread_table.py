"""How many pods each domain of each spread constraint holds, for all constraints at once.

A large cluster has thousands of constraints over thousands of nodes, most of whose domains hold no
pod of them. So only those that do are listed, in one table that is asked about many pods together.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rescheduler.model.snapshot import Bools, Floats, Ints

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class SpreadConstraint:
    """One constraint on how pods lie over domains."""

    what: str
    """For people: whose replicas."""
    key: str
    weight: float
    max_skew: int
    domain_of_node: Ints
    """-1 for nodes in no domain that the pods could use."""
    domains: int
    """How many there are that the pods could use."""


class SpreadTable:
    """The constraints, and how many of their pods are in which domain at the moment."""

    def __init__(self, constraints: Sequence[SpreadConstraint], nodes: Sequence[Ints]) -> None:
        """`nodes` are, by constraint, those of its pods: a node as often as it has such pods."""
        self.constraints = constraints
        count = len(constraints)
        self._weight = np.array([each.weight for each in constraints], np.float64)
        self._max_skew = np.array([each.max_skew for each in constraints], np.float64)
        self._domains = np.array([each.domains for each in constraints], np.int64)
        self._map_of, self._maps = _shared_maps(constraints)
        # Larger than the number of any domain.
        self._stride = int(self._maps.max(initial=0)) + 1
        # By constraint and domain that holds pods, or held some: both in one number, sorted.
        self._keys, self._held = self._counted(nodes)
        self._first: Rows = np.searchsorted(self._keys, np.arange(count + 1) * self._stride)
        # What follows from that, by constraint: what the emptiest domain holds, by how much all
        # others rise if it loses a pod, what it costs, and how many pods are too many.
        self._fewest, self._rise, self._cost, self._surplus = np.zeros((4, count))
        self._outdated: set[int] = set()
        self._sum_up_all()
        self.is_uneven: Bools = self._surplus > 0
        """By constraint, whether some domain holds too many pods at the start."""

    def _counted(self, nodes: Sequence[Ints]) -> tuple[Rows, Floats]:
        sizes = [len(each) for each in nodes]
        constraint = np.repeat(np.arange(len(nodes)), sizes)
        node = np.concatenate(nodes) if nodes else np.empty(0, np.int32)
        domain = self._maps[self._map_of[constraint], node]
        inside = domain >= 0
        keys = constraint[inside] * self._stride + domain[inside]
        found, counts = np.unique(keys, return_counts=True)
        return found, counts.astype(np.float64)

    def _sum_up_all(self) -> None:
        constraint = self._keys // self._stride
        count = len(self.constraints)

        def by_constraint(values: Floats) -> Floats:
            return np.bincount(constraint, values, count).astype(np.float64)

        fewest = np.full(count, np.inf)
        np.minimum.at(fewest, constraint, self._held)
        has_empty = np.bincount(constraint, minlength=count) < self._domains
        self._fewest = np.where(has_empty, 0.0, fewest)
        over = self._held - (self._fewest + self._max_skew)[constraint]
        crowding = _crowding(over)
        rise = _crowding(over + 1.0) - crowding
        self._rise = by_constraint(rise)
        self._cost = self._weight * by_constraint(crowding)
        self._surplus = by_constraint(np.maximum(over, 0.0))

    def _sum_up(self) -> None:
        """Bring up to date what follows from how many pods domains hold."""
        for number in self._outdated:
            held = self._held_of(number)
            self._fewest[number] = fewest = self._fewest_of(number, held)
            over = held - fewest - self._max_skew[number]
            crowding = _crowding(over)
            self._rise[number] = (_crowding(over + 1.0) - crowding).sum()
            self._cost[number] = self._weight[number] * crowding.sum()
            self._surplus[number] = np.maximum(over, 0.0).sum()
        self._outdated.clear()

    def _held_of(self, number: int) -> Floats:
        return self._held[self._first[number] : self._first[number + 1]]

    def _fewest_of(self, number: int, held: Floats) -> float:
        if np.count_nonzero(held) < self._domains[number]:
            return 0.0
        return float(held.min(initial=np.inf))

    # ------------------------------------------------------------ how pods lie

    def add(self, number: int, node: int, count: int) -> None:
        """So many pods of a constraint come to the node, or leave it."""
        domain = int(self._maps[self._map_of[number], node])
        if domain < 0:
            return
        key = number * self._stride + domain
        place = int(np.searchsorted(self._keys, key))
        if place == len(self._keys) or self._keys[place] != key:
            self._keys = np.insert(self._keys, place, key)
            self._held = np.insert(self._held, place, 0.0)
            self._first[number + 1 :] += 1
        self._held[place] += count
        self._outdated.add(number)

    def held_at(self, number: int, node: int) -> int:
        """How many pods of a constraint the domain of a node holds."""
        return int(self._held_at(np.array([number]), np.array([node]))[0])

    def _held_at(self, numbers: Rows, nodes: Ints | Rows) -> Floats:
        """The same for many; none for nodes in no domain."""
        if not len(self._keys):
            return np.zeros(len(numbers))
        domains = self._maps[self._map_of[numbers], nodes]
        keys = numbers * self._stride + domains
        places = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        is_held = (self._keys[places] == keys) & (domains >= 0)
        return np.where(is_held, self._held[places], 0.0)

    def fewest(self, number: int) -> int:
        """How many pods of a constraint its emptiest domain holds."""
        self._sum_up()
        return int(self._fewest[number])

    def surplus_of(self, number: int) -> int:
        """How many pods of a constraint are too many in their domains."""
        self._sum_up()
        return int(self._surplus[number])

    def surplus(self) -> int:
        """How many pods are too many in their domains, of all constraints."""
        self._sum_up()
        return int(self._surplus.sum())

    # ------------------------------------------------------------ what that costs

    def cost(self) -> float:
        """What it costs that the pods of all constraints are where they are."""
        self._sum_up()
        return float(self._cost.sum())

    def gains_of_leaving(self, numbers: Rows, nodes: Ints | Rows) -> Floats:
        """What is gained if a pod of each of these constraints leaves its node."""
        self._sum_up()
        held, fewest = self._held_at(numbers, nodes), self._fewest[numbers]
        over = held - fewest - self._max_skew[numbers]
        crowding = _crowding(over)
        gains = crowding - _crowding(over - 1.0)
        # If the emptiest domain loses a pod, all others may hold one less.
        emptiest = (held <= fewest) & (fewest > 0)
        if emptiest.any():
            lost = _crowding(over + 1.0) - crowding - self._rise[numbers]
            gains = np.where(emptiest, lost, gains)
        is_outside = self._maps[self._map_of[numbers], nodes] < 0
        return np.where(is_outside, 0.0, self._weight[numbers] * gains)

    def arrival_costs(self, number: int, source: int) -> Floats:
        """What it costs, on each node, if a pod of a constraint comes there from the source."""
        domain_of_node = self._maps[self._map_of[number]]
        first, last = self._first[number], self._first[number + 1]
        domains = self._keys[first:last] - number * self._stride
        held = self._held[first:last].copy()
        held[domains == domain_of_node[source]] -= 1.0
        most = self._fewest_of(number, held) + self._max_skew[number]
        over = held - most
        crowding = _crowding(over)
        # Nodes in no domain look up the last entry.
        by_domain = np.zeros(self._stride + 1)
        by_domain[:-1] = _crowding(np.array(1.0 - most))
        by_domain[domains] = _crowding(over + 1.0) - crowding
        emptiest = self._only_emptiest(number, domains, held)
        if emptiest is not None:
            # The others may then hold one more.
            by_domain[emptiest] = (_crowding(over - 1.0) - crowding).sum()
        return np.asarray(self._weight[number] * by_domain[domain_of_node])

    def _only_emptiest(self, number: int, domains: Rows, held: Floats) -> int | None:
        """The emptiest domain of a constraint, if there is only one."""
        empty = int(self._domains[number]) - np.count_nonzero(held)
        if empty > 1:
            return None
        if empty == 0:
            emptiest = domains[held == held.min()]
        else:
            usable = np.unique(self._maps[self._map_of[number]])
            emptiest = np.setdiff1d(usable[usable >= 0], domains[held > 0])
        return int(emptiest[0]) if len(emptiest) == 1 else None


def _shared_maps(constraints: Sequence[SpreadConstraint]) -> tuple[Rows, Ints]:
    """Which map from nodes to domains each constraint has, and the maps: they are few."""
    number_of: dict[int, int] = {}
    maps: list[Ints] = []
    map_of = np.zeros(len(constraints), np.int64)
    for row, constraint in enumerate(constraints):
        domains = constraint.domain_of_node
        map_of[row] = number_of.setdefault(id(domains), len(maps))
        if len(number_of) > len(maps):
            maps.append(domains)
    return map_of, np.array(maps, np.int32) if maps else np.zeros((0, 0), np.int32)


def _crowding(over: Floats) -> Floats:
    """1 for one pod too many in a domain, 1 + 2 for two, 1 + 2 + 3 for three."""
    over = np.maximum(over, 0.0)
    return np.asarray(over * (over + 1.0) / 2.0)
