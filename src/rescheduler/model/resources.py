"""What pods ask for and nodes have, in the units the scheduler counts in.

CPU is counted in millicores, everything else in whole units (bytes, pieces). Amounts are summed
exactly and rounded once, as the scheduler does.
"""

import re
from collections.abc import Iterable, Mapping

from rescheduler.model.objects import Container, ContainerStatus, ResourceList
from rescheduler.model.quantities import milli_units, nanos, whole_units

CPU = "cpu"
MEMORY = "memory"
EPHEMERAL_STORAGE = "ephemeral-storage"
PODS = "pods"

BASIC = (CPU, MEMORY, EPHEMERAL_STORAGE, PODS)
"""The resources that every node has; others (GPUs, huge pages) follow them in a snapshot."""

ResourceAmounts = dict[str, int]
"""Exact amounts by resource, in billionths."""

_QUALIFIED_NAME = re.compile(
    r"(?=[^/]{1,253}/)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/"
    r"(?=.{1,63}$)[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
)


def is_counted(resource: str) -> bool:
    """Whether the scheduler counts this resource; names that it does not know it ignores."""
    return resource in BASIC or _is_scalar(resource)


def _is_scalar(resource: str) -> bool:
    return (
        resource.startswith(("hugepages-", "attachable-volumes-"))
        or "kubernetes.io/" in resource
        or _is_extended(resource)
    )


def _is_extended(resource: str) -> bool:
    if "/" not in resource or resource.startswith("requests."):
        return False
    return _QUALIFIED_NAME.fullmatch(f"requests.{resource}") is not None


def in_units(amounts: Mapping[str, int]) -> dict[str, int]:
    """Billionths turned into the scheduler's whole numbers, for the resources it counts."""
    return {
        resource: milli_units(amount) if resource == CPU else whole_units(amount)
        for resource, amount in amounts.items()
        if is_counted(resource)
    }


def amounts_of(resources: ResourceList) -> ResourceAmounts:
    """A resource list read into exact amounts."""
    return {resource: nanos(quantity) for resource, quantity in resources.items()}


def pod_amounts(
    containers: Iterable[Container],
    init_containers: Iterable[Container],
    pod_level: ResourceList,
    overhead: ResourceList,
) -> ResourceAmounts:
    """What a whole pod needs to be admitted.

    Containers run together; init containers one after another, each beside the sidecars
    (restartable init containers) started before it. What is set for the pod as a whole
    replaces that sum. Overhead comes on top.
    """
    running: ResourceAmounts = {}
    for container in containers:
        _add(running, amounts_of(container.resources.requests))
    sidecars: ResourceAmounts = {}
    starting: ResourceAmounts = {}
    for container in init_containers:
        requests = amounts_of(container.resources.requests)
        if container.restart_policy == "Always":
            _add(running, requests)
            _add(sidecars, requests)
            _raise_to(starting, sidecars)
        else:
            _add(requests, sidecars)
            _raise_to(starting, requests)
    _raise_to(running, starting)
    for resource, quantity in pod_level.items():
        if _may_be_set_for_a_pod(resource):
            running[resource] = nanos(quantity)
    _add(running, amounts_of(overhead))
    return running


def held_by(
    spec: ResourceList, status: ContainerStatus | None, resize_is_infeasible: bool
) -> ResourceList:
    """What a running container holds on its node while a resize in place is under way.

    The largest of what it asks for, what it was allocated and what it has, so that a node is
    never taken for emptier than it is; a resize that cannot happen is left out.
    """
    if status is None or status.resources is None:
        return spec
    candidates = [status.resources.requests, status.allocated_resources]
    if not resize_is_infeasible:
        candidates.insert(0, spec)
    held: ResourceList = {}
    for candidate in candidates:
        for resource, quantity in candidate.items():
            if resource not in held or nanos(quantity) > nanos(held[resource]):
                held[resource] = quantity
    return held


def _may_be_set_for_a_pod(resource: str) -> bool:
    return resource in (CPU, MEMORY) or resource.startswith("hugepages-")


def _add(total: ResourceAmounts, more: ResourceAmounts) -> None:
    for resource, amount in more.items():
        total[resource] = total.get(resource, 0) + amount


def _raise_to(total: ResourceAmounts, least: ResourceAmounts) -> None:
    for resource, amount in least.items():
        if amount > total.get(resource, amount - 1):
            total[resource] = amount
