"""What pods ask for and nodes have, in the units the scheduler counts in.

CPU is counted in millicores, everything else in whole units (bytes, pieces). Amounts are summed
exactly and rounded once, as the scheduler does.
"""

import re
from collections.abc import Callable, Iterable, Mapping

from rescheduler.model.objects import Container, ResourceList
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


def requests_of(container: Container) -> ResourceList:
    """What a container asks for."""
    return container.resources.requests


def pod_amounts(
    containers: Iterable[Container],
    init_containers: Iterable[Container],
    pod_level: ResourceList,
    overhead: ResourceList,
) -> ResourceAmounts:
    """What a whole pod needs to be admitted."""
    running = container_amounts(containers, init_containers)
    return for_whole_pod(running, amounts_of(pod_level), overhead)


def container_amounts(
    containers: Iterable[Container],
    init_containers: Iterable[Container],
    amounts_for: Callable[[Container], ResourceList] = requests_of,
) -> ResourceAmounts:
    """What all containers need together.

    Containers run together; init containers one after another, each beside the sidecars
    (restartable init containers) started before it.
    """
    running: ResourceAmounts = {}
    for container in containers:
        _add(running, amounts_of(amounts_for(container)))
    sidecars: ResourceAmounts = {}
    starting: ResourceAmounts = {}
    for container in init_containers:
        amounts = amounts_of(amounts_for(container))
        if container.restart_policy == "Always":
            _add(running, amounts)
            _add(sidecars, amounts)
            _raise_to(starting, sidecars)
        else:
            _add(amounts, sidecars)
            _raise_to(starting, amounts)
    _raise_to(running, starting)
    return running


def for_whole_pod(
    containers: ResourceAmounts, pod_level: ResourceAmounts, overhead: ResourceList
) -> ResourceAmounts:
    """What is set for a pod as a whole replaces its containers' amounts; overhead comes on top."""
    total = dict(containers)
    for resource, amount in pod_level.items():
        if may_be_set_for_a_pod(resource):
            total[resource] = amount
    _add(total, amounts_of(overhead))
    return total


def largest(candidates: Iterable[ResourceAmounts]) -> ResourceAmounts:
    """The largest amount of each resource."""
    found: ResourceAmounts = {}
    for amounts in candidates:
        _raise_to(found, amounts)
    return found


def may_be_set_for_a_pod(resource: str) -> bool:
    """Whether a pod may ask for this resource as a whole."""
    return resource in (CPU, MEMORY) or resource.startswith("hugepages-")


def _add(total: ResourceAmounts, more: ResourceAmounts) -> None:
    for resource, amount in more.items():
        total[resource] = total.get(resource, 0) + amount


def _raise_to(total: ResourceAmounts, least: ResourceAmounts) -> None:
    for resource, amount in least.items():
        if amount > total.get(resource, amount - 1):
            total[resource] = amount
