"""Generated clusters in which every score plugin has something to say."""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from testcluster.builders import (
    HOSTNAME_LABEL,
    IMAGE,
    ZONE_LABEL,
    namespace,
    node,
    replicaset,
    statefulset,
)
from testcluster.client import JsonObject

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
PRIORITIES = {"low": -5, "middle": 10, "high": 1000}
APPS = tuple(f"app-{number}" for number in range(14))
TIERS = ("front", "back", "batch")
KEYS = (HOSTNAME_LABEL, ZONE_LABEL, "disk")


@dataclass(frozen=True)
class RandomWorkload:
    """Pods that are alike: their labels, spec, and who owns them, if anyone."""

    namespace: str
    name: str
    labels: dict[str, str]
    spec: JsonObject
    owner: JsonObject | None


class RandomCluster:
    """A cluster to schedule into: what is there from the start, and the workloads to come."""

    def __init__(self, number: int, nodes: int) -> None:
        self.random = Random(number)
        self.name = f"world-{number}"
        self.namespaces = [f"{self.name}-a", f"{self.name}-b"]
        self.nodes = [self._node(index) for index in range(nodes)]
        self.workloads = [self._workload(app) for app in APPS]
        self.services = list(self._services())

    def objects(self) -> Iterator[JsonObject]:
        """Everything that has to be there before the first pod."""
        for name in self.namespaces:
            yield namespace(name, labels={"team": name[-1]})
        yield from self.nodes
        yield from self.services
        for workload in self.workloads:
            if workload.owner is not None:
                yield workload.owner

    def next_workload(self) -> RandomWorkload:
        """The workload that gets one more pod."""
        return self.random.choice(self.workloads)

    # ------------------------------------------------------------ nodes

    def _node(self, index: int) -> JsonObject:
        pick = self.random
        labels = {"disk": pick.choice(("ssd", "hdd"))} if pick.random() < 0.8 else {}
        return node(
            f"{self.name}-node-{index:02}",
            cpu=pick.choice(("4", "8", "16", "3900m")),
            memory=pick.choice(("8Gi", "16Gi", "32Gi", "15500Mi")),
            pods=pick.choice((110, 110, 9)),
            zone=pick.choice(("a", "b", "c")) if pick.random() < 0.85 else None,
            labels=labels,
            taints=self._taints(),
            unschedulable=pick.random() < 0.05,
            managed=False,
        )

    def _taints(self) -> list[JsonObject]:
        pick = self.random
        preferences = [
            {"key": f"wish-{number}", "value": "x", "effect": "PreferNoSchedule"}
            for number in range(3)
            if pick.random() < 0.15
        ]
        hard = {"key": "dedicated", "value": "batch", "effect": "NoSchedule"}
        return [*preferences, hard] if pick.random() < 0.15 else preferences

    # ------------------------------------------------------------ workloads

    def _services(self) -> Iterator[JsonObject]:
        for own_namespace in self.namespaces:
            for key, values in (("app", self.random.sample(APPS, 6)), ("tier", ["front"])):
                for value in values:
                    yield {
                        "apiVersion": "v1",
                        "kind": "Service",
                        "metadata": {"name": f"{key}-{value}", "namespace": own_namespace},
                        "spec": {"selector": {key: value}, "ports": [{"port": 80}]},
                    }

    def _workload(self, app: str) -> RandomWorkload:
        pick = self.random
        own_namespace = pick.choice(self.namespaces)
        labels = {"app": app, "tier": pick.choice(TIERS), "pod-template-hash": f"h{app}"}
        owner = self._owner(f"{own_namespace}/{app}", labels)
        return RandomWorkload(own_namespace, app, labels, self._spec(app), owner)

    def _owner(self, key: str, labels: dict[str, str]) -> JsonObject | None:
        match self.random.randrange(4):
            case 0:
                return statefulset(key, replicas=0, labels={"app": labels["app"]})
            case 1 | 2:
                return replicaset(key, replicas=0, labels=labels)
        return None

    def _spec(self, app: str) -> JsonObject:
        pick = self.random
        spec: JsonObject = {"containers": self._containers("app", pick.choice((1, 1, 2)))}
        if pick.random() < 0.15:
            spec["initContainers"] = self._containers("init", 1)
        if pick.random() < 0.4:
            spec["priorityClassName"] = pick.choice(list(PRIORITIES))
        if pick.random() < 0.5:
            spec["tolerations"] = self._tolerations()
        if pick.random() < 0.4:
            spec["topologySpreadConstraints"] = self._constraints(app)
        affinity = self._affinity(app)
        if affinity:
            spec["affinity"] = affinity
        return spec

    def _containers(self, name: str, count: int) -> list[JsonObject]:
        pick = self.random
        containers = []
        for number in range(count):
            requests = {}
            if pick.random() < 0.75:
                requests["cpu"] = pick.choice(("50m", "100m", "250m", "700m"))
            if pick.random() < 0.7:
                requests["memory"] = pick.choice(("64Mi", "200Mi", "1Gi", "1500M"))
            made = {"name": f"{name}-{number}", "image": IMAGE, "resources": {"requests": requests}}
            containers.append(made)
        return containers

    def _tolerations(self) -> list[JsonObject]:
        return self.random.choice(
            (
                [{"key": "dedicated", "operator": "Exists"}],
                [{"key": "wish-0", "value": "x", "effect": "PreferNoSchedule"}],
                [{"key": "wish-1", "operator": "Exists"}, {"key": "dedicated", "value": "other"}],
                [{"operator": "Exists"}],
            )
        )

    def _constraints(self, app: str) -> list[JsonObject]:
        pick = self.random
        made = []
        for key in pick.sample(KEYS, pick.choice((1, 1, 2))):
            constraint: JsonObject = {
                "topologyKey": key,
                "maxSkew": pick.choice((1, 2, 4)),
                "whenUnsatisfiable": "ScheduleAnyway" if pick.random() < 0.8 else "DoNotSchedule",
                "labelSelector": self._selector(app),
            }
            if pick.random() < 0.3:
                constraint["nodeAffinityPolicy"] = "Ignore"
            if pick.random() < 0.3:
                constraint["nodeTaintsPolicy"] = "Honor"
            if pick.random() < 0.2:
                constraint["matchLabelKeys"] = ["pod-template-hash"]
            made.append(constraint)
        return made

    def _selector(self, app: str) -> JsonObject:
        pick = self.random
        return pick.choice(
            (
                {"matchLabels": {"app": app}},
                {"matchLabels": {"app": app}},
                {"matchExpressions": [{"key": "app", "operator": "In", "values": [app, APPS[0]]}]},
                {"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["batch"]}]},
                {"matchLabels": {"tier": pick.choice(TIERS)}},
            )
        )

    def _affinity(self, app: str) -> JsonObject:
        pick = self.random
        affinity: JsonObject = {}
        if pick.random() < 0.4:
            affinity["nodeAffinity"] = self._node_affinity()
        if pick.random() < 0.3:
            affinity["podAffinity"] = {PREFERRED: self._preferences(app)}
        if pick.random() < 0.4:
            affinity["podAntiAffinity"] = {PREFERRED: self._preferences(app)}
        if pick.random() < 0.1:
            own = {"matchLabels": {"app": app}}
            term = {"topologyKey": ZONE_LABEL, "labelSelector": own}
            affinity.setdefault("podAffinity", {})[REQUIRED] = [term]
        elif pick.random() < 0.1:
            other = {"matchLabels": {"app": pick.choice(APPS)}}
            term = {"topologyKey": HOSTNAME_LABEL, "labelSelector": other}
            affinity.setdefault("podAntiAffinity", {})[REQUIRED] = [term]
        return affinity

    def _node_affinity(self) -> JsonObject:
        pick = self.random
        ssd = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
        zone = {"matchExpressions": [{"key": ZONE_LABEL, "operator": "NotIn", "values": ["a"]}]}
        preferences = [{"weight": pick.randint(1, 100), "preference": term} for term in (ssd, zone)]
        affinity: JsonObject = {PREFERRED: pick.sample(preferences, pick.choice((1, 2)))}
        if pick.random() < 0.3:
            affinity[REQUIRED] = {"nodeSelectorTerms": [zone]}
        return affinity

    def _preferences(self, app: str) -> list[JsonObject]:
        pick = self.random
        return [
            {"weight": pick.randint(1, 100), "podAffinityTerm": self._term(app)}
            for _ in range(pick.choice((1, 2)))
        ]

    def _term(self, app: str) -> JsonObject:
        pick = self.random
        selector = self._selector(pick.choice((app, pick.choice(APPS))))
        term: JsonObject = {"topologyKey": pick.choice(KEYS), "labelSelector": selector}
        scopes: tuple[dict[str, Any], ...] = (
            {},
            {},
            {"namespaces": self.namespaces},
            {"namespaceSelector": {}},
            {"namespaceSelector": {"matchLabels": {"team": "b"}}},
        )
        return {**term, **pick.choice(scopes)}
