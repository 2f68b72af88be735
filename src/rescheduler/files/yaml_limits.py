"""Refuse YAML that is too deep, or that aliases expand to far more than was written.

A text of a few lines can stand for billions of values: a list of ten aliases to a list of ten
aliases, and so on. The library shares what an alias stands for, but whoever reads the document
afterwards walks through all of it. So the size is computed first, from the anchors' sizes.
"""

from dataclasses import dataclass

from rescheduler.files.bad_document import BadDocument

# Far more than any Kubernetes object needs. The YAML library recurses in C as deep as the text
# does, without looking at the stack.
DEEPEST = 200
# Aliases may stand for so many values in any document, and for more in a long one: a large cluster
# file may well repeat one pod template per pod.
MOST_ALIASED = 1_000_000
MOST_ALIASED_PER_WRITTEN = 100


@dataclass
class _Part:
    """A value, with all that is inside."""

    anchor: str | None
    values: int = 1
    """How many values it is, with aliases replaced by what they stand for."""
    depth: int = 1
    """How many levels are inside one another, likewise."""

    def add(self, inner: "_Part") -> None:
        self.values += inner.values
        self.depth = max(self.depth, inner.depth + 1)


class _Measure:
    """Adds up the parts of one document while its events are read."""

    def __init__(self) -> None:
        self._open: list[_Part] = []
        self._anchored: dict[str, _Part] = {}
        self._written = 0
        self._aliased = 0

    def begin(self, anchor: str | None) -> None:
        """A mapping or a list begins."""
        self._written += 1
        self._open.append(_Part(anchor))
        self._check_depth(0)

    def end(self) -> None:
        """The innermost mapping or list is complete."""
        self._complete(self._open.pop())

    def scalar(self, anchor: str | None) -> None:
        """A value with nothing inside."""
        self._written += 1
        self._complete(_Part(anchor))

    def alias(self, name: str) -> None:
        """What an anchor stands for comes once more."""
        if any(part.anchor == name for part in self._open):
            raise BadDocument(f"the alias *{name} is inside of what it stands for")
        # The library has its own message for an alias without an anchor.
        part = self._anchored.get(name, _Part(None))
        self._check_depth(part.depth)
        self._written += 1
        self._aliased += part.values
        most = MOST_ALIASED + MOST_ALIASED_PER_WRITTEN * self._written
        if self._aliased > most:
            raise BadDocument(
                f"its aliases stand for more than {most} values; expected at most {MOST_ALIASED} "
                f"and {MOST_ALIASED_PER_WRITTEN} for each of the {self._written} values written"
            )
        if self._open:
            self._open[-1].add(part)

    def _complete(self, part: _Part) -> None:
        if part.anchor is not None:
            self._anchored[part.anchor] = part
        if self._open:
            self._open[-1].add(part)

    def _check_depth(self, further: int) -> None:
        if len(self._open) + further > DEEPEST:
            raise BadDocument(f"more than {DEEPEST} levels inside one another")


def check_limits(text: str) -> None:
    """Raise `BadDocument` if a document in a YAML text is too deep or too large when expanded."""
    import yaml

    measure = _Measure()
    for event in yaml.parse(text, yaml.CSafeLoader):
        match event:
            case yaml.DocumentStartEvent():
                measure = _Measure()
            case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                measure.begin(event.anchor)
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                measure.end()
            case yaml.ScalarEvent():
                measure.scalar(event.anchor)
            case yaml.AliasEvent():
                measure.alias(event.anchor or "")
