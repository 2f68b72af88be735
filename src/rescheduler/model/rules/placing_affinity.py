"""What migrations have added to a pod's affinity so that it is placed on its target.

Earlier versions pinned a new pod to its target with a required node affinity, which stays in its
spec for ever. The webhook gives the replacement of an evicted pod preferences. Both have done their
work once the pod is bound: neither is a reason for it to stay, nor for where its next copy may go.
They are recognised by our annotations on the pod; what a user has written stays.

The functions work on JSON, because copies of pods are created from it.
"""

from collections.abc import Mapping
from typing import Any

from rescheduler.labels import ORIGINAL_POD

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

Json = Mapping[str, Any]


def is_new_pod(original_pod: str | None, previous_marks: str | None) -> bool:
    """Whether a migration has created or claimed the pod, by the values of two annotations.

    `ORIGINAL_POD` says so. When the pod is moved again, it is saved in `PREVIOUS_MARKS`.
    """
    return original_pod is not None or ORIGINAL_POD in (previous_marks or "")


def without_pin(affinity: Json) -> dict[str, Any]:
    """The affinity of a new pod without the node that every required term was narrowed to.

    The same affinity if it has no such pin.
    """
    node_affinity = affinity.get("nodeAffinity") or {}
    terms = (node_affinity.get(REQUIRED) or {}).get("nodeSelectorTerms") or []
    pins = [_pin(term) for term in terms]
    if not pins or any(pin is None or pin != pins[0] for pin in pins):
        return dict(affinity)
    rest = [{**term, "matchFields": term["matchFields"][:-1]} for term in terms]
    # A term with nothing else was an empty one, or none.
    own = [term for term in rest if any(term.values())]
    required = {"nodeSelectorTerms": own} if own else None
    return _with_node_affinity(affinity, {**node_affinity, REQUIRED: required})


def _pin(term: Json) -> str | None:
    """The node that a term was narrowed to: the last of its fields."""
    match term.get("matchFields") or []:
        case [*_, {"key": "metadata.name", "operator": "In", "values": [str(node)]}]:
            return node
    return None


def without_steering(affinity: Json) -> dict[str, Any]:
    """The affinity of a steered pod without preferences for and against nodes by their names."""
    node_affinity = affinity.get("nodeAffinity") or {}
    preferred = node_affinity.get(PREFERRED) or []
    own = [term for term in preferred if not _is_about_one_node(term.get("preference") or {})]
    return _with_node_affinity(affinity, {**node_affinity, PREFERRED: own})


def _is_about_one_node(preference: Json) -> bool:
    match preference.get("matchFields") or []:
        case [{"key": "metadata.name", "values": [_]}]:
            return not preference.get("matchExpressions")
    return False


def _with_node_affinity(affinity: Json, node_affinity: Json) -> dict[str, Any]:
    """The affinity with another node affinity, without what is empty in it."""
    kept = {key: value for key, value in node_affinity.items() if value}
    others = {key: value for key, value in affinity.items() if key != "nodeAffinity"}
    return {**others, "nodeAffinity": kept} if kept else others
