"""Aliases keep files short; a file in which they stand for billions of values is refused."""

import re
from pathlib import Path

import pytest

from rescheduler.errors import CredentialsError, SettingsError
from rescheduler.files.bad_document import BadDocument
from rescheduler.files.cluster_file import read_cluster
from rescheduler.files.documents import yaml_documents
from rescheduler.files.policy_file import read_policy
from rescheduler.files.yaml_limits import DEEPEST, MOST_ALIASED, MOST_ALIASED_PER_WRITTEN
from rescheduler.kube.auth.kubeconfig import read_kubeconfig


def laughs(levels: int, each: int = 9) -> str:
    """A list of lists of lists, each written once."""
    lines = ["l0: &l0 [lol, lol]"]
    for level in range(1, levels):
        aliases = ", ".join([f"*l{level - 1}"] * each)
        lines.append(f"l{level}: &l{level} [{aliases}]")
    return "\n".join(lines)


def nested_merges(levels: int) -> str:
    """Mappings that merge one another: the library itself copies their keys."""
    lines = ["l0: &l0 {a: 1, b: 2}"]
    for level in range(1, levels):
        aliases = ", ".join([f"*l{level - 1}"] * 9)
        lines.append(f"l{level}: &l{level} {{<<: [{aliases}]}}")
    return "\n".join(lines)


def chain(levels: int) -> str:
    """Few values, but the aliases make them deep."""
    half = DEEPEST // 2
    lines = ["l0: &l0 " + "[" * half + "]" * half]
    for level in range(1, levels):
        lines.append(f"l{level}: &l{level} " + "[" * half + f"*l{level - 1}" + "]" * half)
    return "\n".join(lines)


@pytest.mark.parametrize("text", [laughs(30), laughs(9), nested_merges(30)])
def test_aliases_of_aliases_are_refused(text: str) -> None:
    with pytest.raises(
        BadDocument, match=r"its aliases stand for more than [0-9]+ values; expected"
    ) as refused:
        yaml_documents(text.encode())
    found, most, most_per_written, written = map(int, re.findall("[0-9]+", str(refused.value)))
    assert (most, most_per_written) == (MOST_ALIASED, MOST_ALIASED_PER_WRITTEN)
    assert found == most + most_per_written * written


def test_depth_that_aliases_add_up_to_is_refused() -> None:
    with pytest.raises(BadDocument, match=f"more than {DEEPEST} levels inside one another"):
        yaml_documents(chain(50).encode())


def test_a_list_that_contains_itself_is_refused() -> None:
    with pytest.raises(BadDocument, match=r"the alias \*a is inside of what it stands for"):
        yaml_documents(b"x: &a [1, [*a]]")


def test_an_alias_without_an_anchor_is_refused_with_its_line() -> None:
    with pytest.raises(BadDocument, match=r"line 2: .*undefined alias"):
        yaml_documents(b"a: 1\nb: *nobody\n")


def test_a_large_file_may_repeat_one_template_often() -> None:
    template = "{" + ", ".join(f"k{number}: v" for number in range(40)) + "}"
    count = MOST_ALIASED // 40
    text = f"base: &base {template}\nitems:\n" + "- *base\n" * count
    (document,) = yaml_documents(text.encode())
    assert len(document["items"]) == count
    assert document["items"][-1] == document["base"]


def test_anchors_of_one_document_do_not_count_in_the_next() -> None:
    text = "---\n".join(["a: &a [1, 2]\nb: [*a, *a]\n"] * 3)
    assert yaml_documents(text.encode()) == [{"a": [1, 2], "b": [[1, 2], [1, 2]]}] * 3


def test_policies_kubeconfigs_and_cluster_files_say_so(tmp_path: Path) -> None:
    file = tmp_path / "file.yaml"
    file.write_text(laughs(30))
    with pytest.raises(SettingsError, match=r"file\.yaml: .*its aliases stand for more than"):
        read_policy(str(file), file.read_bytes())
    with pytest.raises(CredentialsError, match=r"file\.yaml: .*its aliases stand for more than"):
        read_kubeconfig([file])
    with pytest.raises(SettingsError, match=r"file\.yaml: .*its aliases stand for more than"):
        read_cluster([(str(file), file.read_bytes())])
