"""Random days: a cluster and a policy of every kind, and what happens to them in a day.

Deployments grow and shrink, new versions are rolled out, nodes are worked on and fail, jobs come
and go. A day follows from its seed alone.
"""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from rescheduler.files.policy_file import read_policy
from rescheduler.settings import Policy
from rescheduler.simulation.cluster.json_objects import Json
from rescheduler.simulation.results.measurement.moves import ObservedMove
from rescheduler.simulation.scenario.cluster_completion import complete_cluster
from rescheduler.simulation.scenario.timeline import timeline_of
from rescheduler.simulation.scenario.workload_file import read_workload
from rescheduler.simulation.simulation import NamedPolicy, Progress, Scenario, simulate
from tests.planning.feasibility.draw import Draw
from tests.planning.rest.random_clusters import RandomCluster

MIDNIGHT = datetime(2026, 1, 1, tzinfo=UTC)
HOURS = 24
WORKLOAD = "example.com/workload"
_CHANGES = ("curve", "steps", "rollout", "nothing")


@dataclass(frozen=True)
class RandomDay:
    """The day of a seed."""

    seed: int

    @property
    def policy(self) -> Policy:
        """That of the cluster, with a round now and then."""
        interval = self._draw("policy").one(("15m", "30m", "60m"))
        times = {"reschedulingInterval": interval, "planningTimeout": "20ms"}
        return read_policy("policy", json.dumps(self._cluster.arguments | times).encode())

    @property
    def workload(self) -> dict[str, Any]:
        """What happens, as a workload file has it."""
        draw = self._draw("workload")
        deployments, rollouts = [], []
        for each in self._cluster.objects:
            if each["kind"] == "Deployment":
                metadata, replicas = each["metadata"], each["spec"]["replicas"]
                name = f"{metadata['namespace']}/{metadata['name']}"
                change = draw.one(_CHANGES)
                if change == "curve":
                    most = replicas + draw.randint(1, 4)
                    curve = {"low": max(replicas - 2, 1), "high": most, "peak": _time(draw)}
                    deployments.append({"name": name, "curve": curve})
                elif change == "steps":
                    points = {_time(draw): draw.randint(1, replicas + 2) for _ in range(3)}
                    deployments.append({"name": name, "points": points})
                elif change == "rollout":
                    rollouts.append({"deployment": name, "at": _time(draw)})
        happens: dict[str, Any] = {"start": "00:00", "deployments": deployments}
        happens["rollouts"] = rollouts
        happens["jobs"] = [_job(draw)] if draw.chance(0.5) else []
        if len(self._cluster.nodes) > 3:
            happens["maintenance"] = [{"at": _time(draw), "count": 1, "for": "2h"}]
            if draw.chance(0.4):
                happens["failures"] = [{"at": _time(draw), "count": 1, "backAfter": "30m"}]
        return happens

    def moves(self) -> list[ObservedMove]:
        """All moves that were requested, in the order in which they were."""
        day = read_workload("day", json.dumps(self.workload).encode())
        cluster = complete_cluster([_as_in_a_cluster(each) for each in self._cluster.objects])
        seconds = HOURS * 3600.0
        timeline = timeline_of(day, cluster.objects, seed=self.seed, seconds=seconds)
        scenario = Scenario(cluster.objects, timeline, MIDNIGHT, day.start, seconds, self.seed)
        seen: list[Progress] = []
        simulate(scenario, NamedPolicy("rules", self.policy), show=seen.append)
        return list(seen[-1].recorder.moves.by_uid.values())

    @property
    def _cluster(self) -> RandomCluster:
        return RandomCluster(self.seed)

    def _draw(self, what: str) -> Draw:
        return Draw(f"day {self.seed} {what}")


def _as_in_a_cluster(item: Json) -> Json:
    """The same object, with a label by which a workload selects its own pods and no others.

    Its template is derived from its pods.
    """
    if item["kind"] == "Pod":
        owners = [(WORKLOAD, owner["name"]) for owner in item["metadata"]["ownerReferences"]]
        labels = item["metadata"]["labels"] | dict(owners)
        return {**item, "metadata": {**item["metadata"], "labels": labels}}
    if "template" not in item.get("spec", {}):
        return item
    spec = {key: value for key, value in item["spec"].items() if key != "template"}
    spec["selector"] = {"matchLabels": {WORKLOAD: item["metadata"]["name"]}}
    return {**item, "spec": spec}


def _time(draw: Draw) -> str:
    return f"{draw.randint(0, 23):02}:{draw.randint(0, 59):02}"


def _job(draw: Draw) -> dict[str, Any]:
    return {
        "name": "batch/report",
        "at": _time(draw),
        "every": draw.one(("2h", "6h")),
        "pods": draw.randint(1, 6),
        "duration": "20m",
        "requests": {"cpu": "500m", "memory": "1Gi"},
    }
