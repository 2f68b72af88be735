"""Every move and every swap there is, and what each would change.

A swap changes two nodes, and what it does to one does not depend on the other: a pod of some
template goes, a pod of some other comes. So for every group and every template that could come in
its place one number is kept, and the best swap of a group is found by adding two rows. After a
change only the rows of two nodes are computed again. A move is the same with nothing in exchange.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rescheduler.model.snapshot import Bools, Floats, Ints
from rescheduler.planning.search.assignment import Assignment, Shift

_NOBODY = -1
_ROWS_AT_ONCE = 256
# Chance decides between equals.
_NOISE = 1e-8


class Neighbour(NamedTuple):
    """A change of the assignment, and by how much the objective would rise."""

    delta: float
    shifts: tuple[Shift, ...]

    def nodes(self) -> set[int]:
        """The nodes that it changes."""
        return {node for shift in self.shifts for node in (shift.source, shift.target)}


class Neighbourhood:
    """The changes that an assignment allows, kept up to date as it changes."""

    def __init__(self, assignment: Assignment) -> None:
        self._assignment = assignment
        self._problem = assignment.problem
        templates = np.unique(self._problem.groups.template)
        self._templates: Ints = templates
        self._number: Ints = np.full(len(self._problem.snapshot.templates), -1, np.int32)
        self._number[templates] = np.arange(len(templates))
        self._demand: Floats = self._problem.load.demand[:, templates]
        self._prices: Floats = self._problem.move_prices[templates]
        conflicts = assignment.conflicts
        self._conflict_row = conflicts.row_of[templates]
        self._refused = self._problem.pods.refused_masks(templates)
        count, nodes = len(templates), len(assignment.now)
        # Groups come and go; a row is reserved for each that exists.
        self._row_of: dict[tuple[int, int], int] = {}
        self._rows_of_template: list[list[int]] = [[] for _ in range(count)]
        self._rows_of_node: list[list[int]] = [[] for _ in range(nodes)]
        self._unused: list[int] = []
        self._row_template: Ints = np.empty(0, np.int32)
        self._row_node: Ints = np.empty(0, np.int32)
        self._trade: Floats = np.empty((0, count))
        self._leave: Floats = np.empty(0)
        self._best: Floats = np.empty(0)
        self._partner: Ints = np.empty(0, np.int32)
        self._come: Floats = np.full((count, nodes), np.inf)
        self._come_best: Floats = np.full(count, np.inf)
        self._come_node: npt.NDArray[np.int64] = np.zeros(count, np.int64)
        self._trade_best: Floats = np.full((count, count), np.inf)
        self._trade_second: Floats = np.full((count, count), np.inf)
        self._trade_row: Ints = np.zeros((count, count), np.int32)
        self._factor = 1.0
        self._nudge = 1.0
        self.direct_swaps_only = True
        """Whether one of two pods that change places must be able to go first."""
        self._forbidden: list[set[int]] = [set() for _ in range(nodes)]

    def forbid(self, template: int, node: int) -> None:
        """No pod of the template may come to the node for now; heeded when it is refreshed."""
        self._forbidden[node].add(int(self._number[template]))

    def allow(self, template: int, node: int) -> None:
        """It may again; heeded when the node is refreshed."""
        self._forbidden[node].discard(int(self._number[template]))

    def rebuild(self, price_factor: float, nudge: float) -> None:
        """Compute everything again, with this price for moves and this weight for guidance."""
        self._factor, self._nudge = price_factor, nudge
        for node in range(len(self._rows_of_node)):
            self._list_groups(node)
        for node in range(len(self._rows_of_node)):
            self._look_at(node)
        for number in range(len(self._templates)):
            self._rank(number)
        self._come_node = self._come.argmin(axis=1)
        self._come_best = self._come.min(axis=1)
        rows = list(self._row_of.values())
        for first in range(0, len(rows), _ROWS_AT_ONCE):
            self._pair(rows[first : first + _ROWS_AT_ONCE])

    def refresh(self, nodes: tuple[int, ...]) -> None:
        """Pods came to these nodes or left them."""
        changed: set[int] = set()
        for node in nodes:
            changed.update(self._list_groups(node))
            self._look_at(node)
        for node in nodes:
            self._follow_arrivals(node)
            changed.update(int(self._row_template[row]) for row in self._rows_of_node[node])
        for number in changed:
            self._rank(number)
        rows = {row for node in nodes for row in self._rows_of_node[node]}
        for number in changed:
            rows.update(self._follow_trades(number))
        if rows:
            self._pair(sorted(rows))

    # ------------------------------------------------------------ which groups there are

    def _list_groups(self, node: int) -> set[int]:
        """Give rows to new groups of the node and take those of gone ones; whose they are."""
        now = self._assignment.now[node]
        gone = [
            row
            for row in self._rows_of_node[node]
            if int(self._templates[self._row_template[row]]) not in now
        ]
        changed = set()
        for row in gone:
            number = int(self._row_template[row])
            changed.add(number)
            self._rows_of_node[node].remove(row)
            self._rows_of_template[number].remove(row)
            del self._row_of[number, node]
            self._trade[row], self._leave[row], self._best[row] = np.inf, np.inf, np.inf
            self._partner[row] = _NOBODY
            self._row_node[row] = _NOBODY
            self._unused.append(row)
        for template in now:
            number = int(self._number[template])
            if (number, node) not in self._row_of:
                changed.add(number)
                row = self._new_row(number, node)
                self._rows_of_node[node].append(row)
                self._rows_of_template[number].append(row)
                self._row_of[number, node] = row
        return changed

    def _new_row(self, number: int, node: int) -> int:
        if not self._unused:
            first, more = len(self._leave), max(64, len(self._assignment))
            self._unused = list(range(first + more - 1, first - 1, -1))
            columns = self._trade.shape[1]
            self._trade = np.concatenate([self._trade, np.full((more, columns), np.inf)])
            self._leave = np.concatenate([self._leave, np.full(more, np.inf)])
            self._best = np.concatenate([self._best, np.full(more, np.inf)])
            nobody = np.full(more, _NOBODY, np.int32)
            self._partner = np.concatenate([self._partner, nobody])
            self._row_template = np.concatenate([self._row_template, np.zeros(more, np.int32)])
            self._row_node = np.concatenate([self._row_node, nobody])
        row = self._unused.pop()
        self._row_template[row], self._row_node[row] = number, node
        return row

    # ------------------------------------------------------------ what a change does to one node

    def _look_at(self, node: int) -> None:
        """What any pod's coming, going or taking another's place would change on the node."""
        totals = self._assignment.totals
        rows = self._rows_of_node[node]
        numbers = self._row_template[rows]
        coming, going = len(self._templates), len(rows)
        used = totals.used[:, node]
        without = used[:, None] - self._demand[:, numbers]
        traded = without[:, :, None] + self._demand[:, None, :]
        # All what-ifs at once: as it is, one more, one less, one for another.
        then = np.concatenate(
            [used[:, None], used[:, None] + self._demand, without, traded.reshape(len(used), -1)],
            axis=1,
        )
        movable = np.full(then.shape[1], totals.movable[node], np.int32)
        movable[1 : 1 + coming] += 1
        movable[1 + coming : 1 + coming + going] -= 1
        costs = self._costs(node, then, movable)
        avoided = totals.objective.avoids(np.array([node]), then)
        costs -= costs[0]
        if avoided is not None:
            staying = costs[1 + coming : 1 + coming + going].copy()
            costs[avoided] = np.inf
            costs[1 + coming : 1 + coming + going] = staying
        paid, saved = self._paid_for_coming(node), self._saved_by_going(node, numbers)
        self._come[:, node] = costs[1 : 1 + coming] + paid
        self._come[self._cannot_come(node), node] = np.inf
        if going:
            self._leave[rows] = costs[1 + coming : 1 + coming + going] - saved
            trade = costs[1 + coming + going :].reshape(going, coming)
            trade += paid - saved[:, None]
            trade[self._cannot_replace(node, numbers, without)] = np.inf
            self._trade[rows] = trade

    def _costs(self, node: int, used: Floats, movable: Ints) -> Floats:
        objective = self._assignment.totals.objective
        here = np.array([node])
        costs = objective.cost(here, used, movable)
        if self._nudge:
            costs = costs + self._nudge * objective.guidance(here, used, movable)
        return costs

    def _cannot_come(self, node: int) -> Bools:
        assignment = self._assignment
        refused = (self._demand > assignment.totals.free[:, node][:, None]).any(axis=0)
        refused |= self._refused[:, node]
        refused |= assignment.conflicts.counts[self._conflict_row, node] > 0
        return np.asarray(refused)

    def _cannot_replace(self, node: int, numbers: Ints, without: Floats) -> Bools:
        assignment = self._assignment
        allocatable = self._problem.load.allocatable[:, node][:, None]
        room = np.maximum(allocatable - without, 0.0)[:, :, None]
        refused = (self._demand[:, None, :] > room).any(axis=0)
        refused |= self._refused[:, node]
        conflicts = assignment.conflicts.counts[:, node]
        for index, number in enumerate(numbers.tolist()):
            left = assignment.conflicts.without(int(self._templates[number]), conflicts)
            refused[index] |= left[self._conflict_row] > 0
            refused[index, number] = True
        return np.asarray(refused)

    def _paid_for_coming(self, node: int) -> Floats:
        """What each template pays for coming; nothing where a pod of the template has left."""
        allowances = self._assignment.allowances
        paid = self._prices * self._factor
        paid[~allowances.may_go[self._templates]] = np.inf
        if allowances.used_up[node]:
            paid[:] = np.inf
        start, now = self._assignment.start[node], self._assignment.now[node]
        for template, count in start.items():
            if now.get(template, 0) < count:
                paid[self._number[template]] = 0.0
        if self._forbidden[node]:
            paid[list(self._forbidden[node])] = np.inf
        return paid

    def _saved_by_going(self, node: int, numbers: Ints) -> Floats:
        """What a pod's going is worth by itself: a move less, or a broken rule."""
        assignment = self._assignment
        templates = self._templates[numbers]
        start, now = assignment.start[node], assignment.now[node]
        surplus = np.array(
            [now[template] > start.get(template, 0) for template in templates.tolist()], bool
        )
        saved = np.where(surplus, self._prices[numbers] * self._factor, 0.0)
        if assignment.allowances.used_up[node]:
            saved[~surplus] = -np.inf
        here = np.full(len(templates), node, np.int32)
        return np.asarray(saved + assignment.gains_of_leaving(templates, here))

    # ------------------------------------------------------------ what goes with what

    def _rank(self, number: int) -> None:
        """Where a pod of this template would best be replaced by one of each other."""
        rows = self._rows_of_template[number]
        if not rows:
            self._trade_best[number] = self._trade_second[number] = np.inf
            return
        trades = self._trade[rows]
        if len(rows) == 1:
            self._trade_best[number], self._trade_row[number] = trades[0], rows[0]
            self._trade_second[number] = np.inf
            return
        best = trades.argmin(axis=0)
        self._trade_row[number] = np.array(rows, np.int32)[best]
        two = np.partition(trades, 1, axis=0)
        self._trade_best[number], self._trade_second[number] = two[0], two[1]

    def _offers(self, number: int, rows: npt.NDArray[np.int64] | slice) -> Floats:
        """What others would pay for pods of the template to come in their place."""
        offers = self._trade_best[number][self._row_template[rows]]
        best = self._trade_row[number][self._row_template[rows]]
        same_node = self._row_node[best] == self._row_node[rows]
        second = self._trade_second[number][self._row_template[rows]]
        return np.asarray(np.where(same_node, second, offers))

    def _follow_trades(self, number: int) -> list[int]:
        """Let rows have the template that do better with it; which ones need a new partner now?"""
        value = self._trade[:, number] + self._offers(number, slice(None))
        better = value < self._best
        lost = (self._partner == number) & (value > self._best)
        self._best[better] = value[better]
        self._partner[better] = number
        return np.flatnonzero(lost & (self._row_node != _NOBODY)).tolist()

    def _pair(self, rows: list[int]) -> None:
        """Find the best partner of each of these rows."""
        numbers = self._row_template[rows]
        offers = self._trade_best[:, numbers]
        nodes = self._row_node[rows]
        same_node = self._row_node[self._trade_row[:, numbers]] == nodes
        offers = np.where(same_node, self._trade_second[:, numbers], offers)
        value = self._trade[rows] + offers.T
        partner = value.argmin(axis=1)
        self._partner[rows] = partner
        self._best[rows] = value[np.arange(len(rows)), partner]

    def _follow_arrivals(self, node: int) -> None:
        """The best node for each template, after the column of a node has changed."""
        column = self._come[:, node]
        worse = np.flatnonzero((self._come_node == node) & (column > self._come_best))
        if len(worse):
            self._come_node[worse] = self._come[worse].argmin(axis=1)
            self._come_best[worse] = self._come[worse, self._come_node[worse]]
        better = column < self._come_best
        self._come_best[better], self._come_node[better] = column[better], node

    # ------------------------------------------------------------ what could be done

    def best(self, most: int, random: np.random.Generator) -> Iterator[Neighbour]:
        """The best changes of different pods, the very best first."""
        with np.errstate(invalid="ignore"):
            moves = self._leave + self._come_best[self._row_template]
        values = np.concatenate([moves, self._best])
        values[~np.isfinite(values)] = np.inf
        values += _NOISE * random.random(len(values))
        few = min(most, len(values))
        chosen = np.argpartition(values, few - 1)[:few] if few else np.arange(0)
        for index in chosen[np.argsort(values[chosen], kind="stable")].tolist():
            if np.isfinite(values[index]):
                is_swap = index >= len(moves)
                change = self._change(index % len(moves), float(values[index]), is_swap)
                if change.shifts:
                    yield change

    def _change(self, row: int, delta: float, is_swap: bool) -> Neighbour:
        number, node = int(self._row_template[row]), int(self._row_node[row])
        template = int(self._templates[number])
        if not is_swap:
            return self._move(row, number, node, delta)
        partner = int(self._partner[row])
        other = int(self._trade_row[partner, number])
        if self._row_node[other] == node:
            rows = [row for row in self._rows_of_template[partner] if row != other]
            other = min(rows, key=lambda row: float(self._trade[row, number]))
        there = int(self._row_node[other])
        neither_first = np.isinf(self._come[number, there]) and np.isinf(self._come[partner, node])
        if self.direct_swaps_only and neither_first:
            return Neighbour(delta, ())
        return Neighbour(
            delta,
            (Shift(template, node, there), Shift(int(self._templates[partner]), there, node)),
        )

    def _move(self, row: int, number: int, node: int, delta: float) -> Neighbour:
        template, target = int(self._templates[number]), int(self._come_node[number])
        if target == node:
            others = self._come[number].copy()
            others[node] = np.inf
            target = int(others.argmin())
            delta = float(self._leave[row] + others[target])
            if not np.isfinite(delta):
                return Neighbour(delta, ())
        return Neighbour(delta, (Shift(template, node, target),))
