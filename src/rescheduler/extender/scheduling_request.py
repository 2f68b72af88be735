"""The requests of filter and prioritize: all that can be found out without the tables.

This costs the most of an answer, and it grows with the request. So it is done in the thread of the
HTTP server, and the loop of migrations only computes with the result.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

import msgspec
import numpy as np
from aiohttp import web

from rescheduler.extender.filter import PodDemand
from rescheduler.extender.live_node_loads import MEASURED
from rescheduler.extender.protocol import ExtenderArgs, ExtenderPod, UndecodedNames, decoded
from rescheduler.labels import UNSCHEDULABLE_TAINT
from rescheduler.migration.moving_pod import PodMeta
from rescheduler.model.objects import PodSpec
from rescheduler.model.snapshot import Floats
from rescheduler.planning.feasibility.filter_plugin import tolerates
from rescheduler.serving.refusals import RequestRefused
from rescheduler.serving.request_limits import MIB

M = TypeVar("M", bound=PodMeta)

# 5,000 whole nodes of 10 KB and a pod; a scheduler that sends names needs a hundredth of it.
MAX_ARGS_BYTES = 64 * MIB
# A pod, and the names of 15,000 nodes, or of 7,000 with the longest names there can be.
MAX_NAMES_BYTES = 2 * MIB


@dataclass(frozen=True, eq=False)
class SchedulingRequest:
    """A pod, and the nodes to filter or to score for it."""

    args: ExtenderArgs
    pod: PodMeta
    names: list[str]
    requests: Mapping[str, int]
    """What the pod takes up on a node, in the scheduler's units."""
    demand: PodDemand


def scheduling_request(body: bytes, most_nodes: int) -> SchedulingRequest:
    """The request in a body; `RequestRefused` if it has far more nodes than there are."""
    # A list of names becomes many times as long in memory, so a long one is not even decoded.
    if len(body) > MAX_NAMES_BYTES:
        names_bytes = len(bytes(decoded(body, UndecodedNames).node_names))
        if names_bytes > MAX_NAMES_BYTES:
            why = f"NodeNames: {names_bytes} bytes: expected at most {MAX_NAMES_BYTES}"
            raise RequestRefused(web.HTTPRequestEntityTooLarge.status_code, why)
    args = decoded(body, ExtenderArgs)
    if args.count > most_nodes:
        why = f"{args.count} nodes: expected at most {most_nodes}, for so many nodes are known"
        raise RequestRefused(web.HTTPRequestEntityTooLarge.status_code, why)
    pod = args.pod
    requests = pod.requests()
    return SchedulingRequest(
        args=args,
        pod=with_controller_only(pod.metadata),
        names=args.names(),
        requests=requests,
        demand=PodDemand(
            requests=column(requests),
            tolerates_cordon=tolerates_cordon(pod.spec),
            has_fixed_node=is_of_daemon_set(pod),
        ),
    )


def with_controller_only(pod: M) -> M:
    """A pod without its other owners, which every waiting migration would look through."""
    controller = pod.controller
    owners = () if controller is None else (controller,)
    return msgspec.structs.replace(pod, owner_references=owners)


def is_of_daemon_set(pod: ExtenderPod) -> bool:
    """Whether a DaemonSet controls a pod, which has chosen its node already."""
    controller = pod.metadata.controller
    return controller is not None and controller.kind == "DaemonSet"


def column(amounts: Mapping[str, int]) -> Floats:
    """The measured resources of some amounts, as a column."""
    return np.array([[amounts.get(resource, 0)] for resource in MEASURED], np.float64)


def tolerates_cordon(spec: PodSpec) -> bool:
    """Whether a pod may be scheduled to a cordoned node."""
    tolerations = spec.tolerations
    return any(
        tolerates(toleration, UNSCHEDULABLE_TAINT, "", "NoSchedule") for toleration in tolerations
    )
