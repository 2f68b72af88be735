"""What the client does with answers, refusals and silence."""

import gc
from asyncio.sslproto import SSLProtocol
from collections.abc import AsyncIterator
from dataclasses import replace
from random import Random

import pytest

from rescheduler.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    CredentialsError,
    EvictionRefused,
    Forbidden,
    NotFound,
    OutcomeUnknown,
    Refused,
    Unavailable,
)
from rescheduler.kube.api_server import ApiServer, Patch, collection_path, object_path
from rescheduler.kube.backoff import Backoff, RateLimit
from rescheduler.kube.client import Client, ClientSettings
from rescheduler.kube.watch_events import whole_lines
from rescheduler.model.kinds import NODE, POD
from rescheduler.model.objects import Pod
from testcluster import TestCluster
from testcluster.applying import apply
from testcluster.builders import budget, pod
from tests.kube.faultproxy import (
    Fault,
    FaultProxy,
    answer_with,
    cut_after,
    cut_at_once,
    is_list,
    is_write,
    lose_answer,
    stall_after,
)
from tests.kube.support import (
    CONFIG_MAP,
    QUICK_CLIENT,
    ConfigMap,
    Outside,
    config_map,
    credentials,
    path_of,
)

IMPATIENT = replace(
    QUICK_CLIENT, attempts=2, timeouts=replace(QUICK_CLIENT.timeouts, read_seconds=0.2)
)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "a?b", "a%2fb", "a#b", "é", "a\n", "a" * 254]
)
def test_no_path_is_built_from_a_text_that_is_no_name(name: str) -> None:
    for kind, key in ((POD, f"shop/{name}"), (POD, f"{name}/cart"), (NODE, name)):
        with pytest.raises(NotFound, match="this can be no object's name"):
            object_path(kind, key)
    with pytest.raises(NotFound, match="this can be no object's name"):
        collection_path(POD, name)


def test_names_become_paths_as_they_are() -> None:
    assert object_path(NODE, "ip-10-0-0-1.ec2.internal") == "/api/v1/nodes/ip-10-0-0-1.ec2.internal"
    longest = "a" * 253
    assert object_path(POD, f"shop/{longest}", "binding").endswith(f"/shop/pods/{longest}/binding")


def test_the_client_implements_the_interface() -> None:
    server: type[ApiServer] = Client
    assert server is Client


def test_paths_are_those_of_the_api() -> None:
    assert object_path(POD, "shop/cart-0", "status") == "/api/v1/namespaces/shop/pods/cart-0/status"
    assert object_path(NODE, "a") == "/api/v1/nodes/a"
    assert collection_path(POD, "shop") == "/api/v1/namespaces/shop/pods"
    assert collection_path(NODE) == "/api/v1/nodes"


async def test_objects_are_written_and_read(client: Client, namespace: str) -> None:
    key = f"{namespace}/object"
    answer = await client.create(path_of(namespace=namespace), config_map(key, a="1"))
    assert answer.decode(ConfigMap).data == {"a": "1"}
    await client.patch(path_of(key), {"data": {"b": "2"}})
    await client.patch(path_of(key), {"data": {"a": None}})
    applied = config_map(key, c="3")
    await client.patch(path_of(key), applied, Patch.APPLY, force=True)
    found = await client.get(path_of(key), ConfigMap)
    assert found.data == {"b": "2", "c": "3"}
    await client.delete(path_of(key), uid=found.metadata.uid)
    with pytest.raises(NotFound, match=f"GET {path_of(key)}: 404 Not Found: .* not found"):
        await client.get(path_of(key), ConfigMap)


async def test_writes_to_another_version_or_object_are_conflicts(
    client: Client, outside: Outside, namespace: str
) -> None:
    key = f"{namespace}/object"
    outside.put(key)
    with pytest.raises(AlreadyExists):
        await client.create(path_of(namespace=namespace), config_map(key))
    stale = {"metadata": {"resourceVersion": "1"}, "data": {"a": "1"}}
    with pytest.raises(Conflict, match="the object has been modified"):
        await client.patch(path_of(key), stale)
    with pytest.raises(Conflict, match="the UID in the precondition"):
        await client.delete(path_of(key), uid="another")
    assert key in outside.contents()


async def test_a_connection_with_tls_keeps_a_small_buffer(client: Client) -> None:
    """asyncio's own is eight times as large, and there is a connection for every watch."""
    await client.get("/version", dict)
    open_ones = [each for each in gc.get_objects() if isinstance(each, SSLProtocol)]
    assert {len(each.get_buffer(-1)) for each in open_ones} == {32 << 10}


async def test_the_server_says_why_it_refuses(client: Client, namespace: str) -> None:
    with pytest.raises(Refused, match=r"POST .*: 422 .*Invalid value: \"NotAllowed\""):
        await client.create(path_of(namespace=namespace), config_map(f"{namespace}/NotAllowed"))


async def test_quota_refuses_the_object_not_the_user(
    client: Client, outside: Outside, namespace: str
) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "none", "namespace": namespace},
        "spec": {"hard": {"configmaps": "0"}},
    }
    path = f"/api/v1/namespaces/{namespace}/resourcequotas"
    outside.client.create(path, quota)
    # The quota holds from when its controller has counted what there is.
    outside.client.patch(f"{path}/none/status", {"status": {"hard": {"configmaps": "0"}}})
    outside.client.patch(f"{path}/none/status", {"status": {"used": {"configmaps": "0"}}})
    with pytest.raises(Refused, match="exceeded quota"):
        await client.create(path_of(namespace=namespace), config_map(f"{namespace}/object"))


async def test_who_may_do_nothing_is_told_what(cluster: TestCluster) -> None:
    powerless = credentials(cluster.server, cluster.powerless_token, cluster.ca_file)
    async with Client(powerless, QUICK_CLIENT) as client:
        with pytest.raises(
            Forbidden, match=r'GET /api/v1/nodes/a: 403 Forbidden: .*User "powerless" cannot get'
        ):
            await client.get("/api/v1/nodes/a", ConfigMap)


async def test_a_wrong_token_is_forbidden(cluster: TestCluster) -> None:
    wrong = credentials(cluster.server, "wrong", cluster.ca_file)
    async with Client(wrong, QUICK_CLIENT) as client:
        with pytest.raises(Forbidden, match="GET /api/v1/pods: 401 Unauthorized"):
            await client.get("/api/v1/pods", Pod)


async def test_pods_are_bound_and_evicted(
    cluster: TestCluster, client: Client, namespace: str, own_node: str
) -> None:
    asleep = pod(f"{namespace}/cart", labels={"app": "cart"}, schedulerName="nobody")
    apply(cluster, asleep)
    path = object_path(POD, f"{namespace}/cart")
    uid = (await client.get(path, Pod)).metadata.uid
    await client.bind(f"{namespace}/cart", own_node, uid=uid)
    assert (await client.get(path, Pod)).spec.node_name == own_node
    await client.evict(f"{namespace}/cart", uid=uid, grace_seconds=0, dry_run=True)
    assert (await client.get(path, Pod)).metadata.deletion_timestamp is None
    await client.evict(f"{namespace}/cart", uid=uid, grace_seconds=0)
    with pytest.raises(NotFound):
        await client.get(path, Pod)


@pytest.mark.parametrize("budgets", [1, 2])
async def test_budgets_refuse_evictions(
    cluster: TestCluster, client: Client, namespace: str, own_node: str, budgets: int
) -> None:
    guards = [
        budget(f"{namespace}/budget-{number}", min_available=1, selector={"app": "cart"})
        for number in range(budgets)
    ]
    cart = pod(f"{namespace}/cart", on=own_node, labels={"app": "cart"})
    apply(cluster, *guards, cart)
    with pytest.raises(EvictionRefused, match=r"(?i)disruption ?budget"):
        await client.evict(f"{namespace}/cart")


LOST = {"cut": lose_answer, "silent": stall_after(0), "half": cut_after(20)}


@pytest.mark.parametrize("fault", LOST.values(), ids=LOST.keys())
async def test_a_write_whose_answer_is_lost_is_not_repeated(
    fault: Fault, cluster: TestCluster, proxy: FaultProxy, outside: Outside, namespace: str
) -> None:
    key = f"{namespace}/object"
    async with Client(credentials(proxy.url, cluster.admin_token), IMPATIENT) as client:
        proxy.next(is_write, fault)
        with pytest.raises(OutcomeUnknown, match=f"POST {path_of(namespace=namespace)}: lost"):
            await client.create(path_of(namespace=namespace), config_map(key))
        uid, version = outside.contents()[key]
        proxy.next(is_write, fault)
        with pytest.raises(OutcomeUnknown, match="PATCH"):
            await client.patch(path_of(key), {"data": {"a": "1"}})
        assert outside.contents()[key] > (uid, version)
        # Repeated, it would have found nothing to delete.
        proxy.next(is_write, fault)
        with pytest.raises(OutcomeUnknown, match="DELETE"):
            await client.delete(path_of(key))
        assert key not in outside.contents()


@pytest.mark.parametrize("status", [500, 502, 503, 504])
async def test_a_write_that_failed_in_the_server_may_have_happened(
    proxied: Client, proxy: FaultProxy, namespace: str, status: int
) -> None:
    proxy.next(is_write, answer_with(status, "try again"))
    with pytest.raises(OutcomeUnknown, match=f"{status} .*: try again"):
        await proxied.create(path_of(namespace=namespace), config_map(f"{namespace}/object"))


@pytest.mark.parametrize("status", [429, 503])
async def test_a_write_that_the_server_put_off_is_repeated(
    proxied: Client, proxy: FaultProxy, outside: Outside, namespace: str, status: int
) -> None:
    for _ in range(2):
        proxy.next(is_write, answer_with(status, retry_after=0))
    await proxied.create(path_of(namespace=namespace), config_map(f"{namespace}/object"))
    assert f"{namespace}/object" in outside.contents()


async def test_a_server_that_wants_us_to_wait_long_is_not_waited_for(
    proxied: Client, proxy: FaultProxy, namespace: str
) -> None:
    proxy.next(is_write, answer_with(429, "too many", retry_after=3600))
    with pytest.raises(Unavailable, match="429 Too Many Requests: too many") as caught:
        await proxied.create(path_of(namespace=namespace), config_map(f"{namespace}/object"))
    assert caught.value.retry_after_seconds == 3600


READ_FAULTS: dict[str, Fault] = {
    "cut": cut_at_once,
    "half": cut_after(50),
    "silent": stall_after(50),
    "500": answer_with(500),
    "503": answer_with(503, retry_after=0),
    "429": answer_with(429, retry_after=0),
}


@pytest.mark.parametrize("fault", READ_FAULTS.values(), ids=READ_FAULTS.keys())
async def test_reads_are_repeated(fault: Fault, cluster: TestCluster, proxy: FaultProxy) -> None:
    async with Client(credentials(proxy.url, cluster.admin_token), IMPATIENT) as client:
        proxy.next(is_list, fault)
        assert [page async for page in client.list_pages(CONFIG_MAP)]
        assert proxy.pending == 0


async def test_reads_are_given_up_in_the_end(proxied: Client, proxy: FaultProxy) -> None:
    for _ in range(QUICK_CLIENT.attempts):
        proxy.next(is_list, answer_with(503, "overloaded"))
    with pytest.raises(Unavailable, match=r"GET /api/v1/configmaps: 503 .*: overloaded"):
        await anext(proxied.list_pages(CONFIG_MAP))
    assert proxy.pending == 0


async def test_something_else_than_a_kubernetes_api_is_noticed(
    proxied: Client, proxy: FaultProxy
) -> None:
    proxy.next(is_list, answer_with(200, "<html>Please log in</html>"))
    with pytest.raises(Unavailable, match="not what a Kubernetes API says"):
        await anext(proxied.list_pages(CONFIG_MAP))


async def test_a_kind_that_is_not_served_is_not_found(client: Client) -> None:
    unknown = replace(CONFIG_MAP, api_version="example.com/v1")
    with pytest.raises(NotFound, match=r"GET /apis/example.com/v1/configmaps: 404 Not Found"):
        await anext(client.list_pages(unknown))


@pytest.mark.parametrize("write", [False, True])
async def test_a_server_that_is_not_there_is_unavailable(write: bool) -> None:
    nobody = credentials("http://127.0.0.1:1", "token")
    async with Client(nobody, QUICK_CLIENT) as client:
        with pytest.raises(
            Unavailable, match=r"could not connect to http://127.0.0.1:1: Connect.*(refused|failed)"
        ):
            await (client.create("/api/v1/pods", {}) if write else client.get("/version", Pod))


async def test_a_server_that_nobody_we_trust_vouches_for_is_refused(cluster: TestCluster) -> None:
    untrusting = credentials(cluster.server, cluster.admin_token)
    async with Client(untrusting, QUICK_CLIENT) as client:
        with pytest.raises(
            CredentialsError,
            match=f"no trusted connection to {cluster.server}: certificate verification failed: ",
        ):
            await client.get("/version", Pod)


async def test_connections_are_used_again(client: Client) -> None:
    for _ in range(5):
        [_ async for _ in client.list_pages(CONFIG_MAP)]
    session = client._transport._session
    assert session is not None
    assert session.http.connector is not None
    assert len(session.http.connector._conns) == 1


async def test_lines_of_any_length_are_put_together() -> None:
    chance = Random(1)
    lines = [
        bytes([65 + chance.randrange(26)]) * chance.choice([1, 10, 100_000]) for _ in range(50)
    ]
    stream = b"\n".join(lines) + b"\n" + b"cut off"

    async def chunks() -> AsyncIterator[bytes]:
        position = 0
        while position < len(stream):
            size = chance.choice([1, 7, 5000, 70_000])
            yield stream[position : position + size]
            position += size

    assert [line async for batch in whole_lines(chunks()) for line in batch] == lines


async def test_a_burst_is_free_and_then_calls_are_spaced(monkeypatch: pytest.MonkeyPatch) -> None:
    now, slept = [0.0], []

    async def sleep(seconds: float) -> None:
        slept.append(round(seconds, 3))
        now[0] += seconds

    monkeypatch.setattr("rescheduler.kube.backoff.asyncio.sleep", sleep)
    limit = RateLimit(per_second=10, burst=3, clock=lambda: now[0])
    for _ in range(5):
        await limit.wait()
    assert slept == [0.1, 0.1]
    now[0] += 100
    for _ in range(4):
        await limit.wait()
    assert slept == [0.1, 0.1, 0.1]


def test_waits_double_up_to_a_limit_and_never_agree() -> None:
    backoff = Backoff(first_seconds=1, limit_seconds=10)
    waits = [backoff.seconds(failures, Random(1)) for failures in range(1, 2000)]
    assert all(0.5 <= waits[0] <= 1 for _ in range(3))
    assert waits[1] == 2 * waits[0]
    assert max(waits) <= 10
    assert backoff.seconds(1, Random(1)) != backoff.seconds(1, Random(2))


def test_errors_are_named_by_what_to_do_next() -> None:
    assert issubclass(AlreadyExists, Conflict)
    assert str(ApiError("GET /api", "404 Not Found")) == "GET /api: 404 Not Found"
    assert ClientSettings().attempts > 1


async def test_a_watch_whose_connection_was_closed_between_two_reads_is_unavailable(
    cluster: TestCluster,
) -> None:
    """As when a command is interrupted: it closes its connections before it ends its watches."""
    known = credentials(cluster.server, cluster.admin_token, cluster.ca_file)
    async with Client(known, QUICK_CLIENT) as client:
        events = client.watch(CONFIG_MAP, "0", timeout_seconds=60)
        await anext(events)
        await anext(events)
    with pytest.raises(Unavailable):
        _ = [found async for found in events]
