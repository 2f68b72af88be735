"""Requests with defaults, as the scheduler uses them in scores.

A container without a CPU request counts as 100 millicores, without a memory request as 200 MiB.
"""

from collections.abc import Iterable, Mapping

import msgspec
import numpy as np

from rescheduler.model.objects import Container, ResourceList
from rescheduler.model.pod_templates import PodTemplate, PooledTemplate
from rescheduler.model.resources import CPU, MEMORY
from rescheduler.model.snapshot import Int64s

DEFAULT_REQUESTS: Mapping[str, str] = {CPU: "100m", MEMORY: "200Mi"}


def nonzero_asked(pooled: PooledTemplate) -> Int64s:
    """CPU and memory that a new pod counts for."""
    return _cpu_and_memory(_with_default_requests(pooled.template, DEFAULT_REQUESTS).asked())


def nonzero_held(pooled: PooledTemplate) -> Int64s:
    """CPU and memory that a pod on a node counts for.

    A pod with pod-level requests gets defaults only for resources that it does not request.
    """
    template = pooled.template
    missing = DEFAULT_REQUESTS
    if template.pod_requests:
        missing = {
            name: amount for name, amount in DEFAULT_REQUESTS.items() if name not in pooled.held
        }
    completed = _with_default_requests(template, missing)
    return _cpu_and_memory(completed.asked() if template.resize is None else completed.held())


def _cpu_and_memory(amounts: Mapping[str, int]) -> Int64s:
    return np.array([amounts.get(CPU, 0), amounts.get(MEMORY, 0)], np.int64)


def _with_default_requests(template: PodTemplate, missing: Mapping[str, str]) -> PodTemplate:
    return msgspec.structs.replace(
        template,
        containers=_with_requests(template.containers, missing),
        init_containers=_with_requests(template.init_containers, missing),
    )


def _with_requests(
    containers: Iterable[Container], missing: Mapping[str, str]
) -> tuple[Container, ...]:
    return tuple(
        msgspec.structs.replace(
            container,
            resources=msgspec.structs.replace(
                container.resources,
                requests=_with_defaults(container.resources.requests, missing),
            ),
        )
        for container in containers
    )


def _with_defaults(requests: ResourceList, missing: Mapping[str, str]) -> ResourceList:
    return {**missing, **requests}
