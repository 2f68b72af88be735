"""Objects as trees with options and switches in them: resolved, or written as templates of Helm.

A tree is what YAML can hold, and five things more:

- `Value("replicas")` stands for an option.
- `Items("extraArgs")` in a list adds the items of an option that is a list.
- `{When("extender"): {...}}` in a mapping adds these fields if the switch is on;
  `{When("extender"): [...]}` in a list adds these items.
- `Comment("why")` as a key or an item is a comment, above what follows.
- A text with several lines is written as a block.
"""

import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

Tree = Any


@dataclass(frozen=True)
class Value:
    """An option, by its name."""

    name: str


@dataclass(frozen=True)
class Items:
    """The items of an option that is a list, in another list."""

    name: str


@dataclass(frozen=True)
class ValueText:
    """A text that holds an option as YAML, as a ConfigMap holds a file."""

    name: str


@dataclass(frozen=True)
class When:
    """What follows is there only if a switch is on."""

    switch: str


@dataclass(frozen=True)
class Comment:
    """A comment: as a key of a mapping (with any value), or as an item of a list."""

    text: str


# ------------------------------------------------------------ resolving


def resolved(tree: Tree, options: Mapping[str, Any], switches: set[str]) -> Tree:
    """The tree with the values of options, and without what is switched off. Comments stay."""

    def resolve(node: Tree) -> Tree:
        match node:
            case Value():
                return options[node.name]
            case ValueText():
                return dumped(options[node.name])
            case dict():
                return dict(fields(node))
            case list():
                return list(items(node))
        return node

    def fields(node: Mapping[Any, Tree]) -> Iterator[tuple[Any, Tree]]:
        for key, value in node.items():
            if not isinstance(key, When):
                yield key, resolve(value)
            elif key.switch in switches:
                yield from fields(value)

    def items(node: list[Tree]) -> Iterator[Tree]:
        for item in node:
            conditional = conditional_items(item)
            if isinstance(item, Items):
                yield from options[item.name]
            elif conditional is None:
                yield resolve(item)
            elif conditional[0].switch in switches:
                yield from items(conditional[1])

    return resolve(tree)


def conditional_items(item: Tree) -> tuple[When, list[Tree]] | None:
    """The switch and the items, if an item of a list stands for items behind a switch."""
    if isinstance(item, dict) and len(item) == 1:
        ((key, value),) = item.items()
        if isinstance(key, When):
            return key, value
    return None


def without_comments(tree: Tree) -> Tree:
    """A resolved tree as the API server takes it."""
    match tree:
        case dict():
            return {
                key: without_comments(value)
                for key, value in tree.items()
                if not isinstance(key, Comment)
            }
        case list():
            return [without_comments(item) for item in tree if not isinstance(item, Comment)]
    return tree


# ------------------------------------------------------------ writing

COMMENT_WIDTH, MAX_FLOW_WIDTH = 90, 60
# While PyYAML writes, each special node is a plain text with this mark, on a line of its own.
_MARK = "⟦{} {}⟧"
_LINE = re.compile(
    r"^(?P<indent> *)(?P<dash>- )?(?P<key>[\w./-]+: )?['\"]?⟦(?P<what>\w+) (?P<text>.*)⟧['\"]?"
    r"(?:: null)?$"
)
_BLANK_INDENT = re.compile(r"^ +$", re.M)


class _Dumper(yaml.SafeDumper):
    """Writes texts with several lines as blocks, and no anchors, which are hard to read."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _represented_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", str(text), style=style)


def _represented_list(dumper: yaml.SafeDumper, items: list[Any]) -> yaml.SequenceNode:
    """Short words in one line; everything else, and what has a mark, in lines of its own."""
    are_words = all(isinstance(item, str) and "⟦" not in item for item in items)
    is_short = are_words and len(", ".join(items)) <= MAX_FLOW_WIDTH
    return dumper.represent_sequence("tag:yaml.org,2002:seq", items, flow_style=is_short)


# The first is for texts, the second for what derives from them.
_Dumper.add_representer(str, _represented_text)
_Dumper.add_multi_representer(str, _represented_text)
_Dumper.add_representer(list, _represented_list)


@dataclass(frozen=True)
class Expressions:
    """How a template of Helm names options and switches."""

    values: Mapping[str, str]
    switches: Mapping[str, str]
    structured: frozenset[str]
    """The options that are no scalars."""


NOTHING = Expressions({}, {}, frozenset())


def dumped(tree: Tree) -> str:
    """A resolved tree as YAML, with its comments."""
    return written(tree, NOTHING)


def written(tree: Tree, expressions: Expressions) -> str:
    """A tree as YAML or, if it holds options and switches, as a template of Helm."""
    text = yaml.dump(
        _marked(tree), Dumper=_Dumper, sort_keys=False, width=10_000, allow_unicode=True
    )
    lines = (_unmarked(line, expressions) for line in text.splitlines())
    return _BLANK_INDENT.sub("", "\n".join(lines) + "\n")


def _marked(tree: Tree) -> Tree:
    """The tree as PyYAML can write it."""
    match tree:
        case Value():
            return _MARK.format("value", tree.name)
        case ValueText():
            return _MARK.format("text", tree.name)
        case Items():
            return _MARK.format("items", tree.name)
        case dict():
            marked = list(_marked_fields(tree))
            # Two switches may not have the same fields: PyYAML could not write both.
            assert len(dict(marked)) == len(marked), f"a field appears twice: {marked}"
            return dict(marked)
        case list():
            return [marked for item in tree for marked in _marked_items(item)]
    return tree


def _marked_fields(tree: Mapping[Any, Tree]) -> Iterator[tuple[str, Tree]]:
    for key, value in tree.items():
        match key:
            case Comment():
                yield from ((mark, None) for mark in _comment_marks(key))
            case When():
                yield _MARK.format("if", key.switch), None
                yield from _marked_fields(value)
                yield _MARK.format("end", key.switch), None
            case _:
                yield key, _marked(value)


def _comment_marks(comment: Comment) -> list[str]:
    return [_MARK.format("comment", line) for line in textwrap.wrap(comment.text, COMMENT_WIDTH)]


def _marked_items(item: Tree) -> Iterator[Tree]:
    if isinstance(item, Comment):
        yield from _comment_marks(item)
        return
    conditional = conditional_items(item)
    if conditional is None:
        yield _marked(item)
        return
    when, items = conditional
    yield _MARK.format("if", when.switch)
    for inner in items:
        yield from _marked_items(inner)
    yield _MARK.format("end", when.switch)


def _unmarked(line: str, expressions: Expressions) -> str:
    """A line with what its mark stands for."""
    found = _LINE.match(line)
    if found is None:
        return line
    indent, text = found["indent"], found["text"].replace("''", "'")
    writers: dict[str, Callable[[], str]] = {
        "comment": lambda: f"{indent}# {text}",
        "if": lambda: f"{indent}{{{{- if {expressions.switches[text]} }}}}",
        "end": lambda: f"{indent}{{{{- end }}}}",
        "value": lambda: _with_value(found, expressions),
        "text": lambda: _with_text(found, expressions),
        "items": lambda: _with_items(found, expressions),
    }
    return writers[found["what"]]()


def _with_value(line: re.Match[str], expressions: Expressions) -> str:
    start = f"{line['indent']}{line['dash'] or ''}{line['key'] or ''}"
    expression = expressions.values[line["text"]]
    if line["text"] in expressions.structured:
        depth = len(line["indent"]) + len(line["dash"] or "") + 2
        return f"{start.rstrip()} {{{{- toYaml ({expression}) | nindent {depth} }}}}"
    return f"{start}{{{{ {expression} }}}}"


def _with_text(line: re.Match[str], expressions: Expressions) -> str:
    depth = len(line["indent"]) + 2
    expression = expressions.values[line["text"]]
    return f"{line['indent']}{line['key']}|\n{{{{ toYaml {expression} | indent {depth} }}}}"


def _with_items(line: re.Match[str], expressions: Expressions) -> str:
    indent, expression = line["indent"], expressions.values[line["text"]]
    lines = (f"with {expression}", f"toYaml . | nindent {len(indent)}", "end")
    return "\n".join(f"{indent}{{{{- {each} }}}}" for each in lines)
