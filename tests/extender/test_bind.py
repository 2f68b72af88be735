"""Binding pods for the scheduler, on a real API server."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from rescheduler.extender.handlers import ExtenderHandlers
from rescheduler.kube.client import Client
from rescheduler.model.tables.cluster_tables import ClusterTables
from rescheduler.settings import Policy
from testcluster.builders import node, pod
from testcluster.client import JsonObject
from tests.extender.extender_requests import Planned, RecordedEvents, decoded, put, scored
from tests.migration.support import Sandbox, client_for, node_of


@pytest.fixture
async def client(sandbox: Sandbox) -> AsyncIterator[Client]:
    async with client_for(sandbox.cluster) as client:
        yield client


class Binding:
    """Pods that nobody schedules, and an extender that knows the nodes and them."""

    def __init__(self, sandbox: Sandbox, client: Client) -> None:
        self.sandbox = sandbox
        self.nodes = sandbox.add_nodes("a", "b", cpu="10", memory="10Gi")
        self.tables = ClusterTables()
        for name in self.nodes:
            put(self.tables, node(name, cpu="10", memory="10Gi"))
        self.overloaded: list[str] = []
        self.extender = ExtenderHandlers(
            client,
            self.tables,
            Policy(),
            Planned(),
            RecordedEvents(),
            on_overload=self.overloaded.append,
        )

    def pod(self, name: str, cpu: str) -> JsonObject:
        """A pod that waits to be bound, as the server has it; the extender knows it too."""
        built = pod(f"{self.sandbox.namespace}/{name}", cpu=cpu, schedulerName="nobody")
        created = self.sandbox.outside.create(self.sandbox.path("pods"), built)
        put(self.tables, created)
        return created

    async def bind(self, pod: JsonObject, node: str, **changes: str) -> str:
        """The error in the response to a binding; empty if the pod is bound."""
        metadata = pod["metadata"]
        args = {
            "PodName": metadata["name"],
            "PodNamespace": metadata["namespace"],
            "PodUID": metadata["uid"],
            "Node": node,
            **changes,
        }
        result: dict[str, Any] = decoded(await self.extender.bind(msgspec.json.encode(args)))
        error: str = result["Error"]
        return error

    def node_of(self, name: str) -> str:
        found = self.sandbox.pod(name)
        assert found is not None
        return node_of(found)


async def test_a_pod_is_bound(sandbox: Sandbox, client: Client) -> None:
    binding = Binding(sandbox, client)
    pending = binding.pod("p", "1")
    assert await binding.bind(pending, binding.nodes[1]) == ""
    assert binding.node_of("p") == binding.nodes[1]


async def test_the_error_of_the_server_is_in_the_response(sandbox: Sandbox, client: Client) -> None:
    binding = Binding(sandbox, client)
    a, b = binding.nodes
    pending = binding.pod("p", "1")
    assert "uid" in (await binding.bind(pending, a, PodUID="another")).lower()
    assert "not found" in await binding.bind(pending, a, PodName="unheard-of")
    assert binding.node_of("p") == ""
    await binding.bind(pending, a)
    assert f'already assigned to node "{a}"' in await binding.bind(pending, b)


async def test_a_pod_that_overloads_its_node_is_reported(sandbox: Sandbox, client: Client) -> None:
    binding = Binding(sandbox, client)
    a, b = binding.nodes
    await binding.bind(binding.pod("small", "8"), a)
    assert binding.overloaded == []
    await binding.bind(binding.pod("big", "8100m"), b)
    assert binding.overloaded == [b]


async def test_a_binding_that_failed_overloads_nothing(sandbox: Sandbox, client: Client) -> None:
    binding = Binding(sandbox, client)
    assert await binding.bind(binding.pod("big", "9"), binding.nodes[0], PodUID="another")
    assert binding.overloaded == []


@pytest.mark.parametrize(
    "changes",
    [
        {"PodName": "../../../../api/v1/nodes/n?x="},
        {"PodName": ""},
        {"PodNamespace": "default/pods/other/binding?x="},
        {"PodNamespace": ".."},
    ],
)
async def test_a_name_that_cannot_be_one_names_no_pod(
    sandbox: Sandbox, client: Client, changes: dict[str, str]
) -> None:
    binding = Binding(sandbox, client)
    error = await binding.bind(binding.pod("p", "1"), binding.nodes[0], **changes)
    assert error.endswith("this can be no object's name")
    assert binding.node_of("p") == ""


async def test_a_pod_that_is_bound_counts_before_a_watch_shows_it(
    sandbox: Sandbox, client: Client
) -> None:
    binding = Binding(sandbox, client)
    a, b = binding.nodes
    await binding.bind(binding.pod("p", "5"), a)
    points = scored(binding.extender, pod("shop/next", cpu="1"), [a, b])
    assert points == {a: 0, b: 10}
