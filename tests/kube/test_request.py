"""A request knows its verb and its resource, as rules about rights call them."""

import pytest

from rescheduler.kube.request import Request

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
