"""The best plan there is: an end state, and moves to it that are possible one after another.

The program of `optimum` is about the end alone. Here, there is one state for each wave of moves,
and every node must hold what comes in a wave beside all that was there before it. With as many
waves as moves, every plan is among them, also those that park pods on the way.
"""

from itertools import permutations

from highspy.highs import highs_linear_expression, highs_var

from tests.planning.exact.objectives import move_price, value_of
from tests.planning.exact.optimum import EndModel
from tests.planning.exact.small_clusters import SmallCluster, Workload

State = list[list[highs_linear_expression]]
"""By workload and node, how many pods there are."""


def least_value_of_plans(cluster: SmallCluster, longest_seconds: float) -> float:
    """No plan leads to less than this, its moves included; the solver has so long to raise it."""
    least = _PlanModel(cluster).least_value(longest_seconds)
    return min(least, value_of(cluster, cluster.start))


class _PlanModel(EndModel):
    """One wave after another, of which the last leads to the end."""

    def __init__(self, cluster: SmallCluster) -> None:
        super().__init__(cluster)
        self._movable = [row for row, each in enumerate(cluster.workloads) if each.is_movable]
        self._moves: list[tuple[int, highs_var]] = []
        state = [[self._constant(count) for count in row] for row in cluster.start]
        for wave in range(cluster.most_moves):
            state = self._add_wave(state, is_last=wave == cluster.most_moves - 1)
        self._require(self._sum(coming for _, coming in self._moves) <= cluster.most_moves)
        # Every move has its price, not only what is elsewhere in the end.
        prices = [move_price(cluster, row) for row in range(len(cluster.workloads))]
        self._objective = self._sum(
            [
                self._objective,
                *(prices[row] * coming for row, coming in self._moves),
                *(-prices[row] * gone for row, gone in enumerate(self._gone)),
            ]
        )

    def _constant(self, count: int) -> highs_linear_expression:
        number: highs_linear_expression = self._sum([]) + count
        return number

    def _add_wave(self, before: State, *, is_last: bool) -> State:
        """The state after a wave."""
        meanwhile, after = [list(row) for row in before], [list(row) for row in before]
        for row in self._movable:
            workload = self._cluster.workloads[row]
            for number, machine in enumerate(self._cluster.machines):
                if workload.may_run_on(machine):
                    coming = self._integer(0, 1)
                    self._moves.append((row, coming))
                    meanwhile[row][number] = before[row][number] + coming
                then = self._integer(0, len(workload.on))
                self._require(meanwhile[row][number] - then >= 0)
                after[row][number] = self._sum([then])
                if is_last:
                    self._require(then - self._counts[row][number] == 0)
            self._require(self._sum(after[row]) == len(workload.on))
            if workload.max_skew is not None:
                self._spread(workload, workload.max_skew, before[row], meanwhile[row], after[row])
        for number in self._numbers:
            self._hold(number, [row[number] for row in meanwhile])
        return after

    def _spread(
        self,
        workload: Workload,
        max_skew: int,
        before: list[highs_linear_expression],
        meanwhile: list[highs_linear_expression],
        after: list[highs_linear_expression],
    ) -> None:
        """Pods are welcome beside their old selves, and all is well afterwards."""
        for here, there in permutations(self._cluster.spread_zones(workload), 2):
            for ours, theirs in ((meanwhile, before), (after, after)):
                most = self._sum(ours[number] for number in here)
                least = self._sum(theirs[number] for number in there)
                self._require(most - least <= max_skew)

    def _hold(self, number: int, held: list[highs_linear_expression]) -> None:
        """What a node holds while pods come."""
        machine, workloads = self._cluster.machines[number], self._cluster.workloads
        pairs = list(zip(workloads, held, strict=True))
        percent = self._cluster.goals.threshold or 100
        cpu = self._sum(each.cpu * count for each, count in pairs)
        memory = self._sum(each.memory * count for each, count in pairs)
        self._require(cpu <= machine.cpu * percent / 100)
        self._require(memory <= machine.memory * percent / 100)
        self._require(self._sum(held) <= machine.slots)
        for group in sorted({each.group for each in workloads if each.group is not None}):
            together = self._sum(count for each, count in pairs if each.group == group)
            self._require(together <= 1)
            for each, count in pairs:
                if each.avoids == group:
                    self._require(count + len(each.on) * together <= len(each.on))
