"""Log lines are lines, whatever is in their values."""

import logging
import sys

import pytest

from rescheduler.cli.log_format import KeyValueFormatter

HOSTILE = [chr(code) for code in (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x202E, 0x2066, 0xFEFF)]


def line(message: str, error: Exception | None = None, **fields: object) -> str:
    record = logging.makeLogRecord({"msg": message, "levelname": "INFO", "created": 0.0, **fields})
    if error is not None:
        try:
            raise error
        except type(error):
            record.exc_info = sys.exc_info()
    return KeyValueFormatter().format(record)


def test_a_line_has_the_time_the_level_the_message_and_the_fields() -> None:
    written = line("Updated a migration", pod="shop/cart", why="no room", nodes=2)
    assert written == (
        '1970-01-01T00:00:00.000000Z INFO Updated a migration pod=shop/cart why="no room" nodes=2'
    )


@pytest.mark.parametrize("character", HOSTILE, ids=ascii)
def test_characters_that_control_terminals_are_escaped(character: str) -> None:
    written = line(f"message{character}", value=f"value{character}[2J")
    assert written.isprintable()
    assert len(written.splitlines()) == 1


def test_escapes_show_which_character_it_was() -> None:
    written = line("a\rb", value="\x1b[2J", text="two\nlines", place="Grüße-東京")
    assert written.endswith(r'a\rb value=\x1b[2J text="two lines" place=Grüße-東京')


def test_a_line_break_in_an_error_begins_no_record() -> None:
    forged = "1970-01-01T00:00:00.000000Z ERROR forged"
    first, *rest = line("Failed", ValueError(f"x\n{forged}\x1b[2J")).split("\n")
    assert first.endswith("INFO Failed")
    assert all(part.startswith("  ") and part.isprintable() for part in rest)
    assert any(forged in part for part in rest)
