# mypy: disable-error-code="misc"
# (mypy does not see that structs inherit being frozen)
"""Wait for the pods of a node that are being deleted, and show how many there still are."""

import asyncio
from datetime import datetime, timedelta

from rescheduler.cli.views.stopping_view import StoppingView
from rescheduler.errors import NotFound
from rescheduler.kube.api_server import ApiServer, object_path
from rescheduler.kube.clock import Clock
from rescheduler.model.kinds import NODE, POD
from rescheduler.model.objects import Node, ObjectMeta, Page, Part
from rescheduler.model.objects.parts import Int64
from rescheduler.model.rules.immovable_pods import is_daemon_pod, is_static_pod
from rescheduler.model.rules.node_availability import is_ready

POLL_SECONDS = 1.0
# A kubelet kills the containers when the grace period is over. Then it unmounts the volumes, and
# only then it removes the pod from the API server.
LATE = timedelta(seconds=15)


class StoppingMeta(ObjectMeta):
    """A pod's metadata, with what can keep it after its containers have ended."""

    finalizers: tuple[str, ...] = ()
    deletion_grace_period_seconds: Int64 | None = None


class StoppingStatus(Part):
    """Whether a pod's containers still run."""

    phase: str = ""


class StoppingPod(Part):
    """A pod on the node that is drained."""

    metadata: StoppingMeta
    status: StoppingStatus = StoppingStatus()

    @property
    def is_stopping(self) -> bool:
        """Whether it is being deleted, and the node is not empty before it has ended."""
        owner = self.metadata.controller
        kind = "" if owner is None else owner.kind
        return (
            self.metadata.deletion_timestamp is not None
            and self.status.phase not in ("Succeeded", "Failed")
            and not is_daemon_pod(kind)
            and not is_static_pod(kind, self.metadata.annotations.mirror)
        )

    @property
    def must_end_by(self) -> datetime:
        """The end of its grace period, by the clock of the API server."""
        assert self.metadata.deletion_timestamp is not None, "asked only for pods that stop"
        return self.metadata.deletion_timestamp


async def wait_until_stopped(
    server: ApiServer, node: str, view: StoppingView, clock: Clock
) -> dict[str, str]:
    """Wait until the pods that are being deleted on a node are gone, or their time is up.

    Returns those that are still there, with the reason as the rest of a sentence about the pod.
    """
    with view:
        while True:
            pods = await stopping_pods(server, node)
            in_time = [pod for pod in pods if clock.now() < pod.must_end_by + LATE]
            if not in_time:
                break
            keys = [pod.metadata.key for pod in in_time]
            view.show(keys, max(pod.must_end_by for pod in in_time), clock.now())
            await asyncio.sleep(POLL_SECONDS)
    if not pods:
        return {}
    node_problem = await problem_of(server, node)
    return {pod.metadata.key: why_still_there(pod, node_problem) for pod in pods}


async def stopping_pods(server: ApiServer, node: str) -> list[StoppingPod]:
    """The pods that are being deleted on a node and have not ended."""
    query = {"fieldSelector": f"spec.nodeName={node}"}
    page = await server.get(POD.path, Page[StoppingPod], query)
    return [pod for pod in page.items if pod.is_stopping]


async def problem_of(server: ApiServer, node: str) -> str:
    """Why no kubelet ends the pods of a node; nothing if one should."""
    try:
        found = await server.get(object_path(NODE, node), Node)
    except NotFound:
        return f"node {node} no longer exists"
    return "" if is_ready(found) else f"node {node} is not Ready, so its kubelet does not end it"


def why_still_there(pod: StoppingPod, node_problem: str) -> str:
    """The rest of a sentence about a pod that has not ended within its grace period."""
    finalizers = f"waits for its finalizers: {', '.join(pod.metadata.finalizers)}"
    # A grace period of 0 is what a kubelet writes when the containers have ended.
    has_ended = pod.metadata.deletion_grace_period_seconds == 0
    if pod.metadata.finalizers and (has_ended or not node_problem):
        return finalizers
    reason = node_problem or "its kubelet has not reported that it has ended"
    return f"is still stopping after its grace period: {reason}"
