"""Labels of many things (nodes, pod templates) as columns, so that a selector is a few operations
over all of them instead of a loop.

The rules are those of Kubernetes' label selectors, including which selectors are malformed.
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from rescheduler.model.objects import LabelSelector, NodeSelectorTerm, Requirement
from rescheduler.model.snapshot import Bools, Ints

_ABSENT = -1
_NAME = r"([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]"
_DOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_LABEL_KEY = re.compile(rf"(?:(?=[^/]{{1,253}}/){_DOMAIN}/)?{_NAME}")
_LABEL_VALUE = re.compile(rf"(?:{_NAME})?")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_NODE_NAME_FIELD = "metadata.name"


class LabelColumn(NamedTuple):
    """The values of one label: a small number for each thing, -1 where the label is absent."""

    codes: Ints
    code_of: dict[str, int]


class LabelColumns:
    """Which of many labelled things a selector selects. Columns are built when first asked for."""

    def __init__(self, labels: Sequence[Mapping[str, str]]) -> None:
        self._labels = labels
        self._columns: dict[str, LabelColumn] = {}
        self._selected: dict[bytes, Bools] = {}

    def __len__(self) -> int:
        return len(self._labels)

    def column(self, key: str) -> LabelColumn:
        """The values of the label `key`."""
        column = self._columns.get(key)
        if column is None:
            column = self._columns[key] = _column([labels.get(key) for labels in self._labels])
        return column

    def selected_by(self, selector: LabelSelector | None) -> Bools:
        """Things that a selector selects: none without a selector, all if it is empty."""
        if selector is None:
            return np.zeros(len(self), bool)
        key = msgspec.json.encode(selector, order="deterministic")
        selected = self._selected.get(key)
        if selected is None:
            selected = self.with_labels(selector.match_labels)
            for requirement in selector.match_expressions:
                selected &= self.satisfying(requirement)
            selected.flags.writeable = False
            self._selected[key] = selected
        return selected

    def with_labels(self, labels: Mapping[str, str]) -> Bools:
        """Things that carry all of these labels."""
        selected = np.ones(len(self), bool)
        for key, value in labels.items():
            codes, code_of = self.column(key)
            code = code_of.get(value)
            if code is None:
                selected[:] = False
            else:
                selected &= codes == code
        return selected

    def satisfying(self, requirement: Requirement) -> Bools:
        """Things that satisfy one expression. What is absent satisfies NotIn and DoesNotExist."""
        codes, code_of = self.column(requirement.key)
        match requirement.operator:
            case "In":
                return _with_values(codes, code_of, requirement.values)
            case "NotIn":
                return ~_with_values(codes, code_of, requirement.values)
            case "Exists":
                return np.asarray(codes >= 0)
            case "DoesNotExist":
                return np.asarray(codes < 0)
            case "Gt" | "Lt":
                return _compared(codes, code_of, requirement)
        return np.zeros(len(self), bool)


def is_well_formed(requirement: Requirement) -> bool:
    """Whether Kubernetes accepts the expression; it lets a malformed one match nothing."""
    values = requirement.values
    match requirement.operator:
        case "In" | "NotIn":
            right_values = len(values) > 0
        case "Exists" | "DoesNotExist":
            right_values = len(values) == 0
        case "Gt" | "Lt":
            right_values = len(values) == 1 and parse_integer(values[0]) is not None
        case _:
            return False
    return (
        right_values
        and _LABEL_KEY.fullmatch(requirement.key) is not None
        and all(_LABEL_VALUE.fullmatch(value) for value in values)
    )


class NodeLabels(LabelColumns):
    """Labels and names of nodes, for selectors that ask about either."""

    def __init__(self, names: Sequence[str], labels: Sequence[Mapping[str, str]]) -> None:
        super().__init__(labels)
        self._names = _column(list(names))

    def matching_any(self, terms: Sequence[NodeSelectorTerm]) -> Bools:
        """Nodes that match one of the terms. An empty or malformed term matches none."""
        matching = np.zeros(len(self), bool)
        for term in terms:
            if _is_usable(term):
                matching |= self._matching(term)
        return matching

    def _matching(self, term: NodeSelectorTerm) -> Bools:
        matching = np.ones(len(self), bool)
        for requirement in term.match_expressions:
            matching &= self.satisfying(requirement)
        for requirement in term.match_fields:
            matching &= self._field_equals(requirement.key, requirement.values[0]) == (
                requirement.operator == "In"
            )
        return matching

    def _field_equals(self, field: str, value: str) -> Bools:
        if field == _NODE_NAME_FIELD:
            return np.asarray(self._names.codes == self._names.code_of.get(value, -2))
        # A node has no other field that could be selected on, which counts as an empty one.
        return np.full(len(self), value == "")


def _is_usable(term: NodeSelectorTerm) -> bool:
    if not term.match_expressions and not term.match_fields:
        return False
    return all(map(is_well_formed, term.match_expressions)) and all(
        field.operator in ("In", "NotIn") and len(field.values) == 1 for field in term.match_fields
    )


def _column(values: Sequence[str | None]) -> LabelColumn:
    code_of: dict[str, int] = {}
    codes = [
        _ABSENT if value is None else code_of.setdefault(value, len(code_of)) for value in values
    ]
    return LabelColumn(np.array(codes, np.int32), code_of)


def _with_values(codes: Ints, code_of: Mapping[str, int], values: Sequence[str]) -> Bools:
    wanted = [code_of[value] for value in values if value in code_of]
    if len(wanted) == 1:
        return np.asarray(codes == wanted[0])
    # One entry more than there are values: absent labels, coded -1, look up the last.
    is_wanted = np.zeros(len(code_of) + 1, bool)
    is_wanted[wanted] = True
    return is_wanted[codes]


def _compared(codes: Ints, code_of: Mapping[str, int], requirement: Requirement) -> Bools:
    limit = parse_integer(requirement.values[0]) if len(requirement.values) == 1 else None
    satisfies = np.zeros(len(code_of) + 1, bool)
    for value, code in code_of.items():
        number = parse_integer(value)
        if number is not None and limit is not None:
            satisfies[code] = number > limit if requirement.operator == "Gt" else number < limit
    return satisfies[codes]


def parse_integer(text: str) -> int | None:
    """Text as a 64-bit integer, or None if it is not one."""
    if _INTEGER.fullmatch(text) is None:
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None
