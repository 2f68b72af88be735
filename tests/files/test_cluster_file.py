"""Cluster files: what can be read, what is written, and that both agree."""

import gzip
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
import yaml

from rescheduler.errors import SnapshotError
from rescheduler.files.cluster_file import (
    LIST_END,
    encode_object,
    list_start,
    read_cluster,
    read_cluster_files,
)
from rescheduler.labels import SNAPSHOT_TIME
from rescheduler.model.kinds import BUDGET, KIND_BY_NAME, NODE, POD
from rescheduler.model.snapshot import Snapshot
from testcluster.builders import budget, deployment, node, pod, replicaset

Written = Callable[[list[dict[str, Any]]], bytes]

WRITTEN = datetime(2026, 1, 31, 12, 30, tzinfo=UTC)

CART = replicaset("shop/cart", replicas=2)
OBJECTS = [
    node("a", zone="z1", resources={"nvidia.com/gpu": "4"}),
    node("b", zone="z2", unschedulable=True),
    deployment("shop/cart", replicas=2),
    CART,
    budget("shop/cart", min_available=1, allowed=1),
    pod("shop/cart-0", on="a", cpu="500m", memory="1Gi", owner=CART, labels={"app": "cart"}),
    pod("shop/cart-1", on="b", cpu="500m", memory="1Gi", owner=CART, labels={"app": "cart"}),
    pod("shop/waiting", cpu="2"),
]


def as_list(objects: list[dict[str, Any]]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "List", "items": objects, "metadata": {}}


def as_json(objects: list[dict[str, Any]]) -> bytes:
    return json.dumps(as_list(objects)).encode()


def as_yaml(objects: list[dict[str, Any]]) -> bytes:
    return yaml.safe_dump(as_list(objects)).encode()


def as_yaml_documents(objects: list[dict[str, Any]]) -> bytes:
    return yaml.safe_dump_all(objects, explicit_start=True).encode()


def as_packed_json(objects: list[dict[str, Any]]) -> bytes:
    return gzip.compress(as_json(objects))


def as_packed_yaml(objects: list[dict[str, Any]]) -> bytes:
    return gzip.compress(as_yaml(objects))


def as_json_with_mark(objects: list[dict[str, Any]]) -> bytes:
    return b"\xef\xbb\xbf" + as_json(objects)


def read(*files: bytes) -> Snapshot:
    return read_cluster((f"file{number}", data) for number, data in enumerate(files))


@pytest.mark.parametrize(
    "written",
    [as_yaml, as_yaml_documents, as_packed_json, as_packed_yaml, as_json_with_mark],
)
def test_every_format_gives_the_same_cluster(written: Written) -> None:
    assert read(written(OBJECTS)) == read(as_json(OBJECTS))


def test_a_file_becomes_rows_and_objects() -> None:
    snapshot = read(as_json(OBJECTS))
    assert snapshot.nodes.names == ("a", "b")
    assert snapshot.pods.keys == ("shop/cart-0", "shop/cart-1", "shop/waiting")
    assert snapshot.pods.node.tolist() == [0, 1, -1]
    assert snapshot.requested[0, snapshot.column("cpu")] == 500
    assert list(snapshot.budgets) == ["shop/cart"]
    assert "nvidia.com/gpu" in snapshot.resources


def test_several_files_make_one_cluster_in_any_order() -> None:
    whole = read(as_json(OBJECTS))
    assert read(as_json(OBJECTS[:3]), as_yaml(OBJECTS[3:])) == whole
    assert read(as_yaml(OBJECTS[3:]), as_json(OBJECTS[:3])) == whole


def test_no_files_are_an_empty_cluster() -> None:
    assert len(read().nodes) == 0


@pytest.mark.parametrize("items", [[], None])
def test_an_empty_list_is_an_empty_cluster(items: list[Any] | None) -> None:
    snapshot = read(json.dumps({"apiVersion": "v1", "kind": "PodList", "items": items}).encode())
    assert len(snapshot.pods) == 0


def test_a_single_object_is_read() -> None:
    assert read(json.dumps(node("a")).encode()).nodes.names == ("a",)
    assert read(yaml.safe_dump(node("a")).encode()).nodes.names == ("a",)


def test_items_of_a_kinds_own_list_need_no_kind() -> None:
    """This is how the API server itself answers."""

    def bare(built: dict[str, Any]) -> dict[str, Any]:
        return {key: part for key, part in built.items() if key not in ("kind", "apiVersion")}

    nodes = {"apiVersion": "v1", "kind": "NodeList", "items": [bare(node("a")), bare(node("b"))]}
    budgets = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudgetList",
        "items": [bare(budget("shop/cart", min_available=1))],
    }
    snapshot = read(json.dumps(nodes).encode(), json.dumps(budgets).encode())
    assert snapshot.nodes.names == ("a", "b")
    assert list(snapshot.budgets) == ["shop/cart"]


def test_a_list_inside_a_list_is_read() -> None:
    assert read(as_json([as_list([node("a")]), node("b")])).nodes.names == ("a", "b")


@pytest.mark.parametrize(
    "other",
    [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}},
        {"apiVersion": "example.com/v1", "kind": "Node", "metadata": {"name": "x"}},
        {"apiVersion": "example.com/v1", "kind": "AllowList", "metadata": {"name": "x"}},
        {"apiVersion": "example.com/v1", "kind": "Pod", "metadata": "not even a mapping"},
    ],
)
def test_kinds_that_are_not_read_are_skipped(other: dict[str, Any]) -> None:
    assert read(as_json([node("a"), other])) == read(as_json([node("a")]))


def test_an_older_version_of_a_group_is_read() -> None:
    old = {**budget("shop/cart", min_available=1), "apiVersion": "policy/v1beta1"}
    assert list(read(as_json([old])).budgets) == ["shop/cart"]


def test_an_object_without_namespace_is_in_default() -> None:
    homeless = pod("default/x")
    del homeless["metadata"]["namespace"]
    assert read(as_json([homeless])).pods.keys == ("default/x",)


def test_an_object_of_a_kind_without_namespaces_is_in_none() -> None:
    odd = node("a")
    odd["metadata"]["namespace"] = "shop"
    assert read(as_json([odd])).nodes.names == ("a",)


@pytest.mark.parametrize("written", [as_json, as_yaml])
def test_nulls_count_as_absent(written: Written) -> None:
    full, sparse = pod("shop/x", on="a"), pod("shop/x", on="a")
    sparse["metadata"]["generation"] = None
    sparse["spec"]["nodeSelector"] = None
    sparse["spec"]["containers"][0]["resources"] = {"requests": None, "limits": None}
    sparse["spec"]["containers"][0]["ports"] = None
    assert read(written([node("a"), sparse])) == read(written([node("a"), full]))


def test_times_in_yaml_need_no_quotes() -> None:
    text = b"""
    {kind: Pod, apiVersion: v1, metadata: {name: x, creationTimestamp: 2025-01-01T00:00:00Z,
     labels: {released: "2025-01-01"}}}
    """
    unquoted = b"---" + text.replace(b'"', b"")
    snapshot = read(unquoted)
    assert snapshot.pods.created.tolist() == [1735689600.0]
    assert snapshot.templates[0].labels == {"released": "2025-01-01"}


def test_yaml_anchors_and_merge_keys_keep_files_short() -> None:
    text = b"""
kind: Node
apiVersion: v1
metadata: &web
  name: a
  labels: {pool: web}
---
kind: Node
apiVersion: v1
metadata:
  <<: &labels
    name: overridden
    labels: {pool: web}
  name: b
"""
    assert read(text).nodes.names == ("a", "b")


def test_a_finished_pod_may_be_on_a_node_that_is_gone() -> None:
    done = pod("shop/done", on="gone", phase="Succeeded")
    assert read(as_json([done])).pods.finished.tolist() == [True]


def test_what_is_written_is_read_as_the_same_cluster() -> None:
    items = [
        encode_object(kind, msgspec.convert(built, kind.type))
        for built in OBJECTS
        for kind in [KIND_BY_NAME[built["kind"]]]
    ]
    assert read(list_start(WRITTEN) + b",\n".join(items) + LIST_END) == read(as_json(OBJECTS))


def written_at(*times: datetime) -> datetime | None:
    """When files say that they were written, each with a node of its own."""
    files = []
    for number, time in enumerate(times):
        encoded = encode_object(NODE, msgspec.convert(node(f"n{number}"), NODE.type))
        files.append((f"file-{number}", list_start(time) + encoded + LIST_END))
    return read_cluster_files(files).written_at


def test_a_file_says_when_it_was_written() -> None:
    assert written_at(WRITTEN) == WRITTEN
    assert written_at(WRITTEN, WRITTEN - timedelta(days=1)) == WRITTEN
    assert read_cluster_files([("x", as_json(OBJECTS))]).written_at is None
    content = {
        **as_list(OBJECTS),
        "metadata": {"annotations": {SNAPSHOT_TIME: "2026-01-31T12:30:00Z"}},
    }
    assert read_cluster_files([("x", yaml.safe_dump(content).encode())]).written_at == WRITTEN


@pytest.mark.parametrize("metadata", [None, 7, {"annotations": None}, {"annotations": []}])
def test_a_list_may_have_any_metadata(metadata: Any) -> None:
    content = {**as_list(OBJECTS), "metadata": metadata}
    assert read_cluster_files([("x", json.dumps(content).encode())]).written_at is None


@pytest.mark.parametrize("time", ["yesterday", 7, "2026-01-31T12:30:00"])
def test_a_time_that_is_none_is_named(time: Any) -> None:
    content = {**as_list(OBJECTS), "metadata": {"annotations": {SNAPSHOT_TIME: time}}}
    with pytest.raises(
        SnapshotError, match=r"x: metadata\.annotations\['.*'\]: .*: expected a time"
    ):
        read_cluster([("x", json.dumps(content).encode())])


@pytest.mark.parametrize(
    ("kind", "built"),
    [(NODE, node("a")), (POD, pod("shop/x")), (BUDGET, budget("shop/cart"))],
)
def test_an_object_is_written_with_its_kind(kind: Any, built: dict[str, Any]) -> None:
    written = json.loads(encode_object(kind, msgspec.convert(built, kind.type)))
    assert (written["apiVersion"], written["kind"]) == (built["apiVersion"], built["kind"])
    assert written["metadata"]["name"] == built["metadata"]["name"]


def test_only_what_is_read_is_written() -> None:
    secretive = pod("shop/x", on="a", annotations={"note": "confidential"})
    secretive["spec"]["containers"][0] |= {
        "env": [{"name": "PASSWORD", "value": "confidential"}],
        "command": ["--token=confidential"],
        "image": "confidential/image",
    }
    secretive["metadata"]["managedFields"] = [{"manager": "confidential"}]
    written = encode_object(POD, msgspec.convert(secretive, POD.type))
    assert b"confidential" not in written
    assert b"PASSWORD" not in written
