"""The scheduler's rules once more, as plainly as can be, for the clusters generated here.

This is what plans are checked with, so it shares nothing with the planner: no columns, no counts
that are kept up to date, only pods on nodes and a look at all of them for every question. It knows
as much of Kubernetes as the generated clusters use.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from testcluster.client import JsonObject
from tests.planning.feasibility.generated_needs import REQUIRED

_SUFFIXES = {"m": 1, "Mi": 1000 * 2**20, "Gi": 1000 * 2**30}


def amount(quantity: str) -> int:
    """What a quantity amounts to, in thousandths."""
    for suffix, factor in _SUFFIXES.items():
        if quantity.endswith(suffix):
            return int(quantity.removesuffix(suffix)) * factor
    return int(quantity) * 1000


@dataclass(frozen=True, eq=False)
class ReferencePod:
    """What matters of a pod, wherever it is."""

    item: JsonObject

    @cached_property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.item['metadata']['name']}"

    @cached_property
    def namespace(self) -> str:
        return str(self.item["metadata"]["namespace"])

    @cached_property
    def labels(self) -> dict[str, str]:
        return dict(self.item["metadata"]["labels"])

    @cached_property
    def workload(self) -> str:
        """Its owner, or itself if it has none."""
        owners = self.item["metadata"]["ownerReferences"]
        return f"{owners[0]['kind']}/{self.namespace}/{owners[0]['name']}" if owners else self.key

    @cached_property
    def is_leaving(self) -> bool:
        return "deletionTimestamp" in self.item["metadata"]

    @cached_property
    def requests(self) -> dict[str, int]:
        """What it takes up, its slot included."""
        containers = self.item["spec"]["containers"]
        asked = [each.get("resources", {}).get("requests", {}) for each in containers]
        totals = {name: sum(amount(each.get(name, "0")) for each in asked) for name in _COUNTED}
        return totals | {"pods": amount("1")}

    @cached_property
    def ports(self) -> frozenset[int]:
        """Ports of its node that it takes."""
        containers = self.item["spec"]["containers"]
        ports = (port for each in containers for port in each.get("ports", ()))
        return frozenset(port["hostPort"] for port in ports)

    @cached_property
    def apart(self) -> list[JsonObject]:
        """Required anti-affinity."""
        return list(self._affinity("podAntiAffinity").get(REQUIRED, ()))

    @cached_property
    def near(self) -> list[JsonObject]:
        """Required affinity to other pods."""
        return list(self._affinity("podAffinity").get(REQUIRED, ()))

    @cached_property
    def spread(self) -> list[JsonObject]:
        """Spread constraints that must hold."""
        constraints = self.item["spec"].get("topologySpreadConstraints", ())
        return [each for each in constraints if each["whenUnsatisfiable"] == "DoNotSchedule"]

    def _affinity(self, kind: str) -> JsonObject:
        return dict(self.item["spec"].get("affinity", {}).get(kind, {}))

    def is_meant_by(self, term: JsonObject, other: "ReferencePod") -> bool:
        """Whether a term or constraint of another pod is about this one."""
        wanted = term["labelSelector"]["matchLabels"].items()
        return self.namespace == other.namespace and wanted <= self.labels.items()

    def chooses(self, node: JsonObject) -> bool:
        """Whether the node has the labels that it asks for."""
        labels = node["metadata"]["labels"]
        if not self.item["spec"].get("nodeSelector", {}).items() <= labels.items():
            return False
        required = self._affinity("nodeAffinity").get(REQUIRED)
        return required is None or any(
            all(_holds(expression, labels) for expression in term["matchExpressions"])
            for term in required["nodeSelectorTerms"]
        )

    def tolerates(self, node: JsonObject) -> bool:
        """Whether it stands the node's taints."""
        keys = {each["key"] for each in self.item["spec"].get("tolerations", ())}
        return all(taint["key"] in keys for taint in node["spec"].get("taints", ()))


_COUNTED = ("cpu", "memory")


def _holds(expression: JsonObject, labels: Mapping[str, str]) -> bool:
    value = labels.get(expression["key"])
    if expression["operator"] == "In":
        return value in expression["values"]
    assert expression["operator"] == "NotIn"
    return value not in expression["values"]


class Placed(NamedTuple):
    """A pod on a node; a pod that is being moved may be on two."""

    pod: ReferencePod
    node: str


State = Sequence[Placed]


@dataclass(frozen=True, eq=False)
class ReferenceRules:
    """The nodes, and what they say to pods."""

    nodes: Mapping[str, JsonObject] = field(default_factory=dict)

    # ------------------------------------------------------------ may a pod come?

    def accepting(self, state: State, pod: ReferencePod) -> set[str]:
        """All nodes that accept one more such pod."""
        return {name for name in self.nodes if self.accepts(state, pod, name)}

    def accepts(self, state: State, pod: ReferencePod, name: str) -> bool:
        """Whether a node accepts one more such pod, with the others where they are."""
        node = self.nodes[name]
        return (
            not node["spec"].get("unschedulable")
            and pod.chooses(node)
            and pod.tolerates(node)
            and self._has_room(state, pod, name)
            and not any(each.node == name and each.pod.ports & pod.ports for each in state)
            and not self._is_unwelcome(state, pod, name)
            and self._is_near_enough(state, pod, name)
            and self._is_spread_enough(state, pod, name)
        )

    def _has_room(self, state: State, pod: ReferencePod, name: str) -> bool:
        free = self.free(state, name)
        return all(not wanted or wanted <= free[what] for what, wanted in pod.requests.items())

    def free(self, state: State, name: str) -> dict[str, int]:
        """What a node has left of everything; less than nothing if it is overcommitted."""
        has = self.nodes[name]["status"]["allocatable"]
        here = [each.pod for each in state if each.node == name]
        return {
            what: amount(has[what]) - sum(pod.requests[what] for pod in here)
            for what in (*_COUNTED, "pods")
        }

    def _is_unwelcome(self, state: State, pod: ReferencePod, name: str) -> bool:
        return any(
            any(self._are_together(term, each.node, name) for term in _between(pod, each.pod))
            for each in state
            if pod.apart or each.pod.apart
        )

    def _are_together(self, term: JsonObject, one: str, other: str) -> bool:
        domain = self._domain(term, one)
        return domain is not None and domain == self._domain(term, other)

    def _domain(self, term: JsonObject, name: str) -> str | None:
        labels: dict[str, str] = self.nodes[name]["metadata"]["labels"]
        return labels.get(term["topologyKey"])

    def _is_near_enough(self, state: State, pod: ReferencePod, name: str) -> bool:
        for term in pod.near:
            if self._domain(term, name) is None:
                return False
            company = [
                each
                for each in state
                if each.pod.is_meant_by(term, pod) and self._domain(term, each.node) is not None
            ]
            if any(self._are_together(term, each.node, name) for each in company):
                continue
            # The first of its kind may go anywhere, or it could never start.
            if company or not pod.is_meant_by(term, pod):
                return False
        return True

    def _is_spread_enough(self, state: State, pod: ReferencePod, name: str) -> bool:
        for constraint in pod.spread:
            counts = self.spread_over(state, pod, constraint)
            domain = self._domain(constraint, name)
            if domain is None or domain not in counts:
                return False
            itself = pod.is_meant_by(constraint, pod)
            if counts[domain] + itself - min(counts.values()) > constraint["maxSkew"]:
                return False
        return True

    def spread_over(
        self, state: State, pod: ReferencePod, constraint: JsonObject
    ) -> dict[str, int]:
        """How many pods each domain has of those that a constraint is about."""
        keys = [each["topologyKey"] for each in pod.spread]
        eligible = {
            name: node["metadata"]["labels"][constraint["topologyKey"]]
            for name, node in self.nodes.items()
            if pod.chooses(node) and all(key in node["metadata"]["labels"] for key in keys)
        }
        counts = dict.fromkeys(eligible.values(), 0)
        for each in state:
            if each.node in eligible and not each.pod.is_leaving:
                counts[eligible[each.node]] += each.pod.is_meant_by(constraint, pod)
        return counts

    # ------------------------------------------------------------ what is broken?

    def broken(self, state: State) -> Counter[str]:
        """How often each sort of rule is broken with the pods where they are."""
        return Counter(
            {
                "overcommitted": sum(
                    left < 0 for name in self.nodes for left in self.free(state, name).values()
                ),
                "on a node that it does not choose": sum(
                    not each.pod.chooses(self.nodes[each.node]) for each in state
                ),
                "on a node that it does not tolerate": sum(
                    not each.pod.tolerates(self.nodes[each.node]) for each in state
                ),
                "in company that it, or the other, avoids": self._avoided_company(state),
                "far from company that it needs": sum(
                    self._misses_company(state, each) for each in state
                ),
                "with a port that another has": self._shared_ports(state),
                "spread too unevenly": self._too_many(state),
            }
        )

    def _avoided_company(self, state: State) -> int:
        return sum(
            self._are_together(term, one.node, other.node)
            for number, one in enumerate(state)
            for other in state[:number]
            for term in _between(one.pod, other.pod)
        )

    def _misses_company(self, state: State, placed: Placed) -> bool:
        """Whether it is alone where it needs company; one that wants its own kind never is."""
        return not self._is_near_enough(state, placed.pod, placed.node)

    def _shared_ports(self, state: State) -> int:
        return sum(
            len(one.pod.ports & other.pod.ports)
            for number, one in enumerate(state)
            for other in state[:number]
            if one.node == other.node
        )

    def _too_many(self, state: State) -> int:
        """How many pods are beyond what the constraints of each workload allow in a domain."""
        one_of_each = {each.pod.workload: each.pod for each in state if each.pod.spread}
        beyond = 0
        for pod in one_of_each.values():
            for constraint in pod.spread:
                counts = self.spread_over(state, pod, constraint).values()
                most = min(counts, default=0) + constraint["maxSkew"]
                beyond += sum(max(count - most, 0) for count in counts)
        return beyond


def _between(one: ReferencePod, other: ReferencePod) -> Iterator[JsonObject]:
    """The terms with which either of two pods keeps away from the other."""
    yield from (term for term in one.apart if other.is_meant_by(term, one))
    yield from (term for term in other.apart if one.is_meant_by(term, other))
