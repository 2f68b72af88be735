"""A request knows its verb and its resource, as rules about rights call them, and is observed."""

import pytest

from rescheduler.errors import Unavailable
from rescheduler.kube.client import Client, ClientSettings
from rescheduler.kube.request import Request
from testcluster.ports import pick_ports
from tests.kube.support import credentials

PODS = "/api/v1/namespaces/shop/pods"


@pytest.mark.parametrize(
    ("method", "path", "query", "verb", "resource"),
    [
        ("GET", "/api/v1/pods", {}, "list", "pods"),
        ("GET", "/api/v1/pods", {"watch": "true"}, "watch", "pods"),
        ("GET", f"{PODS}/cart-0", {}, "get", "pods"),
        ("GET", PODS, {}, "list", "pods"),
        ("POST", f"{PODS}/cart-0/eviction", {}, "create", "pods/eviction"),
        ("PATCH", f"{PODS}/cart-0/status", {}, "patch", "pods/status"),
        ("DELETE", f"{PODS}/cart-0", {}, "delete", "pods"),
        ("GET", "/api/v1/namespaces", {}, "list", "namespaces"),
        ("GET", "/api/v1/namespaces/shop", {}, "get", "namespaces"),
        ("GET", "/api/v1/nodes/pods", {}, "get", "nodes"),
        (
            "PATCH",
            "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/a",
            {},
            "patch",
            "leases",
        ),
        ("GET", "/apis/apps/v1/deployments", {}, "list", "deployments"),
        ("GET", "/version", {}, "get", ""),
        ("GET", "/apis/apps/v1", {}, "get", ""),
        ("GET", "/", {}, "get", ""),
    ],
)
def test_verb_and_resource(
    method: str, path: str, query: dict[str, str], verb: str, resource: str
) -> None:
    request = Request(method, path, query)
    assert (request.verb, request.resource) == (verb, resource)


async def test_a_request_without_an_answer_is_observed_as_often_as_it_is_sent() -> None:
    (port,) = pick_ports(1)
    seen: list[tuple[str, int | None]] = []
    settings = ClientSettings(attempts=2)
    nobody = credentials(f"http://127.0.0.1:{port}", "token")
    async with Client(
        nobody, settings, observer=lambda request, status, _: seen.append((request.verb, status))
    ) as client:
        with pytest.raises(Unavailable):
            await client.get("/version", dict[str, str])
    assert seen == [("get", None), ("get", None)]
