"""From a workload to its future: every change with its time, decided before anything runs.

All chance comes from the seed, and each entry of the file has a chance of its own, so that adding
one does not change what happens to the others.
"""

from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from random import Random
from typing import Any

from rescheduler.errors import SettingsError
from rescheduler.files.conversion import BadValue
from rescheduler.files.problems import InvalidValue
from rescheduler.labels import CONTROL_PLANE_ROLES, MAINTENANCE
from rescheduler.model.kinds import DEPLOYMENT, NODE, Kind
from rescheduler.settings.value_types import node_label_of
from rescheduler.simulation.scenario import object_builders
from rescheduler.simulation.scenario.replica_curves import level_of
from rescheduler.simulation.scenario.timed_changes import (
    CreateObject,
    DeleteObject,
    FailNode,
    JsonObject,
    PatchObject,
    RestoreNode,
    TimedChange,
    Timeline,
)
from rescheduler.simulation.scenario.times import EventTime
from rescheduler.simulation.scenario.workload_fields import (
    BatchJob,
    Maintenance,
    NewNodes,
    NodeChoice,
    NodeFailure,
    Rollout,
    ScaledDeployment,
    WorkloadFile,
)

RESTARTED = "kubectl.kubernetes.io/restartedAt"


def timeline_of(
    workload: WorkloadFile,
    objects: Iterable[JsonObject],
    *,
    seed: int,
    seconds: float,
    name: str = "",
) -> Timeline:
    """All that happens within so many seconds to the cluster that consists of these objects.

    Raises `SettingsError` for what the cluster does not have; `name` is that of the file.
    """
    teller = _TimelineBuilder(workload, objects, seed, seconds)
    try:
        return tuple(sorted(teller.changes(), key=lambda change: change.at_seconds))
    except BadValue as error:
        raise SettingsError(f"{name or 'workload'}: {error}") from error


class _TimelineBuilder:
    """Tells what happens, entry by entry."""

    def __init__(
        self, workload: WorkloadFile, objects: Iterable[JsonObject], seed: int, seconds: float
    ) -> None:
        self._workload = workload
        self._seed = seed
        self._seconds = seconds
        self._namespaces: set[str] = set()
        self._nodes: dict[str, JsonObject] = {}
        self._deployments: dict[str, JsonObject] = {}
        for each in objects:
            self._know(each)

    def _know(self, each: JsonObject) -> None:
        metadata = each["metadata"]
        match each["kind"]:
            case "Namespace":
                self._namespaces.add(metadata["name"])
            case "Node":
                self._nodes[metadata["name"]] = each
            case "Deployment":
                self._deployments[f"{metadata['namespace']}/{metadata['name']}"] = each

    def changes(self) -> Iterator[TimedChange]:
        """Everything, entry by entry."""
        workload = self._workload
        for number, deployment in enumerate(workload.deployments):
            path = f"deployments[{number}]"
            yield from self._scaled(deployment, path, self._chance(path))
        for number, job in enumerate(workload.jobs):
            yield from self._runs(job, self._chance(f"jobs[{number}]"))
        for number, rollout in enumerate(workload.rollouts):
            yield from self._rollouts(rollout, f"rollouts[{number}]")
        for number, failure in enumerate(workload.failures):
            path = f"failures[{number}]"
            yield from self._failures(failure, path, self._chance(path))
        for number, maintenance in enumerate(workload.maintenance):
            path = f"maintenance[{number}]"
            yield from self._maintenance(maintenance, path, self._chance(path))
        for number, nodes in enumerate(workload.new_nodes):
            yield from self._new_nodes(nodes, number)

    def _chance(self, path: str) -> Random:
        return Random(f"{self._seed}/{path}")

    def _times(self, at: EventTime, every: float | None) -> Iterator[float]:
        moment = at.seconds_after(self._workload.start)
        while moment <= self._seconds:
            yield moment
            if every is None:
                return
            moment += every

    # ------------------------------------------------------------ workloads

    def _scaled(
        self, deployment: ScaledDeployment, path: str, chance: Random
    ) -> Iterator[TimedChange]:
        level, last = level_of(deployment), -1
        for at in self._times(EventTime("0s"), deployment.every):
            off = 1 + chance.uniform(-1, 1) * deployment.jitter / 100
            count = max(round(level(self._workload.start + at) * off), 0)
            if last < 0 and deployment.name not in self._deployments:
                yield from self._made(deployment, count, path)
            elif count != last:
                patch = PatchObject(DEPLOYMENT, deployment.name, {"spec": {"replicas": count}})
                yield TimedChange(at, patch, f"{deployment.name} is scaled to {count}")
            last = count

    def _made(self, deployment: ScaledDeployment, count: int, path: str) -> Iterator[TimedChange]:
        name = deployment.name
        if not deployment.requests:
            what = "expected a Deployment of the cluster, or requests to make one with"
            raise _unknown(f"{path}.name", name, what, self._deployments)
        yield from self._namespace(name)
        body = object_builders.deployment_body(name, count, deployment.requests)
        self._deployments[name] = body
        yield TimedChange(0.0, CreateObject(body), f"{name} is made, with {count} replicas")

    def _namespace(self, key: str) -> Iterator[TimedChange]:
        name = key.partition("/")[0]
        if name not in self._namespaces:
            self._namespaces.add(name)
            yield TimedChange(
                0.0, CreateObject(object_builders.namespace_body(name)), f"namespace {name} is made"
            )

    def _runs(self, job: BatchJob, chance: Random) -> Iterator[TimedChange]:
        yield from self._namespace(job.name)
        for number, at in enumerate(self._times(job.at, job.every), start=1):
            off = [1 + chance.uniform(-1, 1) * job.jitter / 100 for _ in range(2)]
            pods, seconds = max(round(job.pods * off[0]), 1), job.duration * off[1]
            body = object_builders.job_body(job.name, number, pods, seconds, job.requests)
            yield TimedChange(at, CreateObject(body), f"{job.name} runs, with {pods} pods")

    def _rollouts(self, rollout: Rollout, path: str) -> Iterator[TimedChange]:
        name = rollout.deployment
        if name not in self._deployments:
            what = "expected a Deployment of the cluster"
            raise _unknown(f"{path}.deployment", name, what, self._deployments)
        template: JsonObject = self._deployments[name]["spec"]["template"]
        for at in self._times(rollout.at, rollout.every):
            changed: JsonObject = {"metadata": {"annotations": {RESTARTED: f"{at:.0f}"}}}
            if rollout.requests:
                containers = object_builders.asking_for(
                    rollout.requests, template["spec"]["containers"]
                )
                changed["spec"] = {"containers": containers}
            patch = PatchObject(DEPLOYMENT, name, {"spec": {"template": changed}})
            yield TimedChange(at, patch, f"{name} gets a new version")

    # ------------------------------------------------------------ nodes

    def _failures(self, failure: NodeFailure, path: str, chance: Random) -> Iterator[TimedChange]:
        for at in self._times(failure.at, failure.every):
            for name in self._chosen(failure, path, chance):
                yield TimedChange(at, FailNode(name), f"{name} fails")
                if failure.back_after is not None:
                    back = at + failure.back_after
                    yield TimedChange(back, RestoreNode(name), f"{name} is back")

    def _maintenance(self, rest: Maintenance, path: str, chance: Random) -> Iterator[TimedChange]:
        label = self._label(rest, path)
        for at in self._times(rest.at, rest.every):
            for name in self._chosen(rest, path, chance):
                on, off = _labelled(name, label), _labelled(name, (label[0], None))
                yield TimedChange(at, on, f"{name} is to be emptied for maintenance")
                yield TimedChange(at + rest.lasts, off, f"{name} has been maintained")

    def _label(self, rest: Maintenance, path: str) -> tuple[str, str]:
        try:
            label = node_label_of(rest.label or MAINTENANCE)
        except ValueError as error:
            raise BadValue(InvalidValue(f"{path}.label", str(error), rest.label)) from error
        return label.key, label.value

    def _chosen(self, choice: NodeChoice, path: str, chance: Random) -> list[str]:
        if choice.node is not None:
            self._expect_node(choice.node, f"{path}.node")
            return [choice.node]
        able = [name for name, node in sorted(self._nodes.items()) if _is_for_users(node)]
        count = choice.count or 0
        if count > len(able):
            what = f"expected no more than the cluster has nodes ({len(able)})"
            raise BadValue(InvalidValue(f"{path}.count", what, count))
        return sorted(chance.sample(able, count))

    def _expect_node(self, name: str, path: str) -> None:
        if name not in self._nodes:
            raise _unknown(path, name, "expected a node of the cluster", self._nodes)

    def _new_nodes(self, nodes: NewNodes, number: int) -> Iterator[TimedChange]:
        if nodes.like:
            self._expect_node(nodes.like, f"newNodes[{number}].like")
        at = nodes.at.seconds_after(self._workload.start)
        for index in range(1, nodes.count + 1):
            name = f"new-{number + 1}-{index}"
            body = object_builders.node_body(name, self._nodes.get(nodes.like), nodes)
            yield TimedChange(at, CreateObject(body), f"{name} is added")
            if nodes.gone_after is not None:
                yield TimedChange(
                    at + nodes.gone_after, DeleteObject(NODE, name), f"{name} is removed"
                )


def _labelled(node: str, label: tuple[str, str | None]) -> PatchObject:
    kind: Kind[Any] = NODE
    return PatchObject(kind, node, {"metadata": {"labels": dict([label])}})


def _is_for_users(node: JsonObject) -> bool:
    labels = node["metadata"].get("labels") or {}
    return not any(role in labels for role in CONTROL_PLANE_ROLES)


def _unknown(path: str, name: str, what: str, known: Iterable[str]) -> BadValue:
    near = get_close_matches(name, list(known), n=1)
    advice = f"; did you mean {near[0]}?" if near else ""
    return BadValue(InvalidValue(path, what + advice, name))
