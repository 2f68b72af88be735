"""Checks of objects beyond their types. The API server would refuse what is refused here."""

from collections.abc import Iterator
from typing import Any

import msgspec

from rescheduler.files.invalid_value import InvalidValue, step
from rescheduler.model.objects import (
    Node,
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    ResourceList,
)
from rescheduler.model.quantities import EXPECTED, Quantity, nanos

_RESOURCE_LISTS = {
    "allocatable",
    "allocatedResources",
    "capacity",
    "limits",
    "overhead",
    "requests",
}


def problem_with(obj: Any) -> InvalidValue | None:
    """The first thing that is wrong with a decoded object, if anything is."""
    return _name_problem(obj.metadata) or _quantity_problem(obj)


def _name_problem(metadata: ObjectMeta) -> InvalidValue | None:
    if not metadata.name or "/" in metadata.name:
        return InvalidValue("metadata.name", "expected a name without '/'", metadata.name)
    if "/" in metadata.namespace:
        return InvalidValue("metadata.namespace", "expected a name without '/'", metadata.namespace)
    return None


def _quantity_problem(obj: Any) -> InvalidValue | None:
    for resources in _resource_lists(obj):
        for quantity in resources.values():
            if _what_is_wrong(quantity):
                # Rare, so the path is found only now.
                return next(_quantity_problems(msgspec.to_builtins(obj), ""))
    return None


def _resource_lists(obj: Any) -> Iterator[ResourceList]:
    if isinstance(obj, Pod):
        spec, status = obj.spec, obj.status
        statuses = status.container_statuses + status.init_container_statuses
        in_spec = [container.resources for container in spec.containers + spec.init_containers]
        in_status = [container.resources for container in statuses]
        for resources in (*in_spec, spec.resources, *in_status, status.resources):
            if resources is not None:
                yield resources.requests
        yield spec.overhead
        yield status.allocated_resources
        for container in statuses:
            yield container.allocated_resources
    elif isinstance(obj, Node):
        yield obj.status.allocatable
    elif isinstance(obj, PersistentVolume):
        yield obj.spec.capacity
    elif isinstance(obj, PersistentVolumeClaim):
        yield obj.spec.resources.requests


def _quantity_problems(content: Any, path: str) -> Iterator[InvalidValue]:
    if isinstance(content, list | tuple):
        for index, value in enumerate(content):
            yield from _quantity_problems(value, f"{path}[{index}]")
    elif isinstance(content, dict):
        for key, value in content.items():
            found = _entry_problems if key in _RESOURCE_LISTS else _quantity_problems
            yield from found(value, step(path, key))


def _entry_problems(resources: ResourceList, path: str) -> Iterator[InvalidValue]:
    for resource, quantity in resources.items():
        if what := _what_is_wrong(quantity):
            yield InvalidValue(step(path, resource), what, quantity)


def _what_is_wrong(quantity: Quantity) -> str | None:
    try:
        return "expected a quantity that is not negative" if nanos(quantity) < 0 else None
    except ValueError:
        return EXPECTED
