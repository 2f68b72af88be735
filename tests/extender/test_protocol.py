"""Requests in every form that a scheduler may send, and in forms that it never would."""

import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rescheduler.extender.handlers import ExtenderHandlers
from rescheduler.extender.scheduling_request import MAX_NAMES_BYTES
from rescheduler.serving.refusals import BadRequest, RequestRefused
from testcluster.builders import pod
from tests.extender.extender_requests import (
    decoded,
    extender_for,
    filter_response,
    filtered,
    nodes,
    prioritize_response,
    put,
    scored,
    scores_in,
    tables_of,
    with_names,
    with_nodes,
)

NEW = pod("shop/new", cpu="1")
Verb = Callable[[ExtenderHandlers, bytes], bytes]
SMALL_CLUSTER = [*nodes("a", "b"), pod("shop/big", on="a", cpu="9")]


def test_whole_nodes_come_back_as_they_came() -> None:
    """A scheduler that sends nodes goes on with those it gets: nothing of them may be lost."""
    sent = nodes("a", "b", taints=[{"key": "k", "effect": "PreferNoSchedule", "timeAdded": "x"}])
    sent[1]["status"]["images"] = [{"names": ["registry.example/app:1"], "sizeBytes": 7}]
    result = decoded(filter_response(extender_for(SMALL_CLUSTER), with_nodes(NEW, sent)))
    assert result["Nodes"]["items"] == [sent[1]]
    assert result["NodeNames"] is None
    assert list(result["FailedAndUnresolvableNodes"]) == ["a"]


def test_whole_nodes_are_scored_as_their_names_are() -> None:
    extender = extender_for(SMALL_CLUSTER)
    by_nodes = scores_in(prioritize_response(extender, with_nodes(NEW, nodes("a", "b"))))
    assert by_nodes == scored(extender, NEW, ["a", "b"])


def test_a_pod_as_go_writes_it_is_understood() -> None:
    """With nulls and empty objects where Python would write nothing."""
    body = b"""{"Pod": {"metadata": {"name": "p", "namespace": "n", "uid": "u",
        "creationTimestamp": null, "managedFields": [{"manager": "kubectl"}]},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": {}}],
        "schedulerName": "rescheduler-scheduler", "enableServiceLinks": true},
        "status": {"phase": "Pending", "qosClass": "BestEffort"}},
        "Nodes": {"metadata": {}, "items": null}, "NodeNames": null}"""
    result = decoded(filter_response(extender_for(SMALL_CLUSTER), body))
    assert (result["Nodes"], result["NodeNames"], result["Error"]) == ({"items": []}, None, "")


def test_the_same_node_twice_is_answered_twice() -> None:
    assert filtered(extender_for(SMALL_CLUSTER), NEW, ["b", "b"]) == ["b", "b"]


def test_a_very_long_list_is_answered_in_full() -> None:
    names = [f"node-{number}" for number in range(20_000)]
    extender = extender_for(nodes(*names[::2]))
    assert filtered(extender, NEW, names) == names
    assert list(scored(extender, NEW, names)) == names


@pytest.mark.parametrize("verb", [filter_response, prioritize_response])
def test_far_more_nodes_than_there_are_are_refused(verb: Verb) -> None:
    extender = extender_for(nodes("a", "b"))
    most = extender.most_nodes
    for body in (with_names(NEW, ["a"] * most), with_nodes(NEW, nodes("a") * most)):
        verb(extender, body)
    for body in (with_names(NEW, ["a"] * (most + 1)), with_nodes(NEW, nodes("a") * (most + 1))):
        with pytest.raises(RequestRefused, match=f"expected at most {most}") as refused:
            verb(extender, body)
        assert refused.value.status == 413


def test_names_that_take_more_room_than_whole_nodes_need_are_not_even_decoded() -> None:
    names = msgspec.json.encode(["a"] * (MAX_NAMES_BYTES // 4 + 1))
    body = msgspec.json.encode({"Pod": NEW, "NodeNames": msgspec.Raw(names)})
    tracemalloc.start()
    with pytest.raises(RequestRefused, match="NodeNames: 2097157 bytes") as refused:
        filter_response(extender_for(SMALL_CLUSTER), body)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert refused.value.status == 413
    assert peak < 2 * len(body)


def test_whole_nodes_may_take_more_room() -> None:
    sent = nodes("a", "b")
    sent[1]["metadata"]["annotations"] = {"a": "x" * (MAX_NAMES_BYTES + 1)}
    result = decoded(filter_response(extender_for(SMALL_CLUSTER), with_nodes(NEW, sent)))
    assert result["Nodes"]["items"] == [sent[1]]


def test_the_longest_names_of_a_large_cluster_are_accepted() -> None:
    names = [f"{number:0253}" for number in range(5_000)]
    assert len(with_names(NEW, names)) < MAX_NAMES_BYTES
    assert filtered(extender_for(nodes(*names)), NEW, names) == names


def test_names_that_passed_may_come_back_in_the_same_bytes() -> None:
    """And a node that has come or gone in between is noticed."""
    tables = tables_of([*SMALL_CLUSTER, *nodes("c", "d")])
    extender = extender_for(tables)
    passed = msgspec.Raw(msgspec.json.encode(filtered(extender, NEW, ["a", "c", "gone", "b", "d"])))
    assert bytes(passed) == b'["c","gone","b","d"]'
    body = msgspec.json.encode({"Pod": NEW, "NodeNames": passed})
    points = scores_in(prioritize_response(extender, body))
    assert points == {"c": 10, "gone": 0, "b": 10, "d": 10}
    tables.nodes.remove(tables.nodes.by_key()["c"])
    for item in (*nodes("gone"), pod("shop/bigger", on="d", cpu="9")):
        put(tables, item)
    points = scores_in(prioritize_response(extender, body))
    assert points == {"c": 0, "gone": 10, "b": 10, "d": 0}


NAMES = st.lists(st.text("abc-.019", max_size=12), max_size=12)


@given(st.sets(st.text("abc-.019", min_size=1, max_size=12), max_size=12), NAMES)
def test_names_that_we_know_and_others_are_answered_in_their_order(
    known: set[str], others: list[str]
) -> None:
    """A node that we do not know may be used, and gets no points."""
    extender = extender_for(nodes(*sorted(known)))
    names = [*others, *known, *others]
    assert filtered(extender, NEW, names) == names
    result = decoded(prioritize_response(extender, with_names(NEW, names)))
    expected = [{"Host": name, "Score": 10 if name in known else 0} for name in names]
    assert result == expected


@pytest.mark.parametrize(
    "written", [b'[ "a",\n"b" ]', b'["\\u0061","b"]', b'["a" , "b"]', b'\t["a","b"]']
)
def test_names_in_another_style_are_the_same_names(written: bytes) -> None:
    body = msgspec.json.encode({"Pod": NEW, "NodeNames": msgspec.Raw(written)})
    result = decoded(filter_response(extender_for(SMALL_CLUSTER), body))
    assert result["NodeNames"] == ["b"]
    assert list(result["FailedNodes"]) == ["a"]


@pytest.mark.parametrize("name", ['a"b', "a\\b", "knoten-ö", "a\nb", "a b", ""])
def test_a_name_that_no_node_can_have_is_that_of_an_unknown_node(name: str) -> None:
    extender = extender_for(SMALL_CLUSTER)
    assert filtered(extender, NEW, ["a", name]) == [name]
    assert scored(extender, NEW, ["b", name]) == {"b": 10, name: 0}


@pytest.mark.parametrize(
    "written",
    [b"{}", b'"a"', b'["a"', b'["a",1]', b'[["a"]]', b'["a""b"]', b'["a",]', b'["\xff"]'],
)
@pytest.mark.parametrize("verb", [filter_response, prioritize_response])
def test_what_is_no_list_of_names_is_refused(verb: Verb, written: bytes) -> None:
    body = b'{"Pod":' + msgspec.json.encode(NEW) + b',"NodeNames":' + written + b"}"
    with pytest.raises(BadRequest, match="expected ExtenderArgs"):
        verb(extender_for(SMALL_CLUSTER), body)


MALFORMED = {
    "nothing": (b"", "truncated"),
    "no JSON": (b"<html>", "malformed"),
    "cut off": (with_names(NEW, ["a"])[:-5], "truncated"),
    "not UTF-8": (b'{"Pod": "\xff"}', "Expected `object`, got `str`"),
    "a list": (b"[]", "Expected `object`"),
    "no pod": (b'{"NodeNames": ["a"]}', "missing required field `Pod`"),
    "a pod without a name": (b'{"Pod": {"metadata": {}}}', "`name`"),
    "names that are numbers": (
        msgspec.json.encode({"Pod": NEW, "NodeNames": [1]}),
        "Expected `str`, got `int` - at `$.NodeNames[0]`",
    ),
    "a node without a name": (with_nodes(NEW, [{"metadata": {}}]), "`name`"),
    "a bad quantity": (with_names(pod("shop/bad", cpu="5oom"), ["a"]), "pod shop/bad: '5oom'"),
}


@pytest.mark.parametrize(("body", "expected"), MALFORMED.values(), ids=MALFORMED)
@pytest.mark.parametrize("verb", [filter_response, prioritize_response])
def test_what_cannot_be_decoded_is_refused_with_the_reason(
    verb: Verb, body: bytes, expected: str
) -> None:
    with pytest.raises(BadRequest) as raised:
        verb(extender_for(SMALL_CLUSTER), body)
    assert expected in str(raised.value)


async def test_a_binding_that_cannot_be_decoded_is_refused() -> None:
    with pytest.raises(BadRequest, match="ExtenderBindingArgs"):
        await extender_for([]).bind(b'{"PodName": "p"}')


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.floats(allow_nan=False),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["Pod", "NodeNames", "Nodes", "items", "metadata", "name", "spec"]),
            inner,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=300)
@given(ANYTHING)
def test_any_json_is_answered_or_refused(content: Any) -> None:
    extender = extender_for(SMALL_CLUSTER)
    for verb in (filter_response, prioritize_response):
        with suppress(BadRequest):
            decoded(verb(extender, msgspec.json.encode(content)))


@given(st.binary(max_size=40))
def test_any_bytes_are_refused(body: bytes) -> None:
    with pytest.raises(BadRequest):
        filter_response(extender_for(SMALL_CLUSTER), body)
