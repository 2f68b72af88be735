"""The best end state within the move limit, from an exact solver (HiGHS).

It decides where the pods end up, not in which order they get there: what it finds is at least as
good as anything that can be done one move after another.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations

import highspy
from highspy.highs import highs_linear_expression, highs_var

from tests.planning.exact.move_orders import has_order
from tests.planning.exact.objectives import Balance, mean_price, move_price, value_of
from tests.planning.exact.small_clusters import Counts, Machine, SmallCluster, Workload

Variable = highs_var
Expression = highs_linear_expression

LONGEST_SECONDS = 30.0
# Of what is gained: squares are cut off by tangents until no more than this is open.
_GAP = 0.002
_LARGEST_GAP = 0.005
# Before it is known how much is gained.
_FIRST_GAP = 5e-4
_LEAST_GAP = 1e-5
# Less than the price of a move.
_NOTHING = 1e-6
_FIRST_TANGENTS = tuple(step / 100 for step in range(-60, 61, 4))


@dataclass(frozen=True)
class Optimum:
    """Where the pods would best be, and what that is worth."""

    counts: Counts
    """The best end state found."""
    value: float
    """Its objective."""
    bound: float
    """No end state has a lower objective. It is that of `counts` but for a small gap."""

    @property
    def gap(self) -> float:
        """What the solver left open."""
        return self.value - self.bound

    def is_proven(self, cluster: SmallCluster) -> bool:
        """Whether next to nothing was left open."""
        return self.gap <= _LARGEST_GAP * self.gain(cluster)

    def gains_anything(self, cluster: SmallCluster) -> bool:
        """Whether it is better than to leave the pods where they are."""
        return self.gain(cluster) > _NOTHING

    def gain(self, cluster: SmallCluster) -> float:
        """How much better it is than to leave the pods where they are."""
        return value_of(cluster, cluster.start) - self.value


def solve(cluster: SmallCluster, longest_seconds: float = LONGEST_SECONDS) -> Optimum:
    """The best end state, one that can be reached if possible, and how good any could be."""
    model = EndModel(cluster)
    best = model.solve(longest_seconds)
    if "LoadBalancing" in cluster.strategies or has_order(cluster, best.counts):
        return best
    return model.with_room(best, longest_seconds)


class EndModel:
    """How many pods of each workload end up on each node, as an integer program."""

    def __init__(self, cluster: SmallCluster) -> None:
        self._cluster = cluster
        self._highs = highspy.Highs()  # type: ignore[no-untyped-call]
        self._highs.silent()
        self._numbers = range(len(cluster.machines))
        self._counts = [
            [self._count(row, number) for number in self._numbers]
            for row in range(len(cluster.workloads))
        ]
        self._gone = [self._departures(row) for row in range(len(cluster.workloads))]
        self._require(self._sum(self._gone) <= cluster.most_moves)
        self._squares: list[tuple[Variable, Variable]] = []
        self._keep_all_pods()
        self._keep_room()
        self._keep_company()
        self._keep_spread()
        wanted = {
            "LoadBalancing": self._imbalance,
            "CostOptimization": self._cost,
            "Defragmentation": self._missing_room,
            "ResourceOptimization": self._nothing,
        }
        self._objective: Expression = self._sum(
            [
                *(cluster.goals.weight(name) * wanted[name]() for name in cluster.strategies),
                *(move_price(cluster, row) * gone for row, gone in enumerate(self._gone)),
            ]
        )

    def solve(self, longest_seconds: float) -> Optimum:
        """Solve, and where squares are only approximated, again until that is good enough."""
        start = self._cluster.start
        best = Optimum(start, value_of(self._cluster, start), 0.0)
        deadline = time.monotonic() + longest_seconds
        gap = _FIRST_GAP
        while (left := deadline - time.monotonic()) > 0:
            best = self._better(best, gap, left)
            enough = _GAP * max(best.gain(self._cluster), 0.0) + _LEAST_GAP
            if best.gap <= enough:
                break
            gap = enough / 2
            if self._squares:
                self._add_tangents()
        return best

    def least_value(self, longest_seconds: float) -> float:
        """What the solver proves within this time that nothing is below."""
        self._end(_LEAST_GAP, longest_seconds)
        return self._highs.getInfo().mip_dual_bound

    def _better(self, best: Optimum, gap: float, seconds: float) -> Optimum:
        counts = self._end(gap, seconds)
        bound = max(best.bound, self._highs.getInfo().mip_dual_bound)
        if counts is None or value_of(self._cluster, counts) > best.value:
            return Optimum(best.counts, best.value, min(bound, best.value))
        value = value_of(self._cluster, counts)
        return Optimum(counts, value, min(bound, value))

    def _end(self, gap: float, seconds: float) -> Counts | None:
        """What the solver finds within this time, if it finds anything."""
        self._highs.setOptionValue("threads", 1)
        self._highs.setOptionValue("random_seed", 1)
        self._highs.setOptionValue("mip_rel_gap", 0.0)
        self._highs.setOptionValue("mip_abs_gap", gap)
        self._highs.setOptionValue("time_limit", seconds)
        self._highs.minimize(self._objective)
        if not self._highs.getSolution().value_valid:
            return None
        return [[round(self._highs.variableValue(each)) for each in row] for row in self._counts]

    def with_room(self, best: Optimum, longest_seconds: float) -> Optimum:
        """An end as good as the best for which as little as possible has to make room first."""
        self._require(self._objective <= best.value + _LEAST_GAP)
        self._objective = self._crowding()
        counts = self._end(_LEAST_GAP, longest_seconds)
        return best if counts is None else Optimum(counts, best.value, best.bound)

    def _crowding(self) -> Expression:
        """What arrivals need beyond what is free at the start, as parts of nodes."""
        needed = []
        for number, machine in enumerate(self._cluster.machines):
            arriving = [self._number(0, len(each.on)) for each in self._cluster.workloads]
            for row, arrivals in enumerate(arriving):
                start = self._cluster.start[row][number]
                self._require(arrivals - self._counts[row][number] >= -start)
            pairs = list(zip(self._cluster.workloads, arriving, strict=True))
            cpu = self._sum(workload.cpu * arrivals for workload, arrivals in pairs)
            memory = self._sum(workload.memory * arrivals for workload, arrivals in pairs)
            free_cpu, free_memory, _ = self._cluster.free(self._cluster.start, number)
            needed.append(self._number(0, 10))
            self._require(machine.cpu * needed[-1] - cpu >= -free_cpu)
            self._require(machine.memory * needed[-1] - memory >= -free_memory)
        return self._sum(needed)

    # ------------------------------------------------------------ what may be

    def _count(self, row: int, number: int) -> Variable:
        workload = self._cluster.workloads[row]
        start = self._cluster.start[row][number]
        least = 0 if workload.is_movable else start
        return self._integer(least, self._most(row, number))

    def _most(self, row: int, number: int) -> int:
        workload, machine = self._cluster.workloads[row], self._cluster.machines[number]
        start = self._cluster.start[row][number]
        if not workload.is_movable or not workload.may_run_on(machine):
            return start
        return 1 if workload.group else min(len(workload.on), start + self._cluster.most_moves)

    def _departures(self, row: int) -> Expression:
        """How many pods of a workload leave their node, which the limit is on."""
        gone = []
        for number, start in enumerate(self._cluster.start[row]):
            if self._cluster.workloads[row].is_movable and start:
                gone.append(self._number(0, start))
                self._require(gone[-1] + self._counts[row][number] >= start)
        return self._sum(gone)

    def _keep_all_pods(self) -> None:
        for workload, row in zip(self._cluster.workloads, self._counts, strict=True):
            self._require(self._sum(row) == len(workload.on))

    def _keep_room(self) -> None:
        for number, machine in enumerate(self._cluster.machines):
            self._require(self._cpu(number) <= machine.cpu)
            self._require(self._memory(number) <= machine.memory)
            self._require(self._slots(number) <= machine.slots)
            threshold = self._cluster.goals.threshold
            if threshold is not None:
                self._require(100 * self._cpu(number) <= threshold * machine.cpu)
                self._require(100 * self._memory(number) <= threshold * machine.memory)

    def _keep_company(self) -> None:
        workloads = self._cluster.workloads
        for group in sorted({each.group for each in workloads if each.group is not None}):
            rows = [row for row, each in enumerate(workloads) if each.group == group]
            for number in self._numbers:
                together = self._sum(self._counts[row][number] for row in rows)
                self._require(together <= 1)
                for avoiding in (row for row, each in enumerate(workloads) if each.avoids == group):
                    most = len(workloads[avoiding].on)
                    self._require(self._counts[avoiding][number] + most * together <= most)

    def _keep_spread(self) -> None:
        for row, workload in enumerate(self._cluster.workloads):
            if workload.max_skew is not None:
                self._keep_spread_of(workload, row, workload.max_skew)

    def _keep_spread_of(self, workload: Workload, row: int, max_skew: int) -> None:
        zones = [
            self._sum(self._counts[row][number] for number in numbers)
            for numbers in self._cluster.spread_zones(workload)
        ]
        for one, other in combinations(zones, 2):
            self._require(one - other <= max_skew)
            self._require(other - one <= max_skew)

    # ------------------------------------------------------------ what is wanted

    def _imbalance(self) -> Expression:
        balance = Balance(self._cluster)
        squares = [
            (balance.weight(machine), self._square(number, machine, balance.target))
            for number, machine in balance.nodes
        ]
        if not self._cluster.goals.is_even_enough:
            return self._sum(weight * square for weight, square in squares)
        worse = []
        at_start = balance.costs(self._cluster.start)
        for (weight, square), then in zip(squares, at_start, strict=True):
            worse.append(self._number(0, 10))
            self._require(worse[-1] - weight * square >= -then)
        return self._sum(worse)

    def _square(self, number: int, machine: Machine, target: float) -> Variable:
        """Of the distance of a node's load from the target."""
        distance, square = self._number(-1, 1), self._number(0, 1)
        cpu = self._cpu(number) * (0.5 / machine.cpu)
        memory = self._memory(number) * (0.5 / machine.memory)
        self._require(cpu + memory - distance == target)
        self._squares.append((distance, square))
        for at in _FIRST_TANGENTS:
            self._add_tangent(distance, square, at)
        return square

    def _add_tangents(self) -> None:
        """Make the approximation exact at the last solution."""
        at = [self._highs.variableValue(distance) for distance, _ in self._squares]
        for (distance, square), where in zip(self._squares, at, strict=True):
            # HiGHS takes no coefficients next to zero.
            self._add_tangent(distance, square, round(where, 6))

    def _add_tangent(self, distance: Variable, square: Variable, at: float) -> None:
        self._require(square - 2 * at * distance >= -at * at)

    def _cost(self) -> Expression:
        prices = []
        for number, machine in enumerate(self._cluster.machines):
            in_use = self._integer(0, 1)
            prices.append(machine.price / mean_price(self._cluster) * in_use)
            movable = [row for row, each in enumerate(self._cluster.workloads) if each.is_movable]
            for row in movable:
                self._require(self._counts[row][number] - self._most(row, number) * in_use <= 0)
            # Implied, but the solver sees much sooner what cannot be.
            self._require(self._cpu(number, movable) - machine.cpu * in_use <= 0)
            self._require(self._memory(number, movable) - machine.memory * in_use <= 0)
        return self._sum(prices)

    def _missing_room(self) -> Expression:
        missing = []
        shape = self._cluster.goals.shape
        for number, machine in enumerate(self._cluster.machines):
            if machine.is_for_everyone:
                room = {"cpu": machine.cpu, "memory": machine.memory}
                possible = min(machine.slots, *(room[name] // shape[name] for name in shape))
                whole = self._integer(0, possible)
                self._require(whole + self._slots(number) <= machine.slots)
                used = {"cpu": self._cpu(number), "memory": self._memory(number)}
                for name, amount in shape.items():
                    self._require(used[name] + amount * whole <= room[name])
                missing.append(possible - whole)
        return self._sum(missing)

    def _nothing(self) -> Expression:
        return self._sum([])

    # ------------------------------------------------------------ for the solver

    def _cpu(self, number: int, rows: list[int] | None = None) -> Expression:
        workloads = self._cluster.workloads
        rows = list(range(len(workloads))) if rows is None else rows
        return self._sum(workloads[row].cpu * self._counts[row][number] for row in rows)

    def _memory(self, number: int, rows: list[int] | None = None) -> Expression:
        workloads = self._cluster.workloads
        rows = list(range(len(workloads))) if rows is None else rows
        return self._sum(workloads[row].memory * self._counts[row][number] for row in rows)

    def _slots(self, number: int) -> Expression:
        return self._sum(row[number] for row in self._counts)

    def _sum(self, terms: Iterable[Variable | Expression]) -> Expression:
        return self._highs.qsum(terms)

    def _require(self, constraint: Expression) -> None:
        self._highs.addConstr(constraint)

    def _number(self, least: float, most: float) -> Variable:
        variable: Variable = self._highs.addVariable(lb=least, ub=most)
        return variable

    def _integer(self, least: int, most: int) -> Variable:
        whole = highspy.HighsVarType.kInteger
        variable: Variable = self._highs.addVariable(lb=least, ub=most, type=whole)
        return variable
