"""Random clusters and policies: every mix of strategies, limits, weights, pools and taints.

A cluster is made from its seed. Each node and each workload has random numbers of its own, and
a pod's node does not depend on other nodes that it might have had. So a cluster for which something
is wrong can be made smaller by leaving nodes and workloads out: the rest hardly changes.
"""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil
from typing import Any

from testcluster.builders import (
    HOSTNAME_LABEL,
    ZONE_LABEL,
    budget,
    daemonset,
    deployment,
    node,
    owner_reference,
    pod,
    replicaset,
    statefulset,
)
from testcluster.client import JsonObject
from tests.planning.feasibility.draw import Draw
from tests.planning.feasibility.generated_needs import REQUIRED
from tests.planning.promise.generated_cases import (
    CONTROL_PLANE,
    MAINTENANCE,
    NODE_COST,
    POD_GROUP,
    RESCHEDULING,
    STRATEGIES,
)
from tests.planning.promise.reference_rules import Placed, ReferencePod, ReferenceRules

PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
POOL = "example.com/pool"
MOST_NODES, MOST_PODS = 14, 60
_ZONES, _POOLS, _APPS = ("x", "y", "z"), ("general", "special"), ("cart", "web", "db")
_SIZES = ((4, 16), (8, 32), (8, 16), (16, 64), (32, 64))
"""CPUs and gibibytes."""


@dataclass(frozen=True)
class RandomCluster:
    """The cluster and the policy of a seed, perhaps without some of its nodes and workloads."""

    seed: int
    left_out: frozenset[str] = frozenset()

    @cached_property
    def style(self) -> "_Style":
        """What its nodes and workloads have in common."""
        return _style(self._draw("style"))

    @cached_property
    def nodes(self) -> list[JsonObject]:
        """The nodes."""
        names = [f"n{row}" for row in range(self.style.nodes)]
        return [_node(self._draw(name), self.style, name) for name in self._kept(names)]

    @cached_property
    def _workloads(self) -> "_Workloads":
        made = _Workloads(self.nodes, self.style, self.seed)
        for name in self._kept([f"w{row}" for row in range(self.style.workloads)]):
            made.add(self._draw(name), name)
        if self.style.has_agents and "agent" not in self.left_out:
            made.add_agents()
        return made

    @cached_property
    def objects(self) -> list[JsonObject]:
        """All of the cluster."""
        return [*self.nodes, *self._workloads.others, *self._workloads.pods]

    @property
    def pods(self) -> list[JsonObject]:
        """The pods, all of them on nodes."""
        return self._workloads.pods

    @property
    def evicted(self) -> list[str]:
        """The workload of each pod that cannot be handed off: one of them moves at a time."""
        return self._workloads.evicted

    @cached_property
    def arguments(self) -> dict[str, Any]:
        """The policy, as its file has it."""
        return _arguments(self._draw("policy"), self.style)

    def smaller(self) -> Iterator["RandomCluster"]:
        """The same with one thing less: each workload, each node."""
        names = [f"w{row}" for row in range(self.style.workloads)] + ["agent"]
        names += [f"n{row}" for row in range(self.style.nodes)]
        for name in self._kept(names):
            yield replace(self, left_out=self.left_out | {name})

    def _kept(self, names: list[str]) -> list[str]:
        return [name for name in names if name not in self.left_out]

    def _draw(self, what: str) -> Draw:
        return Draw(f"rest {self.seed} {what}")


@dataclass(frozen=True)
class _Style:
    nodes: int
    workloads: int
    sizes: list[tuple[int, int]]
    zones: tuple[str, ...]
    has_pools: bool
    has_taints: bool
    has_prices: bool
    has_maintenance: bool
    has_agents: bool
    has_rules: bool
    """Whether pods require things of their nodes and neighbours."""
    pod_cpu: float
    """Of an ordinary pod, in millicores."""
    pod_memory: float
    """Of an ordinary pod, in mebibytes."""


def _style(draw: Draw) -> _Style:
    nodes = draw.randint(2, MOST_NODES)
    sizes = draw.some(_SIZES, 1, draw.one((1, 1, 3)))
    fill, pods_per_node = draw.uniform(0.2, 0.85), draw.uniform(2, 7)
    cpu = sum(size[0] for size in sizes) / len(sizes)
    memory = sum(size[1] for size in sizes) / len(sizes)
    return _Style(
        nodes=nodes,
        workloads=max(1, ceil(min(nodes * pods_per_node, MOST_PODS) / 3)),
        sizes=sizes,
        zones=_ZONES[: draw.randint(0, 3)],
        has_pools=draw.chance(0.4),
        has_taints=draw.chance(0.4),
        has_prices=draw.chance(0.5),
        has_maintenance=draw.chance(0.3),
        has_agents=draw.chance(0.3),
        has_rules=draw.chance(0.6),
        pod_cpu=1000 * fill * cpu / pods_per_node,
        pod_memory=1024 * fill * memory / pods_per_node,
    )


# ---------------------------------------------------------------- nodes


def _node(draw: Draw, style: _Style, name: str) -> JsonObject:
    cpu, memory = draw.one(style.sizes)
    labels = {POOL: draw.one(_POOLS)} if style.has_pools else {}
    if style.has_maintenance and draw.chance(0.2):
        labels[MAINTENANCE] = "true"
    if draw.chance(0.02):
        labels[CONTROL_PLANE] = ""
    made = node(
        name,
        cpu=str(cpu),
        memory=f"{memory}Gi",
        pods=draw.randint(6, 12) if draw.chance(0.1) else 110,
        zone=draw.one(style.zones) if style.zones else None,
        labels=labels,
        taints=_taints(draw) if style.has_taints else None,
        unschedulable=draw.chance(0.05),
    )
    if style.has_prices:
        made["metadata"]["annotations"][NODE_COST] = draw.one(("1", "2.5", "0.4", "4"))
    return made


def _taints(draw: Draw) -> list[JsonObject]:
    effects = [
        *(["NoSchedule"] if draw.chance(0.15) else []),
        *(["PreferNoSchedule"] if draw.chance(0.15) else []),
    ]
    return [{"key": f"is-{effect}", "effect": effect} for effect in effects]


# ---------------------------------------------------------------- workloads


class _Workloads:
    """Workloads one after another, their pods mostly where they may be."""

    def __init__(self, nodes: list[JsonObject], style: _Style, seed: int) -> None:
        self._style = style
        self._seed = seed
        self._names = [each["metadata"]["name"] for each in nodes]
        self._rules = ReferenceRules(dict(zip(self._names, nodes, strict=True)))
        self._placed: list[Placed] = []
        self.pods: list[JsonObject] = []
        self.others: list[JsonObject] = []
        self.evicted: list[str] = []

    def add(self, draw: Draw, name: str) -> None:
        """One more, with as many of its pods as find room."""
        style = self._style
        namespace = draw.one(("shop", "shop", "shop", "web"))
        labels = _labels(draw, name)
        cpu = round(style.pod_cpu * draw.one((0, 0.2, 0.5, 1, 1, 1.5, 2)))
        memory = round(style.pod_memory * draw.one((0, 0.2, 0.5, 1, 1, 1.5, 2)))
        spec = _spec(draw, style, labels)
        careless = draw.chance(0.1)
        made = [
            pod(
                f"{namespace}/{name}-{row}",
                cpu=f"{cpu}m",
                memory=f"{memory}Mi",
                labels=labels,
                **deepcopy(spec),
            )
            for row in range(draw.one((1, 1, 2, 2, 3, 3, 4, 5, 6, 8)))
        ]
        placed = [each for each in made if self._place(each, careless)]
        owners = _owners(draw, f"{namespace}/{name}", len(placed))
        for each in placed if owners else ():
            each["metadata"]["ownerReferences"] = [owner_reference(owners[-1])]
        self.pods += placed
        self.evicted += [name] * len(placed) if _are_evicted(owners) else []
        self.others += owners if placed else []
        if placed and draw.chance(0.08):
            selector = {"app": labels["app"]}
            made_budget = budget(
                f"{namespace}/{name}",
                max_unavailable=1,
                selector=selector,
                allowed=draw.randint(0, 2),
            )
            self.others.append(made_budget)

    def add_agents(self) -> None:
        """A DaemonSet: a small pod on every node."""
        owner = daemonset("kube-system/agent")
        self.others.append(owner)
        self.pods += [
            pod(f"kube-system/agent-{name}", on=name, cpu="100m", memory="128Mi", owner=owner)
            for name in self._names
        ]

    def _place(self, made: JsonObject, careless: bool) -> bool:
        """Put it on a node that attracts it, if there is room for it."""
        plain = ReferencePod(made)
        if careless:
            accepting = {name for name in self._names if self._has_room(plain, name)}
        else:
            accepting = self._rules.accepting(self._placed, plain)
        if not accepting or len(self._placed) >= MOST_PODS:
            return False
        on = max(sorted(accepting), key=lambda name: self._attraction(plain.key, name))
        made["spec"]["nodeName"] = on
        made["status"] = pod("any", on=on)["status"]
        self._placed.append(Placed(plain, on))
        return True

    def _attraction(self, key: str, name: str) -> float:
        """Higher for some nodes, so that load is uneven."""
        bias = Draw(f"{self._seed} {name}").one((0.1, 0.4, 1.0, 1.0, 2.5))
        return float(Draw(f"{self._seed} {key} {name}").random() ** (1 / bias))

    def _has_room(self, plain: ReferencePod, name: str) -> bool:
        free = self._rules.free(self._placed, name)
        return all(wanted <= free[what] for what, wanted in plain.requests.items())


def _labels(draw: Draw, name: str) -> dict[str, str]:
    labels = {"app": draw.one(_APPS) if draw.chance(0.3) else name}
    if draw.chance(0.08):
        labels[RESCHEDULING] = "disabled"
    if draw.chance(0.03):
        labels[POD_GROUP] = name
    return labels


def _owners(draw: Draw, key: str, replicas: int) -> list[JsonObject]:
    """What the pods belong to, the nearest last; bare pods belong to nothing."""
    kind = draw.random()
    if kind < 0.15:
        return [statefulset(key, replicas=replicas)]
    if kind < 0.19:
        return []
    owner = deployment(key, replicas=replicas)
    if kind < 0.24:
        owner["spec"]["strategy"] = {"type": "Recreate"}
    return [owner, replicaset(key, replicas=replicas, owner=owner)]


def _are_evicted(owners: list[JsonObject]) -> bool:
    return bool(owners) and (
        owners[0]["kind"] == "StatefulSet" or owners[0]["spec"].get("strategy") is not None
    )


# ---------------------------------------------------------------- what pods ask for


def _spec(draw: Draw, style: _Style, labels: dict[str, str]) -> JsonObject:
    spec: JsonObject = {"affinity": _affinity(draw, style, labels)}
    if style.has_pools and draw.chance(0.3):
        spec["nodeSelector"] = {POOL: draw.one(_POOLS)}
    if style.has_taints and draw.chance(0.3):
        spec["tolerations"] = [
            {"key": f"is-{effect}", "operator": "Exists"}
            for effect in draw.some(("NoSchedule", "PreferNoSchedule"), 1, 2)
        ]
    if style.has_rules and draw.chance(0.2):
        soft = draw.one(("DoNotSchedule", "ScheduleAnyway"))
        spec["topologySpreadConstraints"] = [
            {**_term(draw, labels), "maxSkew": draw.randint(1, 2), "whenUnsatisfiable": soft}
        ]
    if draw.chance(0.1):
        spec["priority"] = draw.one((100, 1000))
    return spec


def _affinity(draw: Draw, style: _Style, labels: dict[str, str]) -> JsonObject:
    affinity: JsonObject = {}
    if draw.chance(0.15):
        weighted = {"weight": draw.randint(1, 100), "podAffinityTerm": _term(draw, labels)}
        affinity[draw.one(("podAntiAffinity", "podAffinity"))] = {PREFERRED: [weighted]}
    if draw.chance(0.1):
        zones = {"key": ZONE_LABEL, "operator": "In", "values": draw.some(_ZONES)}
        preference = {"matchExpressions": [zones]}
        weighted = {"weight": draw.randint(1, 100), "preference": preference}
        affinity["nodeAffinity"] = {PREFERRED: [weighted]}
    if style.has_rules and draw.chance(0.15):
        affinity["podAntiAffinity"] = {REQUIRED: [_term(draw, labels)]}
    if style.has_rules and draw.chance(0.05):
        affinity["podAffinity"] = {REQUIRED: [_term(draw, labels)]}
    return affinity


def _term(draw: Draw, labels: dict[str, str]) -> JsonObject:
    app = labels["app"] if draw.chance(0.7) else draw.one(_APPS)
    key = draw.one((HOSTNAME_LABEL, HOSTNAME_LABEL, ZONE_LABEL))
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}


# ---------------------------------------------------------------- policies


def _arguments(draw: Draw, style: _Style) -> dict[str, Any]:
    strategies = draw.sample(STRATEGIES, draw.randint(1, len(STRATEGIES)))
    arguments: dict[str, Any] = {
        "enabledStrategies": strategies,
        "maxReschedulePods": draw.one((1, 2, 3, 5, 10, 20, 50, 50, 50, 50)),
        "imbalanceThreshold": draw.one((0, 5, 10, 20, 30)),
        "cpuThreshold": draw.one((50, 65, 80, 95)),
        "memoryThreshold": draw.one((50, 65, 80, 95)),
        "planningTimeout": "50ms",
        **_limits(draw),
    }
    if draw.chance(0.4):
        weighty = draw.some(STRATEGIES, 1, 3)
        weights = {name: draw.one((0.1, 0.5, 2.0, 10.0)) for name in weighty}
        arguments["strategyWeights"] = weights
    for strategy in strategies:
        arguments |= _options(draw, style, strategy)
    return arguments


def _limits(draw: Draw) -> dict[str, Any]:
    limits: dict[str, Any] = {
        "maxMovesPerNode": draw.one((1, 3, "5%")),
        "maxMovesPerNamespace": draw.one((1, 3, "20%")),
        "maxMovesPerWorkload": draw.one((1, "50%")),
    }
    return {key: value for key, value in limits.items() if draw.chance(0.08)}


def _options(draw: Draw, style: _Style, strategy: str) -> dict[str, Any]:
    if strategy == "LoadBalancing":
        label = POOL if style.has_pools and draw.chance(0.5) else ""
        weights = {"cpu": draw.one((1, 1, 2)), "memory": 1}
        return {"loadBalancing": {"nodePoolLabel": label, "weights": weights}}
    if strategy == "TopologySpread":
        return {"topologySpread": {"undeclared": draw.chance(0.7)}}
    if strategy == "ConstraintRepair":
        return {"constraintRepair": {"preferred": draw.chance(0.5)}}
    if strategy == "CostOptimization":
        savings = {"minimumSavings": draw.one((0.5, 3))} if draw.chance(0.2) else {}
        return {"costOptimization": {**savings, **_move_cost(draw)}}
    if strategy == "Defragmentation":
        cpu, memory = draw.one(style.sizes)
        part = draw.one((0.25, 0.5, 1))
        shape = {"cpu": f"{round(1000 * part * cpu)}m"}
        if draw.chance(0.4):
            shape["memory"] = f"{round(1024 * part * memory)}Mi"
        return {"defragmentation": {"shape": shape}}
    return {}


def _move_cost(draw: Draw) -> dict[str, Any]:
    return {"moveCost": draw.one((0.001, 0.02))} if draw.chance(0.3) else {}
