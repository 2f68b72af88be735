"""What generated pods ask about other pods: to be near them, apart from them, spread over them."""

from copy import deepcopy

from testcluster.client import JsonObject
from tests.planning.feasibility.cluster_focus import Focus
from tests.planning.feasibility.draw import Draw
from tests.planning.feasibility.generated_needs import PREFERRED, REQUIRED
from tests.planning.feasibility.generated_nodes import HOSTNAME, POOL, RACK, REGION, ZONE

APPS = ("cart", "web", "db", "cache", "mail", "search", "pay", "auth", "feed", "cron")
TIERS = ("front", "back", "")
VERSIONS = ("v1", "v2", "v3")

NAMESPACES: dict[str, dict[str, str]] = {
    "shop": {"team": "sales", "env": "prod"},
    "web": {"team": "sales", "env": "test"},
    "data": {"team": "data"},
    "lab": {"env": ""},
}
UNLISTED = "unlisted"
"""A namespace of pods whose own object is not known."""

TOPOLOGIES = (HOSTNAME, HOSTNAME, ZONE, ZONE, RACK, RACK, POOL, REGION, "nowhere")

NAMESPACE_SELECTORS: tuple[JsonObject, ...] = (
    {},
    {"matchLabels": {"team": "sales"}},
    {"matchLabels": {"env": ""}},
    {"matchExpressions": [{"key": "team", "operator": "In", "values": ["data", "sales"]}]},
    {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["sales"]}]},
    {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]},
    {"matchExpressions": [{"key": "env", "operator": "Exists"}]},
    {"matchLabels": {"team": "nobody"}},
)


def pod_labels(draw: Draw) -> dict[str, str]:
    """Labels of one workload's pods."""
    labels = {"app": draw.one(APPS), "version": draw.one(VERSIONS)}
    if draw.chance(0.8):
        labels["tier"] = draw.one(TIERS)
    if draw.chance(0.5):
        labels["pod-template-hash"] = draw.one(("h1", "h2"))
    return labels if draw.chance(0.97) else {}


def affinity(draw: Draw, focus: Focus, labels: dict[str, str]) -> JsonObject:
    """Required and preferred terms about neighbours, for the pod's `affinity` field."""
    found: JsonObject = {}
    if draw.chance(focus.neighbours * 0.5):
        near: JsonObject = {REQUIRED: _terms(draw, labels)}
        if draw.chance(0.1):
            near[PREFERRED] = [{"weight": 1, "podAffinityTerm": _term(draw, labels)}]
        found["podAffinity"] = near
    if draw.chance(focus.neighbours * 0.6):
        found["podAntiAffinity"] = {REQUIRED: _terms(draw, labels)}
    elif draw.chance(focus.neighbours * 0.2):
        wish = {"weight": 100, "podAffinityTerm": _term(draw, labels)}
        found["podAntiAffinity"] = {PREFERRED: [wish]}
    return found


def _terms(draw: Draw, labels: dict[str, str]) -> list[JsonObject]:
    terms = [_term(draw, labels) for _ in range(draw.one((1, 1, 1, 2, 3)))]
    # People do write the same term twice.
    return [*terms, deepcopy(terms[0])] if draw.chance(0.1) else terms


def _term(draw: Draw, labels: dict[str, str]) -> JsonObject:
    term: JsonObject = {"topologyKey": draw.one(TOPOLOGIES)}
    selector = label_selector(draw, labels)
    if selector is not None:
        term["labelSelector"] = selector
    if draw.chance(0.3):
        term["namespaces"] = draw.some((*NAMESPACES, UNLISTED, "no-such"), 1, 3)
    if draw.chance(0.35):
        term["namespaceSelector"] = draw.one(NAMESPACE_SELECTORS)
    if selector is not None and draw.chance(0.25):
        _add_label_keys(draw, term, labels)
    return term


def _add_label_keys(draw: Draw, term: JsonObject, labels: dict[str, str]) -> None:
    """Keys whose values are to be the pod's own, or to differ from them.

    The API server turns them into expressions when it creates a pod. Pods older than that
    feature have none, and the scheduler does not look at the keys by themselves.
    """
    keys = ["version", "pod-template-hash", "tier", "absent"]
    draw.shuffle(keys)
    operators = {"matchLabelKeys": "In", "mismatchLabelKeys": "NotIn"}
    chosen = {field: [keys.pop()] for field in operators if draw.chance(0.6)} or {
        "matchLabelKeys": [keys.pop()]
    }
    term.update(chosen)
    if draw.chance(0.7):
        selector = dict(term["labelSelector"])
        selector["matchExpressions"] = [
            *selector.get("matchExpressions", ()),
            *(
                {"key": key, "operator": operators[field], "values": [labels[key]]}
                for field, own_keys in chosen.items()
                for key in own_keys
                if key in labels
            ),
        ]
        term["labelSelector"] = selector


def label_selector(draw: Draw, labels: dict[str, str]) -> JsonObject | None:
    """A selector of pods, often of the pod's own kind; None selects nothing, {} everything."""
    form = draw.random()
    if form < 0.04:
        return None
    if form < 0.07:
        return {}
    if form < 0.5 and "app" in labels:
        return {"matchLabels": {"app": labels["app"]}}
    if form < 0.6:
        return {"matchLabels": {"app": draw.one(APPS)}}
    if form < 0.7:
        return {"matchLabels": {"tier": draw.one(TIERS), "version": draw.one(VERSIONS)}}
    selector: JsonObject = {"matchExpressions": [_expression(draw)]}
    if draw.chance(0.3):
        selector["matchLabels"] = {"app": draw.one(APPS)}
    elif draw.chance(0.3):
        selector["matchExpressions"].append(_expression(draw))
    return selector


def _expression(draw: Draw) -> JsonObject:
    operator = draw.one(("In", "In", "NotIn", "Exists", "DoesNotExist"))
    key, values = draw.one((("app", APPS), ("tier", TIERS), ("version", VERSIONS)))
    expression: JsonObject = {"key": key, "operator": operator}
    if operator in ("In", "NotIn"):
        expression["values"] = draw.some(values, 1, 3)
    return expression


def spread_constraints(draw: Draw, focus: Focus, labels: dict[str, str]) -> list[JsonObject]:
    """Constraints on how evenly pods lie."""
    if not draw.chance(focus.spread):
        return []
    return [_constraint(draw, labels) for _ in range(draw.one((1, 1, 2, 3)))]


def _constraint(draw: Draw, labels: dict[str, str]) -> JsonObject:
    constraint: JsonObject = {
        "maxSkew": draw.one((1, 1, 2, 3, 5)),
        "topologyKey": draw.one(TOPOLOGIES[:-1] if draw.chance(0.95) else TOPOLOGIES),
        "whenUnsatisfiable": "ScheduleAnyway" if draw.chance(0.15) else "DoNotSchedule",
    }
    selector = label_selector(draw, labels)
    if selector is not None:
        constraint["labelSelector"] = selector
        if draw.chance(0.25):
            keys = ("version", "pod-template-hash", "tier", "absent")
            constraint["matchLabelKeys"] = draw.some(keys, 1, 2)
    if draw.chance(0.2) and constraint["whenUnsatisfiable"] == "DoNotSchedule":
        constraint["minDomains"] = draw.one((1, 2, 4, 6, 20))
    for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        if draw.chance(0.4):
            constraint[policy] = draw.one(("Honor", "Ignore"))
    return constraint
