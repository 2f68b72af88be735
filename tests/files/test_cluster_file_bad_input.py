"""Bad cluster files: every message names the file, the object, the field, the value, and more."""

import gzip
import json
from contextlib import suppress
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from rescheduler.errors import SnapshotError
from rescheduler.files.cluster_file import read_cluster
from rescheduler.model.snapshot import UNKNOWN_NODE
from testcluster.builders import budget, node, pod, replicaset

WRITTEN = "expected JSON or YAML as `kubectl get nodes,pods -A -o json` writes it"
QUANTITY = "expected a number with an optional suffix, such as '500m', '1.5' or '2Gi'"


def in_list(*objects: Any) -> bytes:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}).encode()


def message(*files: bytes) -> str:
    names = ("cluster.json", "more.json")
    with pytest.raises(SnapshotError) as raised:
        read_cluster(zip(names, files, strict=False))
    return str(raised.value)


def changed(built: dict[str, Any], *path: str | int, to: Any) -> dict[str, Any]:
    copy: dict[str, Any] = json.loads(json.dumps(built))
    target: Any = copy
    for step in path[:-1]:
        target = target[step]
    target[path[-1]] = to
    return copy


POD = pod("shop/cart-0", cpu="1", memory="1Gi", labels={"app": "cart", "example.com/team": "x"})
REQUESTS = ("spec", "containers", 0, "resources", "requests")


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", f"empty: {WRITTEN}"),
        (b" \n\n", f"empty: {WRITTEN}"),
        (b"# only a comment\n---\n", f"empty: {WRITTEN}"),
        (in_list(POD)[:100], f"Input data was truncated: {WRITTEN}"),
        (
            b"{'kind': 'List'}",
            f"JSON is malformed: object keys must be strings (byte 1): {WRITTEN}",
        ),
        (b"hello, world", f"'hello, world': {WRITTEN}"),
        (b"[1, 2]", f"[1, 2]: {WRITTEN}"),
        (b"42", f"42: {WRITTEN}"),
        (b"NAME  STATUS\nnode-1: x\n", None),
        (b"\x00\x01\x02\x03", None),
        (b"kind: Pod\n\xff", "byte 10 is 0xff: expected text encoded as UTF-8"),
        (b'{"kind": "\xff"}', "invalid start byte: expected text encoded as UTF-8"),
        ("kind: Pod".encode("utf-16"), "byte 0 is 0xff: expected text encoded as UTF-8"),
        (gzip.compress(in_list(POD))[:-20], None),
        (gzip.compress(b"", mtime=0), f"empty: {WRITTEN}"),
        (b"\x1f\x8b not gzip", None),
        (b"kind: Pod\nkind: Node\n", "YAML is malformed: line 2: the key 'kind' appears twice"),
        (b"a: [1, 2", None),
        (b"a: !!int x", None),
        (b"a: !!python/object:os.system {}", None),
        (b"x: " + b"[" * 100_000, "YAML is malformed: more than 200 levels inside one another"),
        (b'{"a":' * 100_000, "too many levels inside one another"),
        (b"&a {kind: List, apiVersion: v1, items: [*a]}", None),
        (
            b"--- &a {kind: List, apiVersion: v1, items: [*a]}",
            "YAML is malformed: the alias *a is inside of what it stands for",
        ),
        (b'{"apiVersion": "v1", "kind": "List"}', "items: missing: expected a list of objects"),
        (b'{"apiVersion": "v1", "kind": "PodList"}', "items: missing: expected a list of objects"),
        (b'{"kind": "List", "items": {"a": 1}}', "items: {'a': 1}: expected a list of objects"),
        (b"kind: List\nitems: none", "items: 'none': expected a list of objects"),
        (b'{"kind": 7}', "kind: 7: expected text"),
        (b'{"metadata": {"name": "x"}}', "kind: missing: expected a Kubernetes object"),
        (b'{"kind": "Pod"}', "apiVersion: missing: expected a Kubernetes object"),
        (in_list("text"), f'items[0]: "text": {WRITTEN}'),
        (in_list(POD, None), f"items[1]: null: {WRITTEN}"),
        (
            in_list(POD, {"kind": "Pod"}),
            "items[1]: apiVersion: missing: expected a Kubernetes object",
        ),
        (b"kind: Node\napiVersion: v1\n", "metadata: missing"),
        (
            b"kind: Node\napiVersion: v1\nmetadata: {name: a}\n---\nkind: 3",
            "document 2: kind: 3: expected text",
        ),
    ],
)
def test_a_file_that_is_no_list_of_objects_is_refused(data: bytes, expected: str | None) -> None:
    said = message(data)
    assert said.startswith("cluster.json: ")
    assert expected is None or said == f"cluster.json: {expected}"


@pytest.mark.parametrize(
    ("built", "expected"),
    [
        (
            changed(POD, *REQUESTS, "cpu", to="5oom"),
            f"Pod shop/cart-0: spec.containers[0].resources.requests.cpu: '5oom': {QUANTITY}",
        ),
        (
            changed(POD, *REQUESTS, "memory", to=["1Gi"]),
            f"Pod shop/cart-0: spec.containers[0].resources.requests.memory: ['1Gi']: {QUANTITY}",
        ),
        (
            changed(POD, *REQUESTS, "cpu", to="-1"),
            "Pod shop/cart-0: spec.containers[0].resources.requests.cpu: '-1': "
            "expected a quantity that is not negative",
        ),
        (
            changed(POD, "spec", "overhead", to={"example.com/gpu": "much"}),
            f"Pod shop/cart-0: spec.overhead[example.com/gpu]: 'much': {QUANTITY}",
        ),
        (
            changed(node("a"), "status", "allocatable", "memory", to=-5),
            "Node a: status.allocatable.memory: -5: expected a quantity that is not negative",
        ),
        (
            changed(node("a"), "status", "allocatable", "pods", to="9" * 5000),
            f"Node a: status.allocatable.pods: '{'9' * 59}…: {QUANTITY}",
        ),
        (
            changed(POD, "metadata", "labels", "example.com/team", to=7),
            "Pod shop/cart-0: metadata.labels[example.com/team]: 7: expected text",
        ),
        (
            changed(POD, "metadata", "labels", to="app=cart"),
            "Pod shop/cart-0: metadata.labels: 'app=cart': expected a mapping",
        ),
        (
            changed(POD, "metadata", "annotations", "kubernetes.io/config.mirror", to=True),
            "Pod shop/cart-0: metadata.annotations[kubernetes.io/config.mirror]: True: "
            "expected text",
        ),
        (
            changed(POD, "spec", "containers", to={"name": "app"}),
            "Pod shop/cart-0: spec.containers: {'name': 'app'}: expected a list",
        ),
        (
            changed(POD, "spec", "containers", 0, to="app"),
            "Pod shop/cart-0: spec.containers[0]: 'app': expected a mapping",
        ),
        (
            changed(POD, "spec", "priority", to="high"),
            "Pod shop/cart-0: spec.priority: 'high': expected a whole number",
        ),
        (
            changed(POD, "spec", "hostNetwork", to="yes"),
            "Pod shop/cart-0: spec.hostNetwork: 'yes': expected true or false",
        ),
        (
            changed(POD, "metadata", "creationTimestamp", to="yesterday"),
            "Pod shop/cart-0: metadata.creationTimestamp: 'yesterday': "
            "expected a time such as '2025-01-31T12:00:00Z'",
        ),
        (
            changed(budget("shop/cart"), "spec", "minAvailable", to=[1]),
            "PodDisruptionBudget shop/cart: spec.minAvailable: [1]: "
            "expected a whole number or text",
        ),
        (changed(POD, "metadata", "name", to=None), "items[0]: metadata.name: missing"),
        (
            changed(POD, "metadata", "name", to=""),
            "items[0]: metadata.name: '': expected a name without '/'",
        ),
        (
            changed(POD, "metadata", "name", to="a/b"),
            "Pod shop/a/b: metadata.name: 'a/b': expected a name without '/'",
        ),
        (changed(POD, "metadata", "name", to=7), "items[0]: metadata.name: 7: expected text"),
        (changed(POD, "metadata", to=None), "items[0]: metadata: missing"),
        (changed(POD, "metadata", to=[]), "items[0]: metadata: []: expected a mapping"),
        (
            changed(node("a"), "spec", "taints", to=[{"effect": "NoSchedule"}]),
            "Node a: spec.taints[0].key: missing",
        ),
        (
            pod("shop/lost", on="nowhere"),
            "Pod shop/lost: spec.nodeName: 'nowhere': expected a node that is in the files",
        ),
    ],
)
def test_a_bad_value_is_named_with_its_place(built: dict[str, Any], expected: str) -> None:
    assert message(in_list(built)) == f"cluster.json: {expected}"
    if "items[0]" not in expected:
        assert message(yaml.safe_dump(built).encode()) == f"cluster.json: {expected}"


def test_a_cluster_without_most_of_its_nodes_is_refused() -> None:
    lost = [pod("shop/one", on="b"), pod("shop/two", on="b"), pod("shop/three", on="c")]
    assert message(in_list(node("a"), *lost)) == (
        "cluster.json: Pod shop/one: spec.nodeName: 'b': expected a node that is in the files"
    )
    kept = read_cluster([("x", in_list(node("a"), *lost[:2], pod("shop/kept", on="a")))])
    assert kept.pods.node.tolist() == [0, UNKNOWN_NODE, UNKNOWN_NODE]


def test_an_object_without_namespace_is_named_in_default() -> None:
    text = b"kind: Pod\napiVersion: v1\nmetadata: {name: x}\nspec: []"
    assert message(text) == "cluster.json: Pod default/x: spec: []: expected a mapping"


def test_a_key_that_is_no_text_is_named() -> None:
    text = b"kind: Node\napiVersion: v1\nmetadata: {name: a, labels: {1: x}}"
    assert message(text) == "cluster.json: Node a: metadata.labels: 1: expected text as a key"


def test_a_number_that_no_column_holds_is_refused() -> None:
    said = message(in_list(changed(POD, "spec", "priority", to=2**40)))
    assert said.startswith("cluster.json: Pod shop/cart-0: spec.priority: 1099511627776: expected")


def test_a_version_that_is_no_number_is_as_good_as_none() -> None:
    for version in ("9" * 30, "9" * 5000, "abc", ""):
        strange = changed(node("a"), "metadata", "resourceVersion", to=version)
        assert read_cluster([("x", in_list(strange))]).nodes.names == ("a",)


def test_two_objects_of_one_name_are_refused_within_a_file_and_across() -> None:
    twice = "Pod shop/cart-0: metadata.name: there is another of this name in"
    assert message(in_list(POD, POD)) == f"cluster.json: {twice} this file"
    assert message(in_list(POD), in_list(POD)) == f"more.json: {twice} cluster.json"


def test_the_same_name_in_another_kind_or_namespace_is_no_duplicate() -> None:
    read_cluster([("x", in_list(POD, replicaset("shop/cart-0"), pod("other/cart-0")))])


VALID = in_list(
    node("a", zone="z1", taints=[{"key": "x", "effect": "NoSchedule"}]),
    replicaset("shop/cart"),
    budget("shop/cart", min_available="50%", allowed=1),
    pod(
        "shop/cart-0",
        on="a",
        cpu="500m",
        memory="1Gi",
        owner=replicaset("shop/cart"),
        nodeSelector={"disk": "ssd"},
        tolerations=[{"key": "x", "operator": "Exists", "tolerationSeconds": 3}],
        topologySpreadConstraints=[{"maxSkew": 1, "topologyKey": "zone"}],
    ),
)
VALID_YAML = yaml.safe_dump(json.loads(VALID)).encode()
VALID_PACKED = gzip.compress(VALID)
SNIPPETS = [
    b"null", b"-1", b"1e999", b'"', b"{", b"}", b"[", b"]", b",", b":", b"\n", b"  ", b"- ", b"&a ",
    b"*a", b"<<: ", b"!!int ", b"!!timestamp ", b"? ", b"\xff", b"\x00", b"true", b"\\ud800",
    b"9" * 30, b"9" * 5000, b'"items"', b'"List"', b"0001-01-01T00:00:00", b".nan", b"---\n", b"%",
]  # fmt: skip


@settings(max_examples=250, deadline=None)
@given(
    st.sampled_from([VALID, VALID_YAML, VALID_PACKED]),
    st.lists(
        st.tuples(
            st.floats(0, 1),
            st.integers(0, 40),
            st.one_of(st.sampled_from(SNIPPETS), st.binary(max_size=4)),
        ),
        min_size=1,
        max_size=4,
    ),
)
def test_nothing_but_our_error_escapes_for_mutated_files(
    data: bytes, mutations: list[tuple[float, int, bytes]]
) -> None:
    for where, removed, inserted in mutations:
        start = int(where * len(data))
        data = data[:start] + inserted + data[start + removed :]
    read_or_refuse(data)


@settings(max_examples=80, deadline=None)
@given(
    st.integers(0), st.sampled_from([None, True, -1, 2**70, 1.5, "", "x", [], {}, [None], {"a": 0}])
)
def test_nothing_but_our_error_escapes_for_replaced_values(position: int, value: Any) -> None:
    """Values of every type, at any place in the tree."""
    content = json.loads(VALID)
    places = list(all_places(content))
    holder, key = places[position % len(places)]
    holder[key] = value
    read_or_refuse(json.dumps(content).encode())
    read_or_refuse(yaml.safe_dump(content).encode())


def all_places(content: Any) -> Any:
    entries = content.items() if isinstance(content, dict) else enumerate(content)
    for key, value in entries:
        yield content, key
        if isinstance(value, dict | list):
            yield from all_places(value)


def read_or_refuse(data: bytes) -> None:
    with suppress(SnapshotError):
        read_cluster([("cluster.json", data)])
