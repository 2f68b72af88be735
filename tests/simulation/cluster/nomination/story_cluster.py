"""What a story about gates and nominations does to a cluster, and what it sees of it.

A story talks to an `ApiServer`, so it runs on the test cluster and on a simulated one.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from rescheduler.errors import AlreadyExists, ApiError
from rescheduler.kube.api_server import ApiServer, collection_path, object_path
from rescheduler.model.kinds import POD, PRIORITY_CLASS
from rescheduler.simulation.cluster.json_objects import Json, condition_of
from testcluster.builders import HOSTNAME_LABEL, pod
from tests.simulation.real_and_simulated_clusters import ClusterForCase

SECONDS = 60
PRIORITIES = {"story-low": -5, "story-high": 1000}
"""Classes whose pods preempt nobody."""
OWN_REASONS = ("Insufficient", "free ports", "affinity rules", "topology spread")
"""The scheduler counts the nodes of other stories too; they refuse pods for other reasons."""


@dataclass(frozen=True)
class PodView:
    """What a story sees of a pod. Nodes have their short names."""

    node: str
    nominated: str
    gates: tuple[str, ...]
    scheduled: str
    """The status of its condition PodScheduled; empty if it has none."""
    reason: str
    message: str
    """Of a refusal, only the reasons of the story's own nodes."""


@dataclass(frozen=True)
class Refusal:
    """The server's answer to a call that it refuses."""

    status: int | None
    answer: str


class StoryCluster:
    """A namespace, and nodes that only its pods use."""

    def __init__(self, server: ApiServer, cluster: ClusterForCase) -> None:
        self.server = server
        self._cluster = cluster
        self._namespace = cluster.namespace

    def path(self, name: str, subresource: str = "") -> str:
        """The path of a pod."""
        return object_path(POD, f"{self._namespace}/{name}", subresource)

    # ------------------------------------------------------------ what users and controllers do

    async def nodes(self, **cpu: str) -> None:
        """Add nodes by name, each with so much CPU."""
        for name, amount in cpu.items():
            await self._cluster.add_node(name, cpu=amount)

    async def cordon(self, node: str) -> None:
        await self.server.patch(
            f"/api/v1/nodes/{self._cluster.node(node)}", {"spec": {"unschedulable": True}}
        )

    async def priority_classes(self) -> None:
        for name, value in PRIORITIES.items():
            body = {
                "kind": "PriorityClass",
                "apiVersion": PRIORITY_CLASS.api_version,
                "metadata": {"name": name},
                "value": value,
                "preemptionPolicy": "Never",
            }
            with suppress(AlreadyExists):
                await self.server.create(collection_path(PRIORITY_CLASS), body)

    async def pod(self, name: str, cpu: str = "1", gates: tuple[str, ...] = (), **spec: Any) -> Any:
        """Create a pod, with gates if there are any."""
        labels = spec.pop("labels", {"app": name})
        built = pod(
            f"{self._namespace}/{name}", cpu=cpu, labels=labels, **{**self.here(gates), **spec}
        )
        for field in ("uid", "creationTimestamp"):
            del built["metadata"][field]
        del built["status"]
        return await self.server.create(collection_path(POD, self._namespace), built)

    def node(self, name: str) -> str:
        """The full name of a node."""
        return self._cluster.node(name)

    def only(self, node: str) -> dict[str, str]:
        """A node selector for one node."""
        return {HOSTNAME_LABEL: self.node(node)}

    def here(self, gates: tuple[str, ...]) -> Json:
        """Fields of a spec that keep a pod on the story's nodes, and behind gates."""
        fields: Json = {"nodeSelector": {"rescheduler-test": self._namespace}}
        if gates:
            fields["schedulingGates"] = [{"name": gate} for gate in gates]
        return fields

    async def replicaset(self, name: str, replicas: int, gates: tuple[str, ...]) -> None:
        labels = {"app": name}
        container = {
            "name": "app",
            "image": "registry.example/app:1.0",
            "resources": {"requests": {"cpu": "1"}},
        }
        template = {
            "metadata": {"labels": labels},
            "spec": {"containers": [container], **self.here(gates)},
        }
        body = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {"name": name, "namespace": self._namespace},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": labels},
                "template": template,
            },
        }
        await self._cluster.put(body)

    async def nominate(self, name: str, node: str, **metadata: Any) -> None:
        """Nominate a node for a pod; an empty one takes the nomination back."""
        nominated = self._cluster.node(node) if node else None
        body: Json = {"status": {"nominatedNodeName": nominated}}
        if metadata:
            body["metadata"] = metadata
        await self.server.patch(self.path(name, "status"), body)

    async def set_gates(self, name: str, *gates: str) -> None:
        """Replace the gates of a pod; without any, it may be scheduled."""
        value = [{"name": gate} for gate in gates] or None
        await self.server.patch(self.path(name), {"spec": {"schedulingGates": value}})

    async def bind(self, name: str, node: str) -> None:
        await self.server.bind(f"{self._namespace}/{name}", self._cluster.node(node))

    async def delete(self, name: str) -> None:
        await self.server.delete(self.path(name), grace_seconds=0)

    # ------------------------------------------------------------ what is seen

    async def read(self, name: str) -> Json:
        found: Json = await self.server.get(self.path(name), dict)
        return found

    async def see(self, name: str) -> PodView:
        return self._view(await self.read(name))

    def _view(self, found: Json) -> PodView:
        scheduled = condition_of(found, "PodScheduled") or {}
        reason, message = scheduled.get("reason", ""), scheduled.get("message", "")
        return PodView(
            node=self._short(found["spec"].get("nodeName", "")),
            nominated=self._short(found["status"].get("nominatedNodeName", "")),
            gates=tuple(gate["name"] for gate in found["spec"].get("schedulingGates", ())),
            scheduled=scheduled.get("status", ""),
            reason=reason,
            message=own_reasons(message) if reason == "Unschedulable" else message,
        )

    def _short(self, node: str) -> str:
        return node.removeprefix(f"{self._namespace}-")

    async def bound(self, name: str) -> PodView:
        """A pod once it has a node."""
        return await self._until(name, lambda view: bool(view.node))

    async def refused(self, name: str) -> PodView:
        """A pod once the scheduler has found no node for it."""
        return await self._until(name, lambda view: view.reason == "Unschedulable")

    async def without_nomination(self, name: str) -> PodView:
        """A pod once it has no nomination."""
        return await self._until(name, lambda view: not view.nominated)

    async def _until(self, name: str, is_so: Callable[[PodView], bool]) -> PodView:
        loop = asyncio.get_running_loop()
        ends = loop.time() + SECONDS
        while not is_so(view := await self.see(name)):
            assert loop.time() < ends, f"pod {self._namespace}/{name} stayed {view}"
            await asyncio.sleep(0.05)
        return view

    async def pods_of(self, app: str, count: int) -> list[str]:
        """The names of the pods of an application, once there are so many."""
        loop = asyncio.get_running_loop()
        ends = loop.time() + SECONDS
        while len(found := self._cluster.pods(app)) != count:
            assert loop.time() < ends, f"{app} in {self._namespace} never had {count} pods"
            await asyncio.sleep(0.05)
        return sorted(pod["metadata"]["name"] for pod in found)

    async def answer_to(self, call: Awaitable[Any]) -> Refusal:
        """The answer to a call that is to be refused; an empty one if it is not."""
        try:
            await call
        except ApiError as error:
            return Refusal(error.status, error.answer.replace(f"{self._namespace}-", ""))
        return Refusal(None, "")


def own_reasons(message: str) -> str:
    """The reasons in the scheduler's message that are not about nodes of other stories."""
    counted = re.match(r"0/\d+ nodes are available: (.*?)\.(?: |$)", message)
    if counted is None:
        return message
    return ", ".join(
        reason
        for reason in counted[1].split(", ")
        if any(own in reason for own in OWN_REASONS) and "node affinity" not in reason
    )
