"""The server refuses unknown clients and bad requests, and never fails."""

import os
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rescheduler.extender import http_server
from rescheduler.extender.tls.certificates import new_bundle
from testcluster import TestCluster
from tests.extender.running_extender import RunningExtender, post, serving_on

POD = {"metadata": {"name": "web", "namespace": "shop", "uid": "1"}, "spec": {"containers": []}}
ARGS = {"Pod": POD, "NodeNames": ["a", "b"]}
REVIEW = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {"uid": "7", "kind": {"kind": "Pod"}, "operation": "CREATE", "object": POD},
}
BINDING = {"PodName": "nobody", "PodNamespace": "default", "PodUID": "1", "Node": "nowhere"}
PATHS: dict[str, Any] = {
    "/extender/filter": ARGS,
    "/extender/prioritize": ARGS,
    "/extender/bind": BINDING,
    "/webhook/pods": REVIEW,
}
EXTENDER = [path for path in PATHS if path.startswith("/extender")]


@pytest.fixture
async def extender(migratory: TestCluster, tmp_path: Path) -> AsyncIterator[RunningExtender]:
    async with serving_on(migratory, tmp_path) as serving:
        yield serving


async def test_a_known_client_is_answered(extender: RunningExtender) -> None:
    async with extender.session() as session:
        assert await post(session, "/extender/filter", ARGS) == (
            200,
            {
                "Nodes": None,
                "NodeNames": ["a", "b"],
                "FailedNodes": {},
                "FailedAndUnresolvableNodes": {},
                "Error": "",
            },
        )
        status, response = await post(session, "/extender/prioritize", ARGS)
        assert (status, [entry["Host"] for entry in response]) == (200, ["a", "b"])
        status, response = await post(session, "/extender/bind", BINDING)
        assert status == 200
        assert "not found" in response["Error"]


@pytest.mark.parametrize("path", EXTENDER)
async def test_a_client_without_a_certificate_is_refused(
    extender: RunningExtender, path: str
) -> None:
    async with extender.session(known=False) as session:
        status, response = await post(session, path, PATHS[path])
    assert (status, response) == (403, {"error": "expected a client certificate"})


async def test_a_client_with_a_certificate_of_someone_else_is_refused(
    extender: RunningExtender, tmp_path: Path
) -> None:
    stranger = new_bundle(("127.0.0.1",), datetime.now(UTC)).client
    certificate, key = tmp_path / "stranger.crt", tmp_path / "stranger.key"
    certificate.write_bytes(stranger.certificate)
    key.write_bytes(stranger.key)
    context = extender.client_context(known=False)
    context.load_cert_chain(certificate, key)
    connector = aiohttp.TCPConnector(ssl=context)
    async with aiohttp.ClientSession(extender.url, connector=connector) as session:
        with pytest.raises((aiohttp.ClientError, ssl.SSLError)):
            await post(session, "/extender/filter", ARGS)
        with pytest.raises((aiohttp.ClientError, ssl.SSLError)):
            await post(session, "/webhook/pods", REVIEW)


async def test_health_and_webhook_need_no_certificate(extender: RunningExtender) -> None:
    async with extender.session(known=False) as session:
        for path in ("/healthz", "/readyz"):
            async with session.get(path) as response:
                assert (response.status, await response.text()) == (200, "ok\n")
        status, response = await post(session, "/webhook/pods", REVIEW)
    assert (status, response["response"]) == (200, {"uid": "7", "allowed": True})


async def test_while_the_view_of_the_cluster_is_too_old_schedulers_get_503_and_pods_pass(
    extender: RunningExtender, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rescheduler.kube.live_store.MAX_STORE_AGE_SECONDS", -1.0)
    async with extender.session() as session:
        for path in ("/extender/filter", "/extender/prioritize"):
            status, response = await post(session, path, ARGS)
            assert status == 503
            assert "the view of the cluster is" in response["error"]
        async with session.get("/readyz") as response:
            assert response.status == 503
        async with session.get("/healthz") as response:
            assert response.status == 200
        status, response = await post(session, "/webhook/pods", REVIEW)
        assert (status, response["response"]) == (200, {"uid": "7", "allowed": True})
        status, response = await post(session, "/extender/bind", BINDING)
        assert (status, "not found" in response["Error"]) == (200, True)


async def test_healthz_fails_if_only_a_restart_would_help(
    extender: RunningExtender, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extender.program.extender, "why_restart", lambda: "a watch has ended")
    async with extender.session() as session:
        async with session.get("/healthz") as response:
            assert (response.status, await response.text()) == (503, "a watch has ended\n")
        async with session.get("/readyz") as response:
            assert response.status == 200


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("body", [b"[", b'{"a":'], ids=["lists", "objects"])
async def test_what_is_nested_too_deeply_is_refused_and_logged_once(
    extender: RunningExtender, caplog: pytest.LogCaptureFixture, path: str, body: bytes
) -> None:
    async with extender.session() as session:
        for _ in range(3):
            async with session.post(path, data=body * 2000) as response:
                assert response.status == 400
                assert "expected " in (await response.json())["error"]
    assert not [record for record in caplog.records if record.exc_info]
    messages = [record.getMessage() for record in caplog.records]
    assert messages.count("Refused a request that cannot be decoded") == 1


async def test_plain_http_is_refused(extender: RunningExtender) -> None:
    async with aiohttp.ClientSession(f"http://127.0.0.1:{extender.port}") as session:
        with pytest.raises(aiohttp.ClientError):
            await post(session, "/webhook/pods", REVIEW)


@pytest.mark.parametrize("is_announced", [True, False])
async def test_bodies_that_are_too_long_are_refused(
    extender: RunningExtender, monkeypatch: pytest.MonkeyPatch, is_announced: bool
) -> None:
    async def parts() -> AsyncIterator[bytes]:
        for _ in range(http_server.MAX_REVIEW_BYTES // (1 << 16) + 1):
            yield bytes(1 << 16)

    body: Any = bytes(http_server.MAX_REVIEW_BYTES + 1) if is_announced else parts()
    async with extender.session() as session, session.post("/webhook/pods", data=body) as response:
        assert response.status == 413
        assert "at most" in (await response.json())["error"]
        # Else the client might send its next request where nobody reads any more.
        assert response.headers["Connection"] == "close"


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"42",
        b'"text"',
        b"\xff\xfe",
        b"{}",
        b'{"Pod": 7}',
        b"[" * 100_000,
    ],
    ids=lambda body: repr(body[:12]),
)
async def test_what_cannot_be_decoded_is_refused_with_the_reason(
    extender: RunningExtender, path: str, body: bytes
) -> None:
    async with extender.session() as session, session.post(path, data=body) as response:
        assert response.status == 400
        assert "expected" in (await response.json())["error"].lower()


async def test_other_paths_and_methods_are_refused(extender: RunningExtender) -> None:
    async with extender.session() as session:
        async with session.get("/extender/filter") as response:
            assert response.status == 405
        async with session.post("/elsewhere") as response:
            assert response.status == 404


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)


@st.composite
def mutated(draw: st.DrawFn, original: Any) -> Any:
    """The original with something in it replaced, removed or added."""
    if draw(st.integers(0, 5)) == 0 or not isinstance(original, dict | list) or not original:
        return draw(json_values)
    if isinstance(original, list):
        return [*original, draw(json_values)]
    key = draw(st.sampled_from(sorted(original)))
    changed = {**original, key: draw(mutated(original[key]))}
    if draw(st.booleans()):
        del changed[draw(st.sampled_from(sorted(changed)))]
    return changed


FULL_POD: dict[str, Any] = {
    "metadata": {
        "name": "web-0",
        "namespace": "shop",
        "uid": "u",
        "labels": {"app": "web"},
        "annotations": {"note": "x"},
        "ownerReferences": [{"kind": "ReplicaSet", "name": "web", "uid": "r", "controller": True}],
    },
    "spec": {
        "containers": [{"name": "a", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}],
        "tolerations": [{"key": "k", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "overhead": {"cpu": "1m"},
    },
}
ORIGINALS: dict[str, Any] = {
    "/extender/filter": {"Pod": FULL_POD, "NodeNames": ["a", "a"], "Nodes": {"items": []}},
    "/extender/prioritize": {
        "Pod": FULL_POD,
        "NodeNames": None,
        "Nodes": {"items": [{"metadata": {"name": "a", "labels": {}}}]},
    },
    "/extender/bind": BINDING,
    "/webhook/pods": {**REVIEW, "request": {**REVIEW["request"], "object": FULL_POD}},  # type: ignore[dict-item]
}


@settings(
    max_examples=400 if os.environ.get("EXHAUSTIVE") == "1" else 200,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
async def test_no_request_however_strange_breaks_the_server(
    extender: RunningExtender, data: st.DataObject
) -> None:
    path = data.draw(st.sampled_from(sorted(ORIGINALS)))
    body = data.draw(
        st.binary(max_size=200)
        | mutated(ORIGINALS[path]).map(lambda value: msgspec.json.encode(value))
    )
    async with extender.session() as session, session.post(path, data=body) as response:
        assert response.status < 500, (path, body, await response.text())
