"""One tree gives a manifest and a template that mean the same."""

import pytest
import yaml

from rescheduler.install.tree import (
    Comment,
    Expressions,
    Items,
    Value,
    ValueText,
    When,
    dumped,
    resolved,
    without_comments,
    written,
)

TREE = {
    Comment("why it is so"): None,
    "size": Value("size"),
    When("big"): {"extra": Value("labels")},
    "file": ValueText("labels"),
    "items": ["a", {When("big"): ["b", Comment("about c"), "c"]}, Items("more")],
}
EXPRESSIONS = Expressions(
    {"size": ".Values.size", "labels": ".Values.labels", "more": ".Values.more"},
    {"big": "gt .Values.size 1"},
    frozenset({"labels"}),
)


@pytest.mark.parametrize("is_big", [False, True])
def test_switches_and_options_are_resolved(is_big: bool) -> None:
    options = {"size": 3, "labels": {"x": "y"}, "more": ["d", "e"]}
    found = resolved(TREE, options, {"big"} if is_big else set())
    expected = {"size": 3, "file": "x: y\n", "items": ["a", "d", "e"]}
    if is_big:
        expected |= {"extra": {"x": "y"}, "items": ["a", "b", "c", "d", "e"]}
    assert without_comments(found) == expected
    text = dumped(found)
    assert text.startswith("# why it is so\nsize: 3\n")
    assert yaml.safe_load(text) == expected


def test_a_template_names_switches_and_options() -> None:
    assert (
        written(TREE, EXPRESSIONS)
        == """\
# why it is so
size: {{ .Values.size }}
{{- if gt .Values.size 1 }}
extra: {{- toYaml (.Values.labels) | nindent 2 }}
{{- end }}
file: |
{{ toYaml .Values.labels | indent 2 }}
items:
- a
{{- if gt .Values.size 1 }}
- b
# about c
- c
{{- end }}
{{- with .Values.more }}
{{- toYaml . | nindent 0 }}
{{- end }}
"""
    )


def test_the_same_field_behind_two_switches_is_refused() -> None:
    tree = {When("big"): {"a": 1}, When("small"): {"a": 2}}
    switches = {"big": "x", "small": "y"}
    with pytest.raises(AssertionError, match="appears twice"):
        written(tree, Expressions({}, switches, frozenset()))


def test_a_text_of_several_lines_is_a_block() -> None:
    assert dumped({"file": "a: 1\nb: 2\n"}) == "file: |\n  a: 1\n  b: 2\n"
