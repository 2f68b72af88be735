"""Escapes for characters that control a terminal, begin a line or hide text.

Names, kinds and messages in a cluster are written by its tenants. Printed as they are, they could
change what an administrator sees: colors, the title of the window, lines that we never wrote.
"""

import json


def escaped(text: str) -> str:
    """The text in one line, with escapes for all characters that cannot be printed."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


def escaped_lines(text: str) -> str:
    """The text with its line breaks. Further lines are indented: none looks like one of ours."""
    return "\n  ".join(escaped(line) for line in text.split("\n"))


def escaped_json(text: str) -> str:
    """The same JSON, with escapes also for those of the characters that JSON allows in strings."""
    return "\n".join(
        line if line.isprintable() else "".join(map(_escaped_in_json, line))
        for line in text.split("\n")
    )


def _escaped_in_json(character: str) -> str:
    return character if character.isprintable() else json.dumps(character)[1:-1]
