"""Small clusters and policies from a few numbers, with everything that plans must respect.

Each node and each workload has a number of its own, so that a failing example can be made smaller
by leaving some of them out.
"""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from testcluster.builders import (
    HOSTNAME_LABEL,
    ZONE_LABEL,
    budget,
    daemonset,
    deployment,
    job,
    node,
    pod,
    replicaset,
    statefulset,
)
from testcluster.client import JsonObject
from tests.planning.feasibility.draw import Draw
from tests.planning.feasibility.generated_needs import REQUIRED
from tests.planning.feasibility.generated_nodes import POOL
from tests.planning.promise.reference_rules import Placed, ReferencePod, ReferenceRules

MOST_PODS = 40
CREATED, CREATED_LATELY = "2025-01-01T00:00:00Z", "2025-05-31T23:58:00Z"
NOW = 1748736000.0
"""Two minutes after the latest pods were created."""

STRATEGIES = (
    "LoadBalancing",
    "ResourceOptimization",
    "NodeMaintenance",
    "TopologySpread",
    "ConstraintRepair",
    "CostOptimization",
    "Defragmentation",
)
MAINTENANCE = "scheduler.alpha.kubernetes.io/maintenance"
RESCHEDULING = "scheduler.alpha.kubernetes.io/rescheduling"
POD_GROUP = "scheduling.x-k8s.io/pod-group"
CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
NODE_COST = "rescheduler.dev/node-cost"
KEPT = {"kept": "yes"}
"""Labels that some policies exclude."""

APPS = ("cart", "web", "db")
ZONES = ("x", "y", "z")
POOLS = ("general", "special")


@dataclass(frozen=True)
class GeneratedCase:
    """A cluster and a policy, by the numbers that they are made from."""

    nodes: tuple[int, ...]
    workloads: tuple[int, ...]
    policy: int
    is_busy: bool = True
    """Whether migrations may be under way already."""

    @cached_property
    def node_objects(self) -> list[JsonObject]:
        """The nodes."""
        return [_node(Draw(f"node {seed}"), f"n{row}") for row, seed in enumerate(self.nodes)]

    @cached_property
    def _made(self) -> "_Workloads":
        made = _Workloads(self.node_objects)
        for row, seed in enumerate(self.workloads):
            made.add(Draw(f"workload {seed}"), f"w{row}")
        return made

    @property
    def pod_objects(self) -> list[JsonObject]:
        """The pods."""
        return self._made.pods

    @property
    def other_objects(self) -> list[JsonObject]:
        """Owners and budgets."""
        return self._made.others

    @property
    def objects(self) -> list[JsonObject]:
        """All of the cluster."""
        return [*self.node_objects, *self.other_objects, *self.pod_objects]

    @cached_property
    def rules(self) -> ReferenceRules:
        """The reference rules of these nodes."""
        return ReferenceRules({each["metadata"]["name"]: each for each in self.node_objects})

    @cached_property
    def placed(self) -> tuple[Placed, ...]:
        """The pods that are on nodes."""
        return tuple(
            Placed(ReferencePod(each), each["spec"]["nodeName"])
            for each in self.pod_objects
            if "nodeName" in each["spec"]
        )

    @cached_property
    def arguments(self) -> dict[str, Any]:
        """The policy, as its file has it."""
        return _arguments(Draw(f"policy {self.policy}"), self.policy)

    @cached_property
    def in_flight(self) -> tuple[tuple[str, str], ...]:
        """Pods that are being migrated already, and where to: none, or up to three."""
        draw = Draw(f"in flight {self.policy}")
        if not self.is_busy or not self.placed or not draw.chance(0.15):
            return ()
        moves = []
        state = list(self.placed)
        for chosen in draw.some(self.placed, 1, 3):
            targets = self.rules.accepting(state, chosen.pod) - {chosen.node}
            if targets:
                target = draw.one(sorted(targets))
                state.append(Placed(chosen.pod, target))
                moves.append((chosen.pod.key, target))
        return tuple(moves)


# ---------------------------------------------------------------- nodes


def _node(draw: Draw, name: str) -> JsonObject:
    labels = {POOL: draw.one((*POOLS, "general"))}
    if draw.chance(0.08):
        labels[MAINTENANCE] = "true"
    if draw.chance(0.03):
        labels[CONTROL_PLANE] = ""
    made = node(
        name,
        cpu=str(draw.randint(2, 8)),
        memory=f"{draw.one((4, 8, 16))}Gi",
        pods=draw.randint(5, 12) if draw.chance(0.25) else 110,
        zone=draw.one(ZONES) if draw.chance(0.95) else None,
        labels=labels,
        taints=[{"key": "dedicated", "effect": draw.one(("NoSchedule", "NoExecute"))}]
        if draw.chance(0.12)
        else None,
        unschedulable=draw.chance(0.06),
        ready=not draw.chance(0.05),
    )
    if draw.chance(0.5):
        made["metadata"]["annotations"][NODE_COST] = draw.one(("1", "2.5", "0.4", "4"))
    return made


# ---------------------------------------------------------------- workloads


class _Workloads:
    """Workloads one after another, their pods mostly where they may be."""

    def __init__(self, nodes: list[JsonObject]) -> None:
        self._names = [each["metadata"]["name"] for each in nodes]
        self._rules = ReferenceRules(dict(zip(self._names, nodes, strict=True)))
        self._placed: list[Placed] = []
        self.pods: list[JsonObject] = []
        self.others: list[JsonObject] = []

    def add(self, draw: Draw, name: str) -> None:
        """One more, unless there are enough pods."""
        namespace = draw.one(("shop", "shop", "shop", "shop", "web", "kube-system"))
        replicas = min(draw.one((1, 2, 2, 3, 3, 4, 5, 6)), MOST_PODS - len(self.pods))
        labels = _labels(draw, name)
        owners = _owners(draw, f"{namespace}/{name}", replicas)
        spec = _spec(draw, labels)
        self.others += owners
        self.others += _budgets(draw, namespace, name, labels)
        cpu = draw.one(("0", "100m", "250m", "500m", "1", "1", "2"))
        memory = draw.one((None, "128Mi", "512Mi", "1Gi", "2Gi"))
        annotations = _annotations(draw)
        port = draw.one((80, 8080)) if draw.chance(0.06) else None
        careless = draw.chance(0.25)
        for number in range(replicas):
            made = pod(
                f"{namespace}/{name}-{number}",
                cpu=cpu,
                memory=memory,
                labels=labels,
                annotations=annotations,
                owner=owners[-1] if owners else None,
                created=CREATED_LATELY if draw.chance(0.05) else CREATED,
                **deepcopy(spec),
            )
            if port is not None:
                ports = [{"containerPort": port, "hostPort": port}]
                made["spec"]["containers"][0]["ports"] = ports
            self._place(draw, made, careless)
            self.pods.append(made)

    def _place(self, draw: Draw, made: JsonObject, careless: bool) -> None:
        fate = draw.random()
        if 0.06 < fate < 0.08:
            made["metadata"]["deletionTimestamp"] = CREATED_LATELY
        plain = ReferencePod(made)
        where = self._names
        if not careless:
            accepting = self._rules.accepting(self._placed, plain)
            where = [name for name in self._names if name in accepting]
        if fate > 0.03 and where:
            on = draw.one(where)
            made["spec"]["nodeName"] = on
            made["status"] = pod("any", on=on, ready=fate > 0.06)["status"]
            self._placed.append(Placed(plain, on))


def _labels(draw: Draw, name: str) -> dict[str, str]:
    labels = {"app": draw.one(APPS) if draw.chance(0.4) else name}
    if draw.chance(0.08):
        labels |= KEPT
    if draw.chance(0.06):
        labels[RESCHEDULING] = "disabled"
    if draw.chance(0.1):
        labels[POD_GROUP] = draw.one(("gang-1", "gang-2"))
    return labels


def _annotations(draw: Draw) -> dict[str, str]:
    return {
        key: value
        for key, value in (
            ("karpenter.sh/do-not-disrupt", "true"),
            ("cluster-autoscaler.kubernetes.io/safe-to-evict", "false"),
            ("rescheduler.dev/handoff", "never"),
            ("rescheduler.dev/move-cost", draw.one(("0", "5"))),
        )
        if draw.chance(0.04)
    }


def _owners(draw: Draw, key: str, replicas: int) -> list[JsonObject]:
    """What the pods belong to, the nearest last; bare pods belong to nothing."""
    kind = draw.random()
    if kind < 0.1:
        return [statefulset(key, replicas=replicas)]
    if kind < 0.14:
        return [daemonset(key)]
    if kind < 0.18:
        return [job(key, completions=replicas)]
    if kind < 0.22:
        return []
    owner = deployment(key, replicas=replicas)
    if kind < 0.32:
        owner["spec"]["strategy"] = {"type": "Recreate"}
    return [owner, replicaset(key, replicas=replicas, owner=owner)]


def _budgets(draw: Draw, namespace: str, name: str, labels: dict[str, str]) -> list[JsonObject]:
    count = 0 if draw.chance(0.7) else draw.one((1, 1, 1, 2))
    return [
        budget(
            f"{namespace}/{name}-{number}",
            max_unavailable=1,
            selector={"app": labels["app"]},
            allowed=draw.randint(0, 2),
        )
        for number in range(count)
    ]


# ---------------------------------------------------------------- what pods ask for


def _spec(draw: Draw, labels: dict[str, str]) -> JsonObject:
    spec: JsonObject = {"affinity": _affinity(draw, labels)}
    if draw.chance(0.1):
        spec["nodeSelector"] = {POOL: draw.one(POOLS)}
    if draw.chance(0.2):
        spec["tolerations"] = [{"key": "dedicated", "operator": "Exists"}]
    if draw.chance(0.2):
        spec["topologySpreadConstraints"] = [
            _constraint(draw, labels) for _ in range(draw.one((1, 1, 2)))
        ]
    if draw.chance(0.04):
        spec["volumes"] = [{"name": "scratch", "emptyDir": {}}]
    if draw.chance(0.15):
        spec["priority"] = draw.one((100, 1000, 2_000_000_000))
    return spec


def _affinity(draw: Draw, labels: dict[str, str]) -> JsonObject:
    affinity: JsonObject = {}
    if draw.chance(0.12):
        expression = {
            "key": draw.one((ZONE_LABEL, POOL)),
            "operator": draw.one(("In", "NotIn")),
            "values": draw.some((*ZONES, *POOLS), 1, 3),
        }
        terms = [{"matchExpressions": [expression]}]
        affinity["nodeAffinity"] = {REQUIRED: {"nodeSelectorTerms": terms}}
    if draw.chance(0.25):
        affinity["podAntiAffinity"] = {
            REQUIRED: [_term(draw, labels) for _ in range(draw.one((1, 1, 2)))]
        }
    if draw.chance(0.1):
        affinity["podAffinity"] = {REQUIRED: [_term(draw, labels)]}
    return affinity


def _term(draw: Draw, labels: dict[str, str]) -> JsonObject:
    app = labels["app"] if draw.chance(0.7) else draw.one(APPS)
    key = draw.one((HOSTNAME_LABEL, HOSTNAME_LABEL, ZONE_LABEL))
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}


def _constraint(draw: Draw, labels: dict[str, str]) -> JsonObject:
    return {
        **_term(draw, labels),
        "maxSkew": draw.randint(1, 2),
        "whenUnsatisfiable": draw.one(("DoNotSchedule", "DoNotSchedule", "ScheduleAnyway")),
    }


# ---------------------------------------------------------------- policies


def _arguments(draw: Draw, number: int) -> dict[str, Any]:
    """Each strategy alone in turn, then mixtures of them."""
    turn = number % (2 * len(STRATEGIES))
    alone = turn < len(STRATEGIES)
    strategies = [STRATEGIES[turn]] if alone else draw.some(STRATEGIES, 2, 5)
    arguments: dict[str, Any] = {
        "enabledStrategies": strategies,
        "maxReschedulePods": draw.one((1, 3, 6, 10, 20)),
        "imbalanceThreshold": draw.one((0, 5, 20)),
        "cpuThreshold": draw.one((40, 60, 80)),
        "memoryThreshold": draw.one((40, 60, 80)),
        "maxUnreadyNodesPercent": draw.one((20, 100, 100)),
        "planningTimeout": "50ms",
    }
    optional: dict[str, Any] = {
        "maxMovesPerNode": draw.one((1, 2, "5%")),
        "maxMovesPerNamespace": draw.one((1, 3, "20%")),
        "maxMovesPerWorkload": draw.one((1, "50%")),
        "minPodAge": "10m",
        "allowBarePods": True,
        "allowJobPods": True,
        "allowLocalStorage": True,
        "excludedPodSelector": {"matchLabels": KEPT},
        "excludedNamespaces": [],
    }
    arguments |= {key: value for key, value in optional.items() if draw.chance(0.2)}
    if "Defragmentation" in strategies:
        shape = draw.one(({"cpu": "2"}, {"cpu": "1", "memory": "2Gi"}))
        arguments["defragmentation"] = {"shape": shape}
    return arguments


def cases_without_migrations(count: int, seed: int = 0) -> Sequence[GeneratedCase]:
    """So many cases of all sizes, without migrations under way."""
    draw = Draw(f"scenes {seed}")
    return [
        GeneratedCase(
            nodes=tuple(draw.randrange(10**6) for _ in range(draw.randint(3, 10))),
            workloads=tuple(draw.randrange(10**6) for _ in range(draw.randint(4, 14))),
            policy=number,
            is_busy=False,
        )
        for number in range(count)
    ]
