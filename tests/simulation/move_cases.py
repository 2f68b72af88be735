"""Moves that are made twice: on the test cluster, and on a simulated one."""

from collections import Counter
from dataclasses import dataclass
from random import Random
from typing import Any

from rescheduler.labels import PLACING_GATE
from rescheduler.simulation.cluster.json_objects import (
    Json,
    condition_of,
    gates_of,
    nominated_node_of,
)
from testcluster.builders import (
    HOSTNAME_LABEL,
    budget,
    deployment,
    pod,
    replicaset,
    statefulset,
)
from tests.migration.support import COST, ID, STATUS, is_ready, node_of
from tests.simulation.real_and_simulated_clusters import (
    ClusterForCase,
    RealClusterForCase,
    SimulatedClusterForCase,
)

APP = "web"
RANDOM_CASES = 20
CASES = 22
FINISHED = ("Completed", "Failed", "Cancelled")
PLURALS = {
    "Deployment": "deployments",
    "ReplicaSet": "replicasets",
    "ReplicationController": "replicationcontrollers",
    "StatefulSet": "statefulsets",
    "Pod": "pods",
}
EVENTS_DURING_MOVE = ("scale down", "roll out", "pause", "delete migration", "delete pod")
"""Events that happen while the new pod starts."""
EVENTS_WHILE_GATED = ("foreign gate", "rival")
"""The new pod waits for somebody else, in one case while a rival wants its place."""
RIVAL = "rival"
FOREIGN_GATE = "example.com/quota"
NOWHERE: Json = {"spec": {}, "status": {}}


@dataclass(frozen=True)
class MoveCase:
    """The workload, its budgets, the move, and an event."""

    seed: int
    kind: str
    replicas: int
    budgets: str
    mode: str
    event: str

    @property
    def evicts(self) -> bool:
        """Whether the old pod is evicted, so that the scheduler places its replacement."""
        return self.mode == "Evict" or self.kind == "StatefulSet"


def move_case(seed: int) -> MoveCase:
    """The case of a seed; the first of them have some of everything."""
    if seed >= RANDOM_CASES:
        event = EVENTS_WHILE_GATED[seed - RANDOM_CASES]
        return MoveCase(seed, "ReplicaSet", 2, "one may be missing", "Auto", event)
    chance = Random(f"plot {seed}")
    group, number = divmod(seed, 6)
    kind = ("Deployment", *PLURALS)[number]
    events = ["none", "small target", "cordoned target", "never ready"]
    if kind == "Deployment":
        group = 2 * group + number
        events = ["none", *EVENTS_DURING_MOVE, "small target", "never ready"]
    elif kind == "StatefulSet":
        events = ["none", "paused"]
    event = events[group % len(events)]
    mode = "Auto"
    if kind not in ("Pod", "StatefulSet"):
        mode = chance.choice(
            ("Auto", "Handoff", "Evict") if event == "none" else ("Auto", "Handoff")
        )
    budgets = chance.choice(("none", "all", "one may be missing", "two"))
    if mode == "Evict" or kind == "StatefulSet":
        budgets = chance.choice(("none", "one may be missing"))
    replicas = 3 if event == "scale down" else chance.randint(1, 3)
    if kind == "Pod":
        return MoveCase(seed, kind, 1, "none", mode, event)
    return MoveCase(seed, kind, replicas, budgets, mode, event)


def workload(case: MoveCase, namespace: str) -> Json:
    """The workload that is moved; a node selector keeps it on the nodes of its case."""
    key = f"{namespace}/{APP}"
    here: dict[str, Any] = {"nodeSelector": {"rescheduler-test": namespace}}
    labels = {"app": APP, "part": "front"}
    match case.kind:
        case "Deployment":
            return deployment(key, case.replicas, "100m", template=here)
        case "StatefulSet":
            return statefulset(key, case.replicas, "100m", template=here)
        case "Pod":
            made = pod(key, cpu="100m", labels={"app": APP}, **here)
            del made["status"]
            return made
    made = replicaset(key, case.replicas, "100m", labels=labels, template=here)
    if case.kind == "ReplicationController":
        made |= {"apiVersion": "v1", "kind": case.kind}
        made["spec"]["selector"] = labels
    return made


def budgets_of(case: MoveCase, namespace: str) -> list[Json]:
    """The budgets of the workload."""
    key = f"{namespace}/{APP}"
    second = budget(f"{key}-too", max_unavailable=1, selector={"app": APP})
    return {
        "none": [],
        "all": [budget(key, min_available=case.replicas)],
        "one may be missing": [budget(key, max_unavailable=1)],
        "two": [budget(key, max_unavailable=1), second],
    }[case.budgets]


@dataclass
class CaseOutcome:
    """What is compared between the real and the simulated cluster."""

    steps: list[str]
    status: dict[str, Any]
    places: dict[str, int]
    """How many Ready pods are on each node."""
    leftovers: list[str]


class CaseRun:
    """Runs one case on one cluster."""

    def __init__(self, case: MoveCase, cluster: ClusterForCase) -> None:
        self.case = case
        self.cluster = cluster

    async def run(self) -> None:
        """From the creation of the workload to the end of the migration."""
        await self.set_up()
        await self.request_move()
        if self.case.event in EVENTS_DURING_MOVE:
            await self.wait_until_in_progress()
            self.cause_event()
        if self.case.event in EVENTS_WHILE_GATED:
            await self.open_foreign_gate()
        await self.cluster.until(self.is_finished, f"finished: {self.case} {self.migration()}")
        await self.cluster.until(self.is_at_rest, f"at rest: {self.case} {self.leftovers()}")

    async def set_up(self) -> None:
        """All pods are Ready on the first node; then there is a second one."""
        case, cluster = self.case, self.cluster
        await cluster.add_node("first")
        await cluster.put(workload(case, cluster.namespace))
        await cluster.until(lambda: self.ready() == case.replicas, "pods are Ready")
        # Of two budgets only one follows the pods; but both count them when they are created.
        await cluster.put(*budgets_of(case, cluster.namespace))
        await cluster.until(self.are_counted, "budgets have been counted")
        hangs = case.event in (*EVENTS_DURING_MOVE, "never ready")
        small = case.event == "small target"
        gated = case.event in EVENTS_WHILE_GATED
        cpu = "50m" if small else "150m" if gated else "8"
        await cluster.add_node("second", works=not hangs, cpu=cpu)
        if gated:
            # Only pods that are created from now on.
            template = {"spec": {"schedulingGates": [{"name": FOREIGN_GATE}]}}
            cluster.patch(PLURALS[case.kind], APP, {"spec": {"template": template}})
        if case.event == "cordoned target":
            patch_node(cluster, "second", unschedulable=True)
        if case.evicts:
            # The replacement can run on one node only.
            patch_node(cluster, "first", unschedulable=True)

    async def request_move(self) -> None:
        """Request a move of the pod whose name comes first."""
        chosen = min(self.cluster.pods(APP), key=lambda each: each["metadata"]["name"])
        spec: Json = {
            "pod": {"name": chosen["metadata"]["name"], "uid": chosen["metadata"]["uid"]},
            "targetNode": self.cluster.node("second"),
            "mode": self.case.mode,
        }
        if self.case.event == "never ready":
            spec["timeoutSeconds"] = 6
        if self.case.event == "paused":
            spec["paused"] = True
        body = {
            "apiVersion": "rescheduler.dev/v1alpha1",
            "kind": "Migration",
            "metadata": {"name": "move", "namespace": self.cluster.namespace},
            "spec": spec,
        }
        self.moved = chosen["metadata"]
        self.cluster.create_migration(body)

    def new_pod(self) -> Json | None:
        name = (self.migration() or {"status": {}})["status"].get("newPod")
        found = [new for new in self.cluster.pods(APP) if new["metadata"]["name"] == name]
        return found[0] if found else None

    async def wait_until_in_progress(self) -> None:
        """Until the new pod is on its node; there it never becomes Ready."""
        await self.cluster.until(lambda: node_of(self.new_pod() or NOWHERE), "in progress")

    async def open_foreign_gate(self) -> None:
        """Let the new pod go on, once its place is reserved and a rival has been turned away."""
        cluster = self.cluster
        await cluster.until(lambda: nominated_node_of(self.new_pod() or NOWHERE), "nominated")
        if self.case.event == "rival":
            only: Json = {"nodeSelector": {HOSTNAME_LABEL: cluster.node("second")}}
            rival = pod(f"{cluster.namespace}/{RIVAL}", cpu="100m", labels={"app": RIVAL}, **only)
            del rival["status"]
            await cluster.put(rival)
            await cluster.until(self.is_rival_refused, "the rival is turned away")
        new = self.new_pod()
        assert new is not None
        assert gates_of(new) == [FOREIGN_GATE, PLACING_GATE], "nobody else has opened a gate"
        left = {"spec": {"schedulingGates": [{"name": PLACING_GATE}]}}
        cluster.patch("pods", new["metadata"]["name"], left)

    def is_rival_refused(self) -> bool:
        conditions = [condition_of(rival, "PodScheduled") for rival in self.cluster.pods(RIVAL)]
        return any(found and found.get("reason") == "Unschedulable" for found in conditions)

    def cause_event(self) -> None:
        """Change something while the new pod starts."""
        cluster, plural = self.cluster, PLURALS[self.case.kind]
        match self.case.event:
            case "scale down":
                cluster.patch(plural, APP, {"spec": {"replicas": 1}})
            case "roll out":
                template = {"metadata": {"annotations": {"version": "2"}}}
                cluster.patch(plural, APP, {"spec": {"template": template}})
            case "pause":
                cluster.patch("migrations", "move", {"spec": {"paused": True}})
            case "delete migration":
                cluster.delete("migrations", "move")
            case "delete pod":
                cluster.delete("pods", self.moved["name"])

    # ------------------------------------------------------------ state

    def migration(self) -> Json | None:
        return self.cluster.migration("move")

    def ready(self) -> int:
        return sum(map(is_ready, self.cluster.pods(APP)))

    def are_counted(self) -> bool:
        budgets = self.cluster.owned("poddisruptionbudgets")
        counts = [found_budget.get("status", {}).get("currentHealthy") for found_budget in budgets]
        return counts == [self.case.replicas] * len(budgets_of(self.case, ""))

    def is_finished(self) -> bool:
        found = self.migration()
        if found is None:
            return True
        if self.case.event in ("pause", "paused"):
            status = found["status"]
            return bool(status.get("message") == "paused" and "step" not in status)
        return found["status"]["phase"] in FINISHED

    def is_at_rest(self) -> bool:
        # On a node that does not work, pods that were deleted stay.
        pods = [pod for pod in self.cluster.pods(APP) if "deletionTimestamp" not in pod["metadata"]]
        wanted = 1 if self.case.event == "scale down" else self.case.replicas
        # After a rollout or a deletion, pods may be on the node that starts none.
        may_hang = self.case.event in ("roll out", "delete pod")
        are_well = len(pods) == wanted and all(map(is_ready, pods))
        return (are_well or may_hang) and not self.leftovers()

    def leftovers(self) -> list[str]:
        found = []
        for each in self.cluster.pods(APP):
            metadata = each["metadata"]
            if "deletionTimestamp" in metadata:
                continue
            if metadata.get("labels", {}).get(STATUS) == "in-progress":
                found.append(f"mark on {metadata['name']}")
            if metadata.get("annotations", {}).get(COST) == "-2147483647":
                found.append(f"cost of {metadata['name']}")
        for each in self.cluster.owned("poddisruptionbudgets"):
            if ID in each["metadata"].get("labels", {}):
                found.append(f"budget {each['metadata']['name']}")
        return found

    def outcome(self, steps: list[str]) -> CaseOutcome:
        """The outcome, given the recorded steps."""
        found = self.migration()
        status = found["status"] if found is not None else {}
        compared = ("phase", "outcome", "mode", "attempts", "failures")
        places = Counter(
            node_of(each).removeprefix(f"{self.cluster.namespace}-")
            for each in self.cluster.pods(APP)
            if is_ready(each)
        )
        if self.case.event in ("roll out", "delete pod"):
            # New pods may go to either node, and on one of them never get Ready.
            places = Counter()
        if self.case.event in ("scale down", "roll out"):
            # The workload's own controller may take the old pod away before it is put back: of
            # equal pods those go whose random uid comes first, and a rollout is as quick as we are.
            steps = [step for step in steps if step != "restore-old"]
        return CaseOutcome(
            steps, {name: status.get(name) for name in compared}, dict(places), self.leftovers()
        )


def patch_node(cluster: ClusterForCase, name: str, **spec: Any) -> None:
    """Change a node."""
    if isinstance(cluster, SimulatedClusterForCase):
        cluster.simulated.patch("Node", cluster.node(name), {"spec": spec})
    elif isinstance(cluster, RealClusterForCase):
        cluster.sandbox.outside.patch(f"/api/v1/nodes/{cluster.node(name)}", {"spec": spec})
