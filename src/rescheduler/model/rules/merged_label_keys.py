"""What the API server has added to a pod's selectors because of `matchLabelKeys`.

When a pod is created, the server looks up each label key that a term of pod (anti-)affinity names
in `matchLabelKeys` or `mismatchLabelKeys`, and adds an expression with the pod's own value to the
term's selector. Since Kubernetes 1.34 it does the same for topology spread constraints. It does so
once: not when the pod gets the label later. And it refuses a pod that already has such an
expression and the label.

The functions work on JSON, because new pods are created from it.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rescheduler.model.rules.placing_affinity import PREFERRED, REQUIRED

CONSTRAINTS = "topologySpreadConstraints"
KEYS_OF_OPERATOR = {"In": "matchLabelKeys", "NotIn": "mismatchLabelKeys"}

Json = Mapping[str, Any]
Term = dict[str, Any]
"""A term of pod (anti-)affinity, or a topology spread constraint."""


def without_merged_expressions(spec: Json, labels: Json) -> dict[str, Any]:
    """The spec of a pod with these labels, without the expressions that the server has added."""
    return _with_changed_terms(spec, lambda term: _without_merged(term, labels))


def with_merged_expressions(spec: Json, key: str, running: Json, labels: Json) -> dict[str, Any]:
    """A template's spec with what the server has added for one key to a running pod's spec.

    `labels` are those of the running pod. A server that adds nothing has added nothing to it.
    """
    merged = list(_terms(running))

    def with_expressions_of_same_term(term: Term) -> Term:
        for other in merged:
            if _without_merged(other, labels) == term:
                return _with_expressions(term, _merged(other, key, labels))
        return term

    return _with_changed_terms(spec, with_expressions_of_same_term) if merged else dict(spec)


def _terms(spec: Json) -> Iterator[Term]:
    """All terms and constraints of a spec that select pods."""
    yield from spec.get(CONSTRAINTS) or ()
    for kind in ("podAffinity", "podAntiAffinity"):
        affinity = (spec.get("affinity") or {}).get(kind) or {}
        yield from affinity.get(REQUIRED) or ()
        for preference in affinity.get(PREFERRED) or ():
            yield preference["podAffinityTerm"]


def _with_changed_terms(spec: Json, change: Callable[[Term], Term]) -> dict[str, Any]:
    changed = dict(spec)
    if spec.get(CONSTRAINTS):
        changed[CONSTRAINTS] = [change(constraint) for constraint in spec[CONSTRAINTS]]
    if spec.get("affinity"):
        changed["affinity"] = {
            kind: value if kind == "nodeAffinity" else _with_changed_affinity(value, change)
            for kind, value in spec["affinity"].items()
        }
    return changed


def _with_changed_affinity(affinity: Json | None, change: Callable[[Term], Term]) -> Json | None:
    """A pod (anti-)affinity with each of its terms changed."""
    changed = dict(affinity or {})
    if changed.get(REQUIRED):
        changed[REQUIRED] = [change(term) for term in changed[REQUIRED]]
    if changed.get(PREFERRED):
        changed[PREFERRED] = [
            {**preference, "podAffinityTerm": change(preference["podAffinityTerm"])}
            for preference in changed[PREFERRED]
        ]
    return changed


def _without_merged(term: Term, labels: Json) -> Term:
    expressions = _expressions(term)
    own = [one for one in expressions if not _is_merged(one, term, labels)]
    if len(own) == len(expressions):
        return term
    selector = {**term["labelSelector"], "matchExpressions": own}
    if not own:
        del selector["matchExpressions"]
    return {**term, "labelSelector": selector}


def _merged(term: Term, key: str, labels: Json) -> list[Json]:
    """The expressions that the server has added to a term for one label key."""
    return [
        one for one in _expressions(term) if one["key"] == key and _is_merged(one, term, labels)
    ]


def _is_merged(expression: Json, term: Term, labels: Json) -> bool:
    key = expression["key"]
    keys = term.get(KEYS_OF_OPERATOR.get(expression["operator"], "")) or ()
    return key in keys and key in labels and expression.get("values") == [labels[key]]


def _with_expressions(term: Term, expressions: list[Json]) -> Term:
    if not expressions:
        return term
    selector = term["labelSelector"]
    both = [*_expressions(term), *expressions]
    return {**term, "labelSelector": {**selector, "matchExpressions": both}}


def _expressions(term: Term) -> list[Json]:
    return (term.get("labelSelector") or {}).get("matchExpressions") or []
