"""Lists of names that stay bytes are what they would be as strings."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.extender.node_loads import UNKNOWN
from rescheduler.extender.node_name_lists import NodeLookup, read_names, write_scores
from rescheduler.extender.protocol import BadRequest
from testcluster.builders import node
from tests.extender.questions import nodes, put, tables_of

NAMES = st.lists(st.text("abc-.019", max_size=12), max_size=12)


def numbers(values: list[int]) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    return np.array(values, np.int64)


@given(NAMES, st.data())
def test_any_of_the_names_can_be_taken_in_any_order(names: list[str], data: st.DataObject) -> None:
    read = read_names(msgspec.json.encode(names))
    assert len(read) == len(names)
    assert read.text(np.arange(len(names))) == names
    some = data.draw(st.lists(st.sampled_from(range(len(names))))) if names else []
    taken = read.taken(numbers(some))
    assert taken.written == msgspec.json.encode([names[index] for index in some])
    assert taken.text(np.arange(len(some))) == [names[index] for index in some]


@given(NAMES, st.data())
def test_scores_are_written_as_the_protocol_wants_them(
    names: list[str], data: st.DataObject
) -> None:
    scores = [data.draw(st.integers(0, 10)) for _ in names]
    written = write_scores(read_names(msgspec.json.encode(names)), numbers(scores))
    expected = [{"Host": name, "Score": score} for name, score in zip(names, scores, strict=True)]
    assert msgspec.json.decode(written) == expected


@given(st.sets(st.text("abc-.019", min_size=1, max_size=12), max_size=12), NAMES)
def test_names_are_found_where_their_nodes_are(known: set[str], asked: list[str]) -> None:
    tables = tables_of([node(name) for name in sorted(known)])
    lookup = NodeLookup(tables.nodes)
    everything = [*asked, *known]
    found = lookup.find(msgspec.json.encode(everything)).rows.tolist()
    assert found == [tables.nodes.row_of.get(name, UNKNOWN) for name in everything]


def test_a_list_that_is_remembered_is_forgotten_when_a_node_comes_or_goes() -> None:
    tables = tables_of(nodes("a", "b"))
    lookup = NodeLookup(tables.nodes)
    listed = lookup.find(b'["a","new"]')
    lookup.remember(listed)
    assert lookup.find(b'["a","new"]') is listed
    put(tables, node("new"))
    assert UNKNOWN not in lookup.find(b'["a","new"]').rows
    tables.nodes.remove(tables.nodes.by_key()["a"])
    assert lookup.find(b'["a","new"]').rows.tolist() == [UNKNOWN, tables.nodes.row_of["new"]]


@pytest.mark.parametrize(
    "written", [b'[ "a",\n"b-1" ]', b'["\\u0061","b-1"]', b'["a" , "b-1"]', b'\t["a","b-1"]']
)
def test_a_list_in_another_style_is_the_same_list(written: bytes) -> None:
    read = read_names(written)
    assert read.written == b'["a","b-1"]'
    assert read.text(np.arange(2)) == ["a", "b-1"]


@pytest.mark.parametrize(
    "written",
    [b"", b"{}", b'"a"', b'["a"', b'["a",1]', b'[["a"]]', b'["a""b"]', b'["a",]', b'["\xff"]'],
)
def test_what_is_no_list_of_names_is_refused(written: bytes) -> None:
    with pytest.raises(BadRequest, match="NodeNames: expected names of nodes"):
        read_names(written)


@pytest.mark.parametrize("name", ['a"b', "a\\b", "knoten-ö", "a\nb", "a b"])
def test_what_cannot_be_the_name_of_a_node_is_refused(name: str) -> None:
    with pytest.raises(BadRequest, match="other characters"):
        read_names(msgspec.json.encode(["a", name]))


@given(st.binary(max_size=20))
def test_bytes_are_read_as_json_or_refused(written: bytes) -> None:
    try:
        read = read_names(written)
    except BadRequest:
        return
    assert read.text(np.arange(len(read))) == msgspec.json.decode(written, type=list[str])
