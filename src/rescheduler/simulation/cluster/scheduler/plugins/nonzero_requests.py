"""What the scheduler takes a pod to use when it scores nodes: a pod that asks nothing uses some.

A container without a CPU request counts as 100 millicores, without a memory request as 200 MiB.
"""

from collections.abc import Iterable, Mapping

import msgspec
import numpy as np

from rescheduler.model.objects import Container, ResourceList
from rescheduler.model.pod_templates import PodTemplate, PooledTemplate
from rescheduler.model.resources import CPU, MEMORY
from rescheduler.model.snapshot import Amounts

DEFAULT_REQUESTS: Mapping[str, str] = {CPU: "100m", MEMORY: "200Mi"}


def nonzero_asked(pooled: PooledTemplate) -> Amounts:
    """CPU and memory that a new pod counts for."""
    return _cpu_and_memory(_filled(pooled.template, DEFAULT_REQUESTS).asked())


def nonzero_held(pooled: PooledTemplate) -> Amounts:
    """CPU and memory that a pod on a node counts for.

    A pod that says what it asks for as a whole is filled up only where it asks for nothing.
    """
    template = pooled.template
    missing = DEFAULT_REQUESTS
    if template.pod_requests:
        missing = {
            name: amount for name, amount in DEFAULT_REQUESTS.items() if name not in pooled.held
        }
    filled = _filled(template, missing)
    return _cpu_and_memory(filled.asked() if template.resize is None else filled.held())


def _cpu_and_memory(amounts: Mapping[str, int]) -> Amounts:
    return np.array([amounts.get(CPU, 0), amounts.get(MEMORY, 0)], np.int64)


def _filled(template: PodTemplate, missing: Mapping[str, str]) -> PodTemplate:
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
            each,
            resources=msgspec.structs.replace(
                each.resources, requests=_filled_up(each.resources.requests, missing)
            ),
        )
        for each in containers
    )


def _filled_up(requests: ResourceList, missing: Mapping[str, str]) -> ResourceList:
    return {**missing, **requests}
