"""Stories that are told twice: on the test cluster, and in memory."""

from collections import Counter
from dataclasses import dataclass
from random import Random
from typing import Any

from rescheduler.simulation.cluster.json_objects import Json
from testcluster.builders import budget, deployment, pod, replicaset, statefulset
from tests.migration.support import COST, ID, STATUS, is_ready, node_of
from tests.simulation.real_and_simulated_clusters import (
    ClusterForCase,
    RealClusterForCase,
    SimulatedClusterForCase,
)

APP = "web"
FINISHED = ("Completed", "Failed", "Cancelled")
PLURALS = {
    "Deployment": "deployments",
    "ReplicaSet": "replicasets",
    "ReplicationController": "replicationcontrollers",
    "StatefulSet": "statefulsets",
    "Pod": "pods",
}
IN_THE_MIDDLE = ("scale down", "roll out", "pause", "delete migration", "delete pod")
"""What happens while the new pod is being started."""


@dataclass(frozen=True)
class MoveCase:
    """What a seed stands for."""

    seed: int
    kind: str
    replicas: int
    budgets: str
    mode: str
    event: str

    @property
    def evicts(self) -> bool:
        """Whether the old pod goes first, so that the scheduler chooses for its replacement."""
        return self.mode == "Evict" or self.kind == "StatefulSet"


def move_case(seed: int) -> MoveCase:
    """Every seed is another story, and twenty in a row have some of everything."""
    chance = Random(f"plot {seed}")
    turn, number = divmod(seed, 6)
    kind = ("Deployment", *PLURALS)[number]
    events = ["none", "small target", "cordoned target", "never ready"]
    if kind == "Deployment":
        turn = 2 * turn + number
        events = ["none", *IN_THE_MIDDLE, "small target", "never ready"]
    elif kind == "StatefulSet":
        events = ["none", "paused"]
    event = events[turn % len(events)]
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


def workload(plot: MoveCase, namespace: str) -> Json:
    """What is moved: it stays on the story's own nodes."""
    key = f"{namespace}/{APP}"
    here: dict[str, Any] = {"nodeSelector": {"rescheduler-test": namespace}}
    labels = {"app": APP, "part": "front"}
    match plot.kind:
        case "Deployment":
            return deployment(key, plot.replicas, "100m", template=here)
        case "StatefulSet":
            return statefulset(key, plot.replicas, "100m", template=here)
        case "Pod":
            made = pod(key, cpu="100m", labels={"app": APP}, **here)
            del made["status"]
            return made
    made = replicaset(key, plot.replicas, "100m", labels=labels, template=here)
    if plot.kind == "ReplicationController":
        made |= {"apiVersion": "v1", "kind": plot.kind}
        made["spec"]["selector"] = labels
    return made


def budgets_of(plot: MoveCase, namespace: str) -> list[Json]:
    """What protects it."""
    key = f"{namespace}/{APP}"
    second = budget(f"{key}-too", max_unavailable=1, selector={"app": APP})
    return {
        "none": [],
        "all": [budget(key, min_available=plot.replicas)],
        "one may be missing": [budget(key, max_unavailable=1)],
        "two": [budget(key, max_unavailable=1), second],
    }[plot.budgets]


@dataclass
class CaseOutcome:
    """What is compared."""

    steps: list[str]
    status: dict[str, Any]
    places: dict[str, int]
    """How many pods serve on each node."""
    leftovers: list[str]


class CaseRun:
    """Tells one plot on one stage."""

    def __init__(self, plot: MoveCase, stage: ClusterForCase) -> None:
        self.plot = plot
        self.stage = stage

    async def steps(self) -> None:
        """From the first pod to the end of the migration."""
        await self.set_up()
        await self.ask()
        if self.plot.event in IN_THE_MIDDLE:
            await self.wait_until_under_way()
            self.interfere()
        await self.stage.until(self.is_over, f"over: {self.plot} {self.migration()}")
        await self.stage.until(self.is_at_rest, f"at rest: {self.plot} {self.leftovers()}")

    async def set_up(self) -> None:
        """All pods are Ready on the first node; then there is a second one."""
        plot, stage = self.plot, self.stage
        await stage.add_node("first")
        await stage.put(workload(plot, stage.namespace))
        await stage.until(lambda: self.ready() == plot.replicas, "pods are Ready")
        # Of two budgets only one hears of pods; but each counts them when it is made.
        await stage.put(*budgets_of(plot, stage.namespace))
        await stage.until(self.are_counted, "budgets have been counted")
        hangs = plot.event in (*IN_THE_MIDDLE, "never ready")
        small = plot.event == "small target"
        await stage.add_node("second", works=not hangs, cpu="50m" if small else "8")
        if plot.event == "cordoned target":
            patch_node(stage, "second", unschedulable=True)
        if plot.evicts:
            # The replacement has only one place to go.
            patch_node(stage, "first", unschedulable=True)

    async def ask(self) -> None:
        """The move: of the pod whose name comes first."""
        chosen = min(self.stage.pods(APP), key=lambda each: each["metadata"]["name"])
        spec: Json = {
            "pod": {"name": chosen["metadata"]["name"], "uid": chosen["metadata"]["uid"]},
            "targetNode": self.stage.node("second"),
            "mode": self.plot.mode,
        }
        if self.plot.event == "never ready":
            spec["timeoutSeconds"] = 6
        if self.plot.event == "paused":
            spec["paused"] = True
        body = {
            "apiVersion": "rescheduler.dev/v1alpha1",
            "kind": "Migration",
            "metadata": {"name": "move", "namespace": self.stage.namespace},
            "spec": spec,
        }
        self.moved = chosen["metadata"]
        self.stage.create_migration(body)

    async def wait_until_under_way(self) -> None:
        await self.stage.until(
            lambda: (self.migration() or {"status": {}})["status"].get("newPod"), "under way"
        )

    def interfere(self) -> None:
        """What people do in the middle."""
        stage, plural = self.stage, PLURALS[self.plot.kind]
        match self.plot.event:
            case "scale down":
                stage.patch(plural, APP, {"spec": {"replicas": 1}})
            case "roll out":
                template = {"metadata": {"annotations": {"version": "2"}}}
                stage.patch(plural, APP, {"spec": {"template": template}})
            case "pause":
                stage.patch("migrations", "move", {"spec": {"paused": True}})
            case "delete migration":
                stage.delete("migrations", "move")
            case "delete pod":
                stage.delete("pods", self.moved["name"])

    # ------------------------------------------------------------ questions

    def migration(self) -> Json | None:
        return self.stage.migration("move")

    def ready(self) -> int:
        return sum(map(is_ready, self.stage.pods(APP)))

    def are_counted(self) -> bool:
        budgets = self.stage.owned("poddisruptionbudgets")
        counts = [each.get("status", {}).get("currentHealthy") for each in budgets]
        return counts == [self.plot.replicas] * len(budgets_of(self.plot, ""))

    def is_over(self) -> bool:
        found = self.migration()
        if found is None:
            return True
        if self.plot.event in ("pause", "paused"):
            status = found["status"]
            return bool(status.get("message") == "paused" and "step" not in status)
        return found["status"]["phase"] in FINISHED

    def is_at_rest(self) -> bool:
        # On a node that does not work, pods that were deleted stay.
        pods = [
            each for each in self.stage.pods(APP) if "deletionTimestamp" not in each["metadata"]
        ]
        wanted = 1 if self.plot.event == "scale down" else self.plot.replicas
        # After a rollout or a deletion, pods may be on the node that starts none.
        may_hang = self.plot.event in ("roll out", "delete pod")
        are_well = len(pods) == wanted and all(map(is_ready, pods))
        return (are_well or may_hang) and not self.leftovers()

    def leftovers(self) -> list[str]:
        found = []
        for each in self.stage.pods(APP):
            metadata = each["metadata"]
            if "deletionTimestamp" in metadata:
                continue
            if metadata.get("labels", {}).get(STATUS) == "in-progress":
                found.append(f"mark on {metadata['name']}")
            if metadata.get("annotations", {}).get(COST) == "-2147483647":
                found.append(f"cost of {metadata['name']}")
        for each in self.stage.owned("poddisruptionbudgets"):
            if ID in each["metadata"].get("labels", {}):
                found.append(f"budget {each['metadata']['name']}")
        return found

    def ending(self, steps: list[str]) -> CaseOutcome:
        """What became of it."""
        found = self.migration()
        status = found["status"] if found is not None else {}
        told = ("phase", "outcome", "mode", "attempts", "failures")
        places = Counter(
            node_of(each).removeprefix(f"{self.stage.namespace}-")
            for each in self.stage.pods(APP)
            if is_ready(each)
        )
        if self.plot.event in ("roll out", "delete pod"):
            # New pods may go to either node, and on one of them never get Ready.
            places = Counter()
        if self.plot.event in ("scale down", "roll out"):
            # The workload's own controller may take the old pod away before it is put back: of
            # equal pods those go whose random uid comes first, and a rollout is as quick as we are.
            steps = [step for step in steps if step != "restore-old"]
        return CaseOutcome(
            steps, {name: status.get(name) for name in told}, dict(places), self.leftovers()
        )


def patch_node(stage: ClusterForCase, name: str, **spec: Any) -> None:
    """Change a node."""
    if isinstance(stage, SimulatedClusterForCase):
        stage.cluster.patch("Node", stage.node(name), {"spec": spec})
    elif isinstance(stage, RealClusterForCase):
        stage.corner.outside.patch(f"/api/v1/nodes/{stage.node(name)}", {"spec": spec})
