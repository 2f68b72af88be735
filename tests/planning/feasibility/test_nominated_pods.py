"""Pods that wait for a node and are nominated to one keep others from its room.

The rules are first said one by one, and then compared with a real kube-scheduler.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from random import Random
from typing import Any

import pytest

from rescheduler.planning.explanation import explain
from rescheduler.planning.feasibility.checker import FeasibilityChecker
from rescheduler.settings import Policy
from testcluster import TestCluster
from testcluster.applying import apply
from testcluster.builders import HOSTNAME_LABEL, node, pod
from testcluster.client import ApiError, JsonObject
from testcluster.snapshots import snapshot_of
from testcluster.waiting import wait_until

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
GATE: JsonObject = {"schedulingGates": [{"name": "example.com/wait"}]}


def nominated(key: str, to: str, **options: Any) -> JsonObject:
    """A gated pod that is nominated to a node."""
    built = pod(key, **GATE, **options)
    built["status"]["nominatedNodeName"] = to
    return built


def accepting(objects: list[JsonObject], newcomer: JsonObject) -> list[str]:
    """The nodes that accept a new pod."""
    snapshot = snapshot_of([*objects, newcomer])
    key = f"{newcomer['metadata']['namespace']}/{newcomer['metadata']['name']}"
    row = snapshot.pods.find(key)
    assert row is not None
    checker = FeasibilityChecker(snapshot)
    template = int(snapshot.pods.template[row])
    refusals = checker.refusals(template).tolist()
    for index, number in enumerate(refusals):
        if number:
            assert checker.reason(template, index)
    assert checker.refusals(template).tolist() == refusals, "asking has changed the answer"
    names = snapshot.nodes.names
    return [name for name, number in zip(names, refusals, strict=True) if not number]


NODES = [node("a", cpu="1"), node("b", cpu="1")]


@pytest.mark.parametrize(("priority", "expected"), [(0, ["b"]), (-1, ["b"]), (1, ["a", "b"])])
def test_room_is_kept_from_pods_of_no_higher_priority(priority: int, expected: list[str]) -> None:
    first = nominated("shop/first", "a", cpu="1", priority=0)
    newcomer = pod("shop/newcomer", cpu="500m", priority=priority)
    assert accepting([*NODES, first], newcomer) == expected


def test_a_pod_that_is_bound_or_has_ended_is_nominated_no_more() -> None:
    bound = nominated("shop/bound", "a", cpu="1", on="b")
    ended = nominated("shop/ended", "a", cpu="1", phase="Failed")
    assert accepting([*NODES, bound, ended], pod("shop/newcomer", cpu="1")) == ["a"]


def test_a_nomination_to_a_node_that_is_gone_keeps_nothing() -> None:
    lost = nominated("shop/lost", "c", cpu="1")
    assert accepting([*NODES, lost], pod("shop/newcomer", cpu="1")) == ["a", "b"]


def test_host_ports_are_kept_too() -> None:
    ports = [{"name": "app", "image": "i", "ports": [{"containerPort": 80, "hostPort": 80}]}]
    first = nominated("shop/first", "a", containers=ports)
    assert accepting([*NODES, first], pod("shop/newcomer", containers=ports)) == ["b"]


def near(key: str, labels: dict[str, str]) -> JsonObject:
    return {REQUIRED: [{"topologyKey": key, "labelSelector": {"matchLabels": labels}}]}


def test_a_pod_that_is_only_nominated_satisfies_no_affinity() -> None:
    friend = nominated("shop/friend", "a", labels={"app": "friend"})
    affinity = {"podAffinity": near(HOSTNAME_LABEL, {"app": "friend"})}
    assert accepting([*NODES, friend], pod("shop/newcomer", affinity=affinity)) == []


def test_anti_affinity_counts_on_the_nominated_node_and_not_in_all_of_its_zone() -> None:
    nodes = [node(name, zone="z") for name in "ab"]
    enemy = nominated("shop/enemy", "a", labels={"app": "enemy"})
    affinity = {"podAntiAffinity": near("topology.kubernetes.io/zone", {"app": "enemy"})}
    assert accepting([*nodes, enemy], pod("shop/newcomer", affinity=affinity)) == ["b"]


def test_anti_affinity_of_a_nominated_pod_counts_only_if_that_of_a_placed_pod_does() -> None:
    """The scheduler skips the plugin if no placed pod has anything against the newcomer."""
    lonely = {"podAntiAffinity": near(HOSTNAME_LABEL, {"app": "new"})}
    objects = [node("a"), node("b"), node("c"), nominated("shop/first", "a", affinity=lonely)]
    newcomer = pod("shop/newcomer", labels={"app": "new"})
    assert accepting(objects, newcomer) == ["a", "b", "c"]
    assert accepting([*objects, pod("shop/placed", on="b", affinity=lonely)], newcomer) == ["c"]


def test_a_nominated_pod_does_not_stand_in_its_own_way() -> None:
    snapshot = snapshot_of([node("a", cpu="1"), nominated("shop/first", "a", cpu="1")])
    (verdict,) = explain(snapshot, Policy(), 0).nodes
    assert verdict.accepted
    assert verdict.accepted_beside_old_pod


def test_moves_are_followed_while_pods_are_nominated() -> None:
    objects = [*NODES, nominated("shop/first", "a", cpu="600m"), pod("shop/old", on="a", cpu="1")]
    snapshot = snapshot_of([*objects, pod("shop/small", cpu="400m")])
    checker = FeasibilityChecker(snapshot)
    small, old = (snapshot.pods.find(f"shop/{name}") for name in ("small", "old"))
    assert small is not None
    assert old is not None
    template = int(snapshot.pods.template[small])
    assert checker.accepted(template).tolist() == [False, True]
    checker.move(old, 1)
    assert checker.accepted(template).tolist() == [True, False]
    assert checker.refusals_without(old).tolist() == [5, 0], "its own room, but for the nominated"


# ------------------------------------------------------------ compared with a real scheduler

PRIORITIES = {"nominated-low": -10, "nominated-mid": 0, "nominated-high": 10}
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
numbers = count(1)


class Trial:
    """A namespace of a real cluster with nodes of its own, and pods that only fit there."""

    def __init__(self, cluster: TestCluster, random: Random) -> None:
        self._cluster = cluster
        self._client = cluster.client
        self._random = random
        self.namespace = f"nominated-{next(numbers)}"
        self.zone = f"example.com/zone-of-{self.namespace}"
        self._nodes: list[JsonObject] = []

    def set_up(self) -> None:
        """Create nodes, pods on them, and pods that are nominated to them."""
        names = [f"{self.namespace}-{letter}" for letter in "abc"]
        zones = ["z1", "z1", "z2"]
        self._nodes = [
            node(name, cpu="2", labels={self.zone: zone})
            for name, zone in zip(names, zones, strict=True)
        ]
        apply(self._cluster, *self._nodes)
        bound = [self.pod(f"bound-{number}", on=names[number]) for number in range(2)]
        apply(self._cluster, *bound)
        for number in range(4):
            apply(self._cluster, self.pod(f"waiting-{number}", **GATE))
            path = f"/api/v1/namespaces/{self.namespace}/pods/waiting-{number}/status"
            target = self._random.choice(names)
            self._client.patch(path, {"status": {"nominatedNodeName": target}})

    def pod(self, name: str, **options: Any) -> JsonObject:
        """A pod with something of everything that nominated pods can be in the way of."""
        random = self._random
        app = random.choice(["x", "y"])
        if "priorityClassName" not in options and "on" not in options:
            options["priorityClassName"] = random.choice([*PRIORITIES])
        container: JsonObject = {
            "name": "app",
            "image": "i",
            "resources": {"requests": {"cpu": random.choice(["100m", "500m", "1", "1500m"])}},
        }
        if random.random() < 0.3:
            container["ports"] = [{"containerPort": 80, "hostPort": 8080}]
        affinity: JsonObject = {}
        key = random.choice([HOSTNAME_LABEL, self.zone])
        other = {"app": random.choice(["x", "y"])}
        match random.randrange(5):
            case 0:
                affinity = {"podAntiAffinity": near(key, other)}
            case 1:
                affinity = {"podAffinity": near(key, other)}
            case 2:
                options["topologySpreadConstraints"] = [
                    {
                        "maxSkew": 1,
                        "topologyKey": self.zone,
                        "whenUnsatisfiable": "DoNotSchedule",
                        "labelSelector": {"matchLabels": other},
                        # Otherwise a pod for one node would count that node only.
                        "nodeAffinityPolicy": "Ignore",
                    }
                ]
        key = f"{self.namespace}/{name}"
        fields = {"labels": {"app": app}, "containers": [container], "affinity": affinity}
        return pod(key, **{**fields, **options})

    def accepts(self, newcomer: JsonObject, name: str) -> bool:
        """Whether the scheduler puts a pod onto a node if it may use no other."""
        # A name of its own each time: kwok deletes a pod by its name, perhaps a moment late.
        unique = f"{newcomer['metadata']['name']}-on-{name}"
        wanted = {**newcomer, "metadata": {**newcomer["metadata"], "name": unique}}
        wanted["spec"] = {**newcomer["spec"], "nodeSelector": {HOSTNAME_LABEL: name}}
        (created,) = apply(self._cluster, wanted)
        path = f"/api/v1/namespaces/{self.namespace}/pods/{created['metadata']['name']}"

        def answer() -> str:
            seen = self._client.get(path)
            if seen["spec"].get("nodeName"):
                return "bound"
            return next(
                (
                    condition["reason"]
                    for condition in seen["status"].get("conditions", [])
                    if condition["type"] == "PodScheduled" and condition["status"] == "False"
                ),
                "",
            )

        answered = wait_until(answer, what=f"the scheduler has looked at {path}")
        self._client.delete(f"{path}?gracePeriodSeconds=0")
        wait_until(lambda: not self._client.exists(path), what=f"{path} is gone")
        return answered == "bound"

    def objects(self) -> list[JsonObject]:
        """The nodes and pods as the server has them."""
        pods = self._client.get(f"/api/v1/namespaces/{self.namespace}/pods")["items"]
        nodes = [
            self._client.get(f"/api/v1/nodes/{built['metadata']['name']}") for built in self._nodes
        ]
        return [*nodes, *({**item, "kind": "Pod"} for item in pods)]

    def tear_down(self) -> None:
        self._client.delete(f"/api/v1/namespaces/{self.namespace}")
        for built in self._nodes:
            self._client.delete(f"/api/v1/nodes/{built['metadata']['name']}")


@pytest.fixture
def trial(cluster: TestCluster, request: pytest.FixtureRequest) -> Iterator[Trial]:
    for name, value in PRIORITIES.items():
        body = {"metadata": {"name": name}, "value": value, "preemptionPolicy": "Never"}
        with suppress(ApiError):
            cluster.client.create(CLASSES, body)
    made = Trial(cluster, Random(request.param))
    made.set_up()
    yield made
    made.tear_down()


@pytest.mark.parametrize("trial", range(3), indirect=True)
def test_a_real_scheduler_keeps_the_same_room(trial: Trial) -> None:
    answers: Counter[tuple[bool, bool]] = Counter()
    for number in range(12):
        newcomer = trial.pod(f"newcomer-{number}")
        newcomer["spec"]["priority"] = PRIORITIES[newcomer["spec"]["priorityClassName"]]
        objects = trial.objects()
        ours = accepting(objects, newcomer)
        bound = [item for item in objects if item["kind"] == "Node" or "nodeName" in item["spec"]]
        without_nominated = accepting(bound, newcomer)
        for item in objects:
            if item["kind"] == "Node":
                name = item["metadata"]["name"]
                asked = {**newcomer["spec"]}
                asked.pop("priority")
                theirs = trial.accepts({**newcomer, "spec": asked}, name)
                assert theirs == (name in ours), description(newcomer, name, objects)
                answers[name in without_nominated, theirs] += 1
    assert answers[True, True] > 2
    assert answers[True, False] > 2, "nominated pods make a difference"


def description(newcomer: JsonObject, name: str, objects: list[JsonObject]) -> str:
    pods = [item for item in objects if item["kind"] == "Pod"]
    return "\n".join([f"{brief(newcomer)} on {name}, among", *map(brief, pods)])


def brief(item: JsonObject) -> str:
    spec, status = item["spec"], item["status"]
    where = spec.get("nodeName") or f"nominated to {status.get('nominatedNodeName')}"
    fields = ("priority", "containers", "affinity", "topologySpreadConstraints")
    told = {field: spec[field] for field in fields if spec.get(field)}
    return f"{item['metadata']['name']} {item['metadata']['labels']} {where} {told}"
