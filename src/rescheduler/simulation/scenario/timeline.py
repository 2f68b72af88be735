"""Turns a workload file into a timeline: every change and its time, before the run starts.

All chance comes from the seed. Each entry of the file has a random generator of its own, so adding
an entry does not change what happens by the others.
"""

from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from random import Random
from typing import Any

from rescheduler.errors import SettingsError
from rescheduler.files.invalid_value import BadValue, InvalidValue
from rescheduler.labels import CONTROL_PLANE_ROLES, MAINTENANCE, RESTARTED_AT
from rescheduler.model.kinds import DEPLOYMENT, NODE, Kind
from rescheduler.settings.value_types import node_label_of
from rescheduler.simulation.cluster.json_objects import Json
from rescheduler.simulation.scenario import object_builders
from rescheduler.simulation.scenario.replica_curves import replica_curve
from rescheduler.simulation.scenario.timed_changes import (
    CreateObject,
    DeleteObject,
    FailNode,
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


def timeline_of(
    workload: WorkloadFile,
    objects: Iterable[Json],
    *,
    seed: int,
    seconds: float,
    name: str = "",
) -> Timeline:
    """All changes within `seconds` to the cluster that consists of these objects.

    Raises `SettingsError` if the file `name` refers to objects that the cluster does not have.
    """
    builder = _TimelineBuilder(workload, objects, seed, seconds)
    try:
        return tuple(sorted(builder.changes(), key=lambda change: change.at_seconds))
    except BadValue as error:
        raise SettingsError(f"{name or 'workload'}: {error}") from error


class _TimelineBuilder:
    def __init__(
        self, workload: WorkloadFile, objects: Iterable[Json], seed: int, seconds: float
    ) -> None:
        self._workload = workload
        self._seed = seed
        self._seconds = seconds
        self._namespaces: set[str] = set()
        self._nodes: dict[str, Json] = {}
        self._deployments: dict[str, Json] = {}
        for value in objects:
            self._add(value)

    def _add(self, value: Json) -> None:
        metadata = value["metadata"]
        match value["kind"]:
            case "Namespace":
                self._namespaces.add(metadata["name"])
            case "Node":
                self._nodes[metadata["name"]] = value
            case "Deployment":
                self._deployments[f"{metadata['namespace']}/{metadata['name']}"] = value

    def changes(self) -> Iterator[TimedChange]:
        """The changes by entry of the file, not yet sorted by time."""
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
        seconds = at.seconds_after(self._workload.start)
        while seconds <= self._seconds:
            yield seconds
            if every is None:
                return
            seconds += every

    # ------------------------------------------------------------ workloads

    def _scaled(
        self, deployment: ScaledDeployment, path: str, chance: Random
    ) -> Iterator[TimedChange]:
        replicas_at, last = replica_curve(deployment), -1
        for at in self._times(EventTime("0s"), deployment.every):
            jitter = 1 + chance.uniform(-1, 1) * deployment.jitter / 100
            count = max(round(replicas_at(self._workload.start + at) * jitter), 0)
            if last < 0 and deployment.name not in self._deployments:
                yield from self._created(deployment, count, path)
            elif count != last:
                patch = PatchObject(DEPLOYMENT, deployment.name, {"spec": {"replicas": count}})
                yield TimedChange(at, patch, f"{deployment.name} is scaled to {count}")
            last = count

    def _created(
        self, deployment: ScaledDeployment, count: int, path: str
    ) -> Iterator[TimedChange]:
        name = deployment.name
        if not deployment.requests:
            what = "expected a Deployment of the cluster, or requests to create one with"
            raise _unknown(f"{path}.name", name, what, self._deployments)
        yield from self._namespace(name)
        body = object_builders.deployment_body(name, count, deployment.requests)
        self._deployments[name] = body
        yield TimedChange(0.0, CreateObject(body), f"{name} is created with {count} replicas")

    def _namespace(self, key: str) -> Iterator[TimedChange]:
        name = key.partition("/")[0]
        if name not in self._namespaces:
            self._namespaces.add(name)
            yield TimedChange(
                0.0,
                CreateObject(object_builders.namespace_body(name)),
                f"namespace {name} is created",
            )

    def _runs(self, job: BatchJob, chance: Random) -> Iterator[TimedChange]:
        yield from self._namespace(job.name)
        for number, at in enumerate(self._times(job.at, job.every), start=1):
            jitter = [1 + chance.uniform(-1, 1) * job.jitter / 100 for _ in range(2)]
            pods, seconds = max(round(job.pods * jitter[0]), 1), job.duration * jitter[1]
            body = object_builders.job_body(job.name, number, pods, seconds, job.requests)
            yield TimedChange(at, CreateObject(body), f"{job.name} runs with {pods} pods")

    def _rollouts(self, rollout: Rollout, path: str) -> Iterator[TimedChange]:
        name = rollout.deployment
        if name not in self._deployments:
            what = "expected a Deployment of the cluster"
            raise _unknown(f"{path}.deployment", name, what, self._deployments)
        template: Json = self._deployments[name]["spec"]["template"]
        for at in self._times(rollout.at, rollout.every):
            changed: Json = {"metadata": {"annotations": {RESTARTED_AT: f"{at:.0f}"}}}
            if rollout.requests:
                containers = object_builders.with_requests(
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

    def _maintenance(
        self, maintenance: Maintenance, path: str, chance: Random
    ) -> Iterator[TimedChange]:
        label = self._label(maintenance, path)
        for at in self._times(maintenance.at, maintenance.every):
            for name in self._chosen(maintenance, path, chance):
                on, off = _labelled(name, label), _labelled(name, (label[0], None))
                yield TimedChange(at, on, f"{name} is labelled for maintenance")
                yield TimedChange(at + maintenance.lasts, off, f"maintenance of {name} ends")

    def _label(self, maintenance: Maintenance, path: str) -> tuple[str, str]:
        try:
            label = node_label_of(maintenance.label or MAINTENANCE)
        except ValueError as error:
            raise BadValue(InvalidValue(f"{path}.label", str(error), maintenance.label)) from error
        return label.key, label.value

    def _chosen(self, choice: NodeChoice, path: str, chance: Random) -> list[str]:
        if choice.node is not None:
            self._expect_node(choice.node, f"{path}.node")
            return [choice.node]
        workers = [name for name, node in sorted(self._nodes.items()) if _is_worker(node)]
        count = choice.count or 0
        if count > len(workers):
            what = f"expected no more than the cluster has nodes ({len(workers)})"
            raise BadValue(InvalidValue(f"{path}.count", what, count))
        return sorted(chance.sample(workers, count))

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


def _is_worker(node: Json) -> bool:
    labels = node["metadata"].get("labels") or {}
    return not any(role in labels for role in CONTROL_PLANE_ROLES)


def _unknown(path: str, name: str, what: str, known: Iterable[str]) -> BadValue:
    near = get_close_matches(name, list(known), n=1)
    advice = f"; did you mean {near[0]}?" if near else ""
    return BadValue(InvalidValue(path, what + advice, name))
