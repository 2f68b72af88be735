"""Label selectors: what they select, and how people write them as text.

The text is kubectl's: `app=web,tier in (a,b),!legacy,x!=y,z notin (c)`.
"""

import re
from collections.abc import Iterator, Mapping

from rescheduler.model.objects import LabelSelector, Requirement

EXPECTED = "expected a label selector such as 'app=web,tier in (a,b),!legacy,x!=y'"

_KEY = re.compile(
    r"(?:(?=[^/]{1,253}/)[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*/)?"
    r"(?=[^/]{1,63}$)[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?"
)
_VALUE = re.compile(r"(?=.{0,63}$)(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
# A comma inside parentheses separates values, any other separates requirements.
_COMMA = re.compile(r",(?![^(]*\))")
_SET = re.compile(r"(?P<key>\S+)\s+(?P<operator>in|notin)\s*\((?P<values>[^()]*)\)")
_EQUALITY = re.compile(r"(?P<key>[^!=\s]+)\s*(?P<operator>==?|!=)\s*(?P<value>[^!=\s]*)")
_OPERATORS = {"in": "In", "notin": "NotIn", "=": "In", "==": "In", "!=": "NotIn"}


class BadSelector(ValueError):
    """Text that is not a label selector; its message has the part at fault."""


def selects(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Whether labels are selected: no selector selects nothing, an empty one everything."""
    return selector is not None and matches(selector, labels)


def matches(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    """Whether all pairs and all expressions of the selector hold for these labels."""
    for key, value in selector.match_labels.items():
        if labels.get(key) != value:
            return False
    return all(holds(requirement, labels) for requirement in selector.match_expressions)


def holds(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    """Whether one expression holds.

    NotIn also holds where the label is absent. An operator that Kubernetes does not know never
    holds: better to select too little than too much.
    """
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    return False


def selector_keys(selector: LabelSelector) -> set[str]:
    """The label keys that a selector refers to."""
    expressions = selector.match_expressions
    return {*selector.match_labels, *(expression.key for expression in expressions)}


def parse_selector(text: str) -> LabelSelector:
    """The selector that a text means; an empty text selects everything."""
    return LabelSelector(match_expressions=tuple(_requirements(text)))


def selector_text(selector: LabelSelector) -> str:
    """A selector as text, which the API server reads as well; `parse_selector` reads it back."""
    pairs = [f"{key}={value}" for key, value in selector.match_labels.items()]
    return ",".join([*pairs, *map(_requirement_text, selector.match_expressions)])


def _requirement_text(requirement: Requirement) -> str:
    match requirement.operator:
        case "In" | "NotIn":
            return (
                f"{requirement.key} {requirement.operator.lower()} ({','.join(requirement.values)})"
            )
        case "DoesNotExist":
            return f"!{requirement.key}"
        case _:
            return requirement.key


def _requirements(text: str) -> Iterator[Requirement]:
    if not text.strip():
        return
    for part in _COMMA.split(text):
        requirement = _requirement(part.strip())
        _check(requirement, part.strip())
        yield requirement


def _requirement(part: str) -> Requirement:
    if match := _SET.fullmatch(part):
        values = tuple(value.strip() for value in match["values"].split(","))
        return Requirement(match["key"], _OPERATORS[match["operator"]], values)
    if match := _EQUALITY.fullmatch(part):
        return Requirement(match["key"], _OPERATORS[match["operator"]], (match["value"],))
    if part.startswith("!"):
        return Requirement(part[1:].lstrip(), "DoesNotExist")
    return Requirement(part, "Exists")


def _check(requirement: Requirement, part: str) -> None:
    if not _KEY.fullmatch(requirement.key):
        raise BadSelector(f"{part!r}: {EXPECTED}")
    for value in requirement.values:
        if not _VALUE.fullmatch(value):
            raise BadSelector(f"{part!r}: {value!r} cannot be a label's value; {EXPECTED}")
