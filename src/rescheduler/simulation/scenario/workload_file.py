"""Reads and checks workload files.

A mistake in the file is raised as a `SettingsError` that names the file, the field, the value, and
what was expected. Whether the cluster has the objects that the file names is checked by `timeline`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rescheduler.errors import SettingsError
from rescheduler.files.bad_document import BadDocument
from rescheduler.files.conversion import converted
from rescheduler.files.documents import yaml_documents
from rescheduler.files.invalid_value import BadValue, InvalidValue, step
from rescheduler.model.quantities import EXPECTED, BadQuantity, Quantity, nanos
from rescheduler.model.resources import is_counted
from rescheduler.simulation.scenario.times import time_of_day, workload_value
from rescheduler.simulation.scenario.workload_fields import (
    NodeChoice,
    ScaledDeployment,
    WorkloadFile,
)

EXPECTED_NAME = "expected a name such as 'shop/web'"
EXPECTED_LETTERS = "expected small letters, digits and '-', as in Kubernetes names"
# More pods or nodes than these, or shorter intervals, are typing errors.
MAX_COUNT = 100_000
MIN_INTERVAL_SECONDS = 1

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", re.ASCII)


def read_workload(name: str, data: bytes) -> WorkloadFile:
    """The content of a workload file. In an empty file nothing happens."""
    try:
        content = _content_of(yaml_documents(data, with_exponents=True))
        return checked(converted(content, WorkloadFile, "", workload_value))
    except (BadDocument, BadValue) as error:
        raise SettingsError(f"{name}: {error}") from error


def checked(workload: WorkloadFile) -> WorkloadFile:
    """The same workload file; raises `BadValue` if its fields contradict each other."""
    for problem in problems_of(workload):
        raise BadValue(problem)
    return workload


def problems_of(workload: WorkloadFile) -> Iterator[InvalidValue]:
    """Problems that the types of fields do not find."""
    yield from _duplicate_names(
        "deployments", (deployment.name for deployment in workload.deployments)
    )
    yield from _duplicate_names("jobs", (job.name for job in workload.jobs))
    for number, deployment in enumerate(workload.deployments):
        path = f"deployments[{number}]"
        yield from _name_problems(deployment.name, f"{path}.name")
        yield from _scaling_problems(deployment, path)
        yield from _interval_problems(deployment.every, path)
        yield from _quantity_problems(deployment.requests, f"{path}.requests")
    for number, job in enumerate(workload.jobs):
        yield from _name_problems(job.name, f"jobs[{number}].name")
        yield from _count_problems(job.pods, f"jobs[{number}].pods")
        yield from _interval_problems(job.every, f"jobs[{number}]")
        yield from _quantity_problems(job.requests, f"jobs[{number}].requests")
    for number, rollout in enumerate(workload.rollouts):
        yield from _name_problems(rollout.deployment, f"rollouts[{number}].deployment")
        yield from _interval_problems(rollout.every, f"rollouts[{number}]")
        yield from _quantity_problems(rollout.requests, f"rollouts[{number}].requests")
    for field, choices in (("failures", workload.failures), ("maintenance", workload.maintenance)):
        for number, choice in enumerate(choices):
            yield from _choice_problems(choice, f"{field}[{number}]")
            yield from _interval_problems(choice.every, f"{field}[{number}]")
    for number, nodes in enumerate(workload.new_nodes):
        path = f"newNodes[{number}]"
        if bool(nodes.like) == bool(nodes.allocatable):
            yield InvalidValue(path, "expected one of like and allocatable")
        yield from _count_problems(nodes.count, f"{path}.count")
        yield from _quantity_problems(nodes.allocatable, f"{path}.allocatable")


def _content_of(documents: list[Any]) -> Any:
    if len(documents) > 1:
        raise BadValue(InvalidValue("", f"{len(documents)} documents: expected one"))
    return documents[0] if documents else {}


def _name_problems(name: str, path: str) -> Iterator[InvalidValue]:
    namespace, _, own = name.partition("/")
    if not namespace or not own or "/" in own:
        yield InvalidValue(path, EXPECTED_NAME, name)
    elif not _NAME.fullmatch(namespace) or not _NAME.fullmatch(own):
        yield InvalidValue(path, EXPECTED_LETTERS, name)


def _duplicate_names(field: str, names: Iterable[str]) -> Iterator[InvalidValue]:
    """Two entries for the same object would overwrite each other."""
    seen = set()
    for number, name in enumerate(names):
        if name in seen:
            yield InvalidValue(
                f"{field}[{number}].name", "there is another entry of this name", name
            )
        seen.add(name)


def _count_problems(count: int, path: str) -> Iterator[InvalidValue]:
    if count > MAX_COUNT:
        yield InvalidValue(path, f"expected at most {MAX_COUNT}", count)


def _interval_problems(seconds: float | None, path: str) -> Iterator[InvalidValue]:
    if seconds is not None and seconds < MIN_INTERVAL_SECONDS:
        yield InvalidValue(
            f"{path}.every", f"expected {MIN_INTERVAL_SECONDS}s or more", f"{seconds:g}s"
        )


def _scaling_problems(deployment: ScaledDeployment, path: str) -> Iterator[InvalidValue]:
    curve, points = deployment.curve, deployment.points
    given = [curve is not None, bool(points), deployment.replicas is not None]
    if sum(given) != 1:
        yield InvalidValue(path, "expected one of curve, points and replicas")
    if curve is not None and curve.low > curve.high:
        yield InvalidValue(
            f"{path}.curve.low", f"expected no more than high ({curve.high})", curve.low
        )
    for count_path, count in _counts(deployment, path):
        yield from _count_problems(count, count_path)
    times = set()
    for time in points:
        try:
            at = time_of_day(time)
        except ValueError as error:
            yield InvalidValue(f"{path}.points", str(error), time)
            continue
        if at in times:
            yield InvalidValue(f"{path}.points", "there is another count at this time", time)
        times.add(at)


def _counts(deployment: ScaledDeployment, path: str) -> Iterator[tuple[str, int]]:
    if deployment.curve is not None:
        yield f"{path}.curve.high", deployment.curve.high
    if deployment.replicas is not None:
        yield f"{path}.replicas", deployment.replicas
    for time, count in deployment.points.items():
        yield step(f"{path}.points", time), count


def _choice_problems(choice: NodeChoice, path: str) -> Iterator[InvalidValue]:
    if (choice.node is None) == (choice.count is None):
        yield InvalidValue(path, "expected one of node and count")


def _quantity_problems(amounts: Mapping[str, Quantity], path: str) -> Iterator[InvalidValue]:
    for resource, quantity in amounts.items():
        quantity_path = step(path, resource)
        if not is_counted(resource):
            yield InvalidValue(
                quantity_path, "unknown, expected such as cpu, memory, nvidia.com/gpu"
            )
        try:
            is_negative = nanos(quantity) < 0
        except BadQuantity:
            yield InvalidValue(quantity_path, EXPECTED, quantity)
            continue
        if is_negative:
            yield InvalidValue(quantity_path, "expected 0 or more", quantity)
