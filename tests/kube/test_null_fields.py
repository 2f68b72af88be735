"""A field that is null is a field left out: in every object, and on every way into the program."""

import asyncio
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import msgspec
import pytest
import yaml

from rescheduler.extender.scheduling_request import scheduling_request
from rescheduler.files.cluster_file import read_cluster
from rescheduler.kube.client import Client
from rescheduler.kube.live_store import LiveStore
from rescheduler.kube.watch_events import Added, decoder_of, event_decoder_of
from rescheduler.model.json_decoder import without_nulls
from rescheduler.model.kinds import CSI_NODE, KINDS
from rescheduler.model.snapshot import Snapshot
from rescheduler.model.tables.cluster_tables import ClusterTables
from testcluster import TestCluster
from testcluster.applying import apply
from testcluster.client import JsonObject
from testcluster.waiting import wait_until
from tests.conftest import new_sandbox
from tests.kube.null_field_checks import (
    ALL_KINDS,
    SEEDS,
    check_each_field,
    check_random_fields,
    comparable,
    objects_of,
    views_of,
)
from tests.kube.object_server import ObjectServer
from tests.kube.optional_fields import with_random_fields
from tests.kube.rich_objects import rich_objects
from tests.kube.support import QUICK_WATCH, eventually
from tests.migration.support import Sandbox

# ------------------------------------------------------------ where the objects are from

META: JsonObject = {"name": "a", "labels": None, "annotations": None, "ownerReferences": None}

WRITTEN_BY_GO: list[JsonObject] = [
    {
        "kind": "Node",
        "metadata": {**META, "managedFields": None},
        "spec": {"podCIDRs": None, "taints": None},
        "status": {
            "conditions": None,
            "allocatable": {"cpu": "4", "pods": "110"},
            "volumesInUse": None,
            "volumesAttached": None,
            "images": None,
        },
    },
    {"kind": "Node", "metadata": META, "spec": None, "status": {"allocatable": None}},
    {"kind": "CSINode", "metadata": META, "spec": {"drivers": None}},
    {
        "kind": "CSINode",
        "metadata": META,
        "spec": {"drivers": [{"name": "d", "topologyKeys": None, "allocatable": None}]},
    },
    {
        "kind": "Pod",
        "metadata": {**META, "namespace": "n", "creationTimestamp": None},
        "spec": {
            "nodeName": "a",
            "containers": [{"name": "c", "ports": None, "resources": {"requests": None}}],
            "initContainers": None,
            "tolerations": None,
            "volumes": [{"name": "v", "rbd": {"monitors": None, "image": "i"}}],
            "affinity": {"podAffinity": None, "nodeAffinity": {"required": None}},
            "priority": None,
            "hostNetwork": None,
        },
        "status": {"phase": "Pending", "conditions": None, "containerStatuses": None},
    },
    {
        "kind": "PodDisruptionBudget",
        "metadata": {**META, "namespace": "n"},
        "spec": {"selector": {"matchLabels": None, "matchExpressions": None}},
        "status": {"disruptedPods": None, "disruptionsAllowed": None},
    },
    {
        "kind": "ReplicaSet",
        "metadata": {**META, "namespace": "n"},
        "spec": {
            "replicas": None,
            "selector": None,
            "template": {"metadata": {"creationTimestamp": None}, "spec": {"containers": None}},
        },
        "status": None,
    },
    {"kind": "StorageClass", "metadata": META, "allowedTopologies": None},
]


@pytest.fixture(scope="module")
def objects(migratory: TestCluster) -> Iterator[list[JsonObject]]:
    """An object of every kind, after the controllers have seen it."""
    with new_sandbox(migratory) as sandbox:
        yield from objects_in(sandbox)


def objects_in(sandbox: Sandbox) -> Iterator[list[JsonObject]]:
    """Objects of every kind, while they are there."""
    client, namespace = sandbox.outside, sandbox.namespace
    node = sandbox.add_nodes("rich")[0]
    apply(sandbox.cluster, *rich_objects(namespace, node))
    pods = wait_until(lambda: running_pods(sandbox), what="the pods of all workloads run")
    sandbox.migrate(pods[0], node, mode="Evict", reason="test", paused=True)

    def is_ours(item: JsonObject) -> bool:
        metadata = item["metadata"]
        names: list[str] = [metadata.get("namespace", ""), metadata["name"]]
        return names[0] == namespace or names[1].startswith(namespace)

    found = objects_of(client, is_ours)
    assert {item["kind"] for item in found} == {*ALL_KINDS}, "an object of every kind"
    yield found
    for item in found:
        if not ALL_KINDS[item["kind"]].namespaced and item["kind"] not in ("Node", "Namespace"):
            client.delete(f"{ALL_KINDS[item['kind']].path}/{item['metadata']['name']}")


def running_pods(sandbox: Sandbox) -> list[JsonObject]:
    """The pods of the workloads, when every kind of workload that keeps its pods has one."""
    pods = [pod for pod in sandbox.pods() if pod["status"].get("phase") == "Running"]
    return pods if len({pod["metadata"]["ownerReferences"][0]["kind"] for pod in pods}) >= 4 else []


# ------------------------------------------------------------ one object at a time


def test_a_null_in_an_object_of_a_real_cluster_is_a_field_left_out(
    objects: list[JsonObject],
) -> None:
    for item in objects:
        check_each_field(item)
        check_random_fields(item)


@pytest.mark.parametrize("item", WRITTEN_BY_GO, ids=lambda item: item["kind"])
def test_what_go_writes_for_what_is_not_set_is_read(item: JsonObject) -> None:
    for view in views_of(item):
        found = decoder_of(view).decode(msgspec.json.encode(item))
        expected = decoder_of(view).decode(msgspec.json.encode(without_nulls(item)))
        assert comparable(found) == comparable(expected)
        event = msgspec.json.encode({"type": "ADDED", "object": item})
        assert event_decoder_of(view).decode(event) == Added(found)
    check_each_field(item)


def test_a_null_selector_is_not_an_empty_one() -> None:
    decode = decoder_of(ALL_KINDS["PodDisruptionBudget"].type).decode
    null = decode(b'{"metadata":{"name":"a","labels":null},"spec":{"selector":null}}')
    empty = decode(b'{"metadata":{"name":"a","labels":null},"spec":{"selector":{}}}')
    assert null.spec.selector is None
    assert empty.spec.selector is not None


@pytest.mark.parametrize(
    "body",
    [
        b'{"metadata":null}',
        b'{"metadata":{"name":null}}',
        b'{"metadata":{"name":"a"},"spec":{"drivers":[null]}}',
        b'{"metadata":{"name":"a","labels":{"b":null}}}',
    ],
)
def test_a_null_that_stands_for_no_missing_field_is_an_error(body: bytes) -> None:
    with pytest.raises(msgspec.ValidationError, match="null"):
        decoder_of(CSI_NODE.type).decode(body)


# ------------------------------------------------------------ whole clusters


def read_from_json(objects: list[JsonObject]) -> Snapshot:
    """The cluster in a JSON file."""
    return read_cluster([("file", msgspec.json.encode({"kind": "List", "items": objects}))])


def read_from_yaml(objects: list[JsonObject]) -> Snapshot:
    """The cluster in a YAML file."""
    return read_cluster([("file", yaml.dump_all(objects, Dumper=yaml.CSafeDumper).encode())])


def read_by_listing(objects: list[JsonObject]) -> Snapshot:
    """The cluster, listed in pages."""

    async def listed() -> Snapshot:
        async with ObjectServer(objects).client() as client:
            store = LiveStore(client, ClusterTables(), QUICK_WATCH)
            await store.list_once()
            return store.snapshot()

    return asyncio.run(listed())


def read_by_watching(objects: list[JsonObject]) -> Snapshot:
    """The cluster, of which every object appears after the list."""

    async def watched() -> Snapshot:
        in_order = sorted(objects, key=lambda item: int(item["metadata"]["resourceVersion"]))
        events = [{"type": "ADDED", "object": item} for item in in_order]
        async with ObjectServer(events=events).client() as client:
            tables = ClusterTables()
            store = LiveStore(client, tables, QUICK_WATCH)
            store.start()
            try:
                kinds = [kind for kind in KINDS for item in objects if item["kind"] == kind.name]
                await eventually(
                    lambda: sum(len(tables.of(kind)) for kind in KINDS) == len(kinds),
                    "all objects are in the tables",
                )
            finally:
                await store.stop()
            return store.snapshot()

    return asyncio.run(watched())


READERS = (read_from_json, read_from_yaml, read_by_listing, read_by_watching)


@pytest.mark.parametrize("reader", READERS)
def test_a_cluster_with_nulls_gives_the_tables_of_one_that_leaves_them_out(
    objects: list[JsonObject], reader: Callable[[list[JsonObject]], Snapshot]
) -> None:
    for seed in SEEDS:
        null, left_out = (
            [without_identity_changes(item, Random(seed), value) for item in objects]
            for value in (None, msgspec.UNSET)
        )
        found = reader(null)
        assert found == reader(left_out), f"seed {seed}"
        assert found == read_from_json(left_out), f"seed {seed}"


def without_identity_changes(item: JsonObject, chance: Random, value: Any) -> JsonObject:
    """The object with some fields changed, but of the same name, in the same version."""
    changed = with_random_fields(item, ALL_KINDS[item["kind"]].type, chance, value)
    kept = ("name", "namespace", "uid", "resourceVersion")
    own = {key: item["metadata"][key] for key in kept if key in item["metadata"]}
    return {**changed, "metadata": {**changed["metadata"], **own}}


async def test_a_node_without_storage_drivers_is_read_as_the_server_writes_it(
    cluster: TestCluster, client: Client, own_node: str
) -> None:
    body = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": own_node},
        "spec": {"drivers": []},
    }
    outside = cluster.client
    outside.create(CSI_NODE.path, body)
    try:
        written = outside.get(f"{CSI_NODE.path}/{own_node}")
        assert written["spec"]["drivers"] is None
        tables = ClusterTables()
        await LiveStore(client, tables, QUICK_WATCH).list_once()
        assert tables.of(CSI_NODE).get(own_node).spec.drivers == ()
    finally:
        outside.delete(f"{CSI_NODE.path}/{own_node}")


def test_a_request_of_a_scheduler_may_have_nulls() -> None:
    pod = next(item for item in WRITTEN_BY_GO if item["kind"] == "Pod")
    sent = {"Pod": pod, "Nodes": None, "NodeNames": ["a", "b"]}
    request = scheduling_request(msgspec.json.encode(sent), most_nodes=10)
    assert request.names == ["a", "b"]
    assert request.requests == {"pods": 1}
    whole = {"Pod": pod, "Nodes": {"items": WRITTEN_BY_GO[:1]}, "NodeNames": None}
    assert scheduling_request(msgspec.json.encode(whole), most_nodes=10).names == ["a"]
