"""From a workload file to a workload.

Whatever is wrong with the file is raised as a `SettingsError` that names the file, the field, the
value, and what was expected. Whether the cluster has what the file names is the future's business.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rescheduler.errors import SettingsError
from rescheduler.files.conversion import BadValue, converted
from rescheduler.files.documents import BadDocument, yaml_documents
from rescheduler.files.problems import InvalidValue, step
from rescheduler.model.quantities import EXPECTED, BadQuantity, Quantity, nanos
from rescheduler.model.resources import is_counted
from rescheduler.simulation.scenario.times import time_of_day, workload_value
from rescheduler.simulation.scenario.workload_fields import (
    NodeChoice,
    ScaledDeployment,
    WorkloadFile,
)

EXPECTED_NAME = "expected a name such as 'shop/web'"
EXPECTED_LETTERS = "expected small letters, digits and '-', as Kubernetes has names"
# More pods or nodes than these, or things that happen more often, are slips of the finger.
MOST = 100_000
LEAST_SECONDS = 1

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", re.ASCII)


def read_workload(name: str, data: bytes) -> WorkloadFile:
    """The workload in a file, given its name and its content. An empty file is an idle cluster."""
    try:
        return checked(
            converted(_content_of(yaml_documents(data)), WorkloadFile, "", workload_value)
        )
    except (BadDocument, BadValue) as error:
        raise SettingsError(f"{name}: {error}") from error


def checked(workload: WorkloadFile) -> WorkloadFile:
    """The workload, if what its fields say fits together; else `BadValue`."""
    for problem in problems_of(workload):
        raise BadValue(problem)
    return workload


def problems_of(workload: WorkloadFile) -> Iterator[InvalidValue]:
    """What types alone do not tell."""
    yield from _repeated("deployments", (each.name for each in workload.deployments))
    yield from _repeated("jobs", (each.name for each in workload.jobs))
    for number, deployment in enumerate(workload.deployments):
        path = f"deployments[{number}]"
        yield from _named(deployment.name, f"{path}.name")
        yield from _scaled(deployment, path)
        yield from _often(deployment.every, path)
        yield from _amounts(deployment.requests, f"{path}.requests")
    for number, job in enumerate(workload.jobs):
        yield from _named(job.name, f"jobs[{number}].name")
        yield from _few(job.pods, f"jobs[{number}].pods")
        yield from _often(job.every, f"jobs[{number}]")
        yield from _amounts(job.requests, f"jobs[{number}].requests")
    for number, rollout in enumerate(workload.rollouts):
        yield from _named(rollout.deployment, f"rollouts[{number}].deployment")
        yield from _often(rollout.every, f"rollouts[{number}]")
        yield from _amounts(rollout.requests, f"rollouts[{number}].requests")
    for field, choices in (("failures", workload.failures), ("maintenance", workload.maintenance)):
        for number, choice in enumerate(choices):
            yield from _chosen(choice, f"{field}[{number}]")
            yield from _often(choice.every, f"{field}[{number}]")
    for number, nodes in enumerate(workload.new_nodes):
        path = f"newNodes[{number}]"
        if bool(nodes.like) == bool(nodes.allocatable):
            yield InvalidValue(path, "expected one of like and allocatable")
        yield from _few(nodes.count, f"{path}.count")
        yield from _amounts(nodes.allocatable, f"{path}.allocatable")


def _content_of(documents: list[Any]) -> Any:
    if len(documents) > 1:
        raise BadValue(InvalidValue("", f"{len(documents)} documents: expected one"))
    return documents[0] if documents else {}


def _named(name: str, path: str) -> Iterator[InvalidValue]:
    namespace, _, own = name.partition("/")
    if not namespace or not own or "/" in own:
        yield InvalidValue(path, EXPECTED_NAME, name)
    elif not _NAME.fullmatch(namespace) or not _NAME.fullmatch(own):
        yield InvalidValue(path, EXPECTED_LETTERS, name)


def _repeated(field: str, names: Iterable[str]) -> Iterator[InvalidValue]:
    """Two entries for the same thing would undo each other's work."""
    seen = set()
    for number, name in enumerate(names):
        if name in seen:
            yield InvalidValue(
                f"{field}[{number}].name", "there is another entry of this name", name
            )
        seen.add(name)


def _few(count: int, path: str) -> Iterator[InvalidValue]:
    if count > MOST:
        yield InvalidValue(path, f"expected at most {MOST}", count)


def _often(seconds: float | None, path: str) -> Iterator[InvalidValue]:
    if seconds is not None and seconds < LEAST_SECONDS:
        yield InvalidValue(f"{path}.every", f"expected {LEAST_SECONDS}s or more", f"{seconds:g}s")


def _scaled(deployment: ScaledDeployment, path: str) -> Iterator[InvalidValue]:
    curve, points = deployment.curve, deployment.points
    given = [curve is not None, bool(points), deployment.replicas is not None]
    if sum(given) != 1:
        yield InvalidValue(path, "expected one of curve, points and replicas")
    if curve is not None and curve.low > curve.high:
        yield InvalidValue(
            f"{path}.curve.low", f"expected no more than high ({curve.high})", curve.low
        )
    for place, count in _counts(deployment, path):
        yield from _few(count, place)
    times = set()
    for moment in points:
        try:
            at = time_of_day(moment)
        except ValueError as error:
            yield InvalidValue(f"{path}.points", str(error), moment)
            continue
        if at in times:
            yield InvalidValue(f"{path}.points", "there is another count at this time", moment)
        times.add(at)


def _counts(deployment: ScaledDeployment, path: str) -> Iterator[tuple[str, int]]:
    if deployment.curve is not None:
        yield f"{path}.curve.high", deployment.curve.high
    if deployment.replicas is not None:
        yield f"{path}.replicas", deployment.replicas
    for moment, count in deployment.points.items():
        yield step(f"{path}.points", moment), count


def _chosen(choice: NodeChoice, path: str) -> Iterator[InvalidValue]:
    if (choice.node is None) == (choice.count is None):
        yield InvalidValue(path, "expected one of node and count")


def _amounts(amounts: Mapping[str, Quantity], path: str) -> Iterator[InvalidValue]:
    for resource, quantity in amounts.items():
        place = step(path, resource)
        if not is_counted(resource):
            yield InvalidValue(place, "unknown, expected such as cpu, memory, nvidia.com/gpu")
        try:
            is_negative = nanos(quantity) < 0
        except BadQuantity:
            yield InvalidValue(place, EXPECTED, quantity)
            continue
        if is_negative:
            yield InvalidValue(place, "expected 0 or more", quantity)
