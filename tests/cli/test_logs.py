"""Log lines are lines, whatever is in their values, and name the migration that they are about."""

import asyncio
import json
import logging
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from rescheduler.cli.inputs import load_policy
from rescheduler.cli.log_options import Level, LogFormat, LogOptions
from rescheduler.cli.logs.json_format import JsonFormatter
from rescheduler.cli.logs.log_output import OWN_LOGGER, LogOutput
from rescheduler.cli.logs.text_format import KeyValueFormatter
from rescheduler.cli.signals import run_until_signalled
from rescheduler.log_context import MigrationFields, about_migration
from rescheduler.settings import LogLevel, Policy
from testcluster.waiting import wait_until
from tests.cli.conftest import StartProgram
from tests.migration.support import Sandbox, other_node

HOSTILE = [chr(code) for code in (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x202E, 0x2066, 0xFEFF)]


def line(message: str, error: Exception | None = None, **fields: object) -> str:
    return KeyValueFormatter().format(record(message, error, **fields))


def json_line(message: str, error: Exception | None = None, **fields: object) -> Any:
    written = JsonFormatter().format(record(message, error, **fields))
    assert written.isprintable()
    return json.loads(written)


def record(message: str, error: Exception | None = None, **fields: object) -> logging.LogRecord:
    record = logging.makeLogRecord({"msg": message, "levelname": "INFO", "created": 0.0, **fields})
    if error is not None:
        try:
            raise error
        except type(error):
            record.exc_info = sys.exc_info()
    return record


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


# ---------------------------------------------------------------- JSON


def test_a_json_line_has_the_time_the_level_the_message_the_logger_and_the_fields() -> None:
    written = json_line("Updated a migration", name="rescheduler.x", pod="shop/cart", nodes=2)
    assert list(written.items()) == [
        ("time", "1970-01-01T00:00:00.000000Z"),
        ("level", "info"),
        ("message", "Updated a migration"),
        ("logger", "rescheduler.x"),
        ("pod", "shop/cart"),
        ("nodes", 2),
    ]


@pytest.mark.parametrize("character", [*HOSTILE, '"', "\\", "東", "\udc80"], ids=ascii)
def test_whatever_is_in_a_value_comes_out_of_the_json_again(character: str) -> None:
    encoded = JsonFormatter().format(record("m", value=f"a{character}b"))
    # As standard error writes it.
    written = encoded.encode(errors="backslashreplace").decode()
    assert len(written.splitlines()) == 1
    assert json.loads(written)["value"] == f"a{character}b"


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (True, True),
        (None, None),
        (1.5, 1.5),
        (float("inf"), "inf"),
        (float("nan"), "nan"),
        (ValueError("x"), "x"),
        ({"a": 1}, "{'a': 1}"),
    ],
)
def test_every_value_is_valid_json(value: object, written: object) -> None:
    assert json_line("m", value=value)["value"] == written


def test_no_field_replaces_what_every_line_has() -> None:
    written = json_line("m", time="noon", level="high", logger="mine")
    assert (written["time"], written["level"]) == ("1970-01-01T00:00:00.000000Z", "info")


def test_a_traceback_is_one_field() -> None:
    written = json_line("Failed", ValueError("x\ny"))
    first, *_, last = written["traceback"].splitlines()
    assert (first, last) == ("Traceback (most recent call last):", "y")


# ---------------------------------------------------------------- levels


@pytest.fixture
def _restored_levels() -> Iterator[None]:
    loggers = logging.getLogger(), logging.getLogger(OWN_LOGGER)
    levels = [logger.level for logger in loggers]
    yield
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)


@pytest.mark.usefixtures("_restored_levels")
def test_a_level_in_the_policy_comes_first_and_that_of_the_options_comes_back() -> None:
    log = LogOutput(LogOptions(Level.WARNING))
    own, library = logging.getLogger("rescheduler.x"), logging.getLogger("library")
    log.follow(Policy(log_level=LogLevel.DEBUG))
    assert own.isEnabledFor(logging.DEBUG)
    assert not library.isEnabledFor(logging.DEBUG)
    assert library.isEnabledFor(logging.INFO)
    log.follow(Policy())
    assert not own.isEnabledFor(logging.INFO)
    assert not library.isEnabledFor(logging.INFO)


def test_options_and_policy_know_the_same_levels() -> None:
    assert list(map(str, Level)) == list(map(str, LogLevel))


# ---------------------------------------------------------------- migrations


def test_lines_name_the_migration_that_is_handled_and_no_other() -> None:
    def fields(**given: str) -> dict[str, object]:
        written = record("m", None, **given)
        assert MigrationFields().filter(written)
        return {key: written.__dict__.get(key) for key in ("migration", "migration_uid")}

    with about_migration("shop/a", "1"):
        assert fields() == {"migration": "shop/a", "migration_uid": "1"}
        assert fields(migration="shop/c")["migration"] == "shop/c"
        with about_migration("shop/b"):
            assert fields() == {"migration": "shop/b", "migration_uid": None}
        assert fields()["migration"] == "shop/a"
    assert fields()["migration"] is None


async def test_every_line_about_a_migration_has_its_name_and_uid_and_the_policy_sets_the_level(
    sandbox: Sandbox, start_program: StartProgram, tmp_path: Path
) -> None:
    """Standard error is a pipe, so the lines are JSON."""
    sandbox.add_nodes("a", "b")
    (old,) = sandbox.deploy("web", 1)
    policy = tmp_path / "policy.yaml"
    policy.write_text("enabledStrategies: []")
    access = ("--kubeconfig", sandbox.cluster.kubeconfig, "--no-leader-election")
    program = start_program("run", "--policy", policy, *access)
    lines = read_lines(program.stderr)

    async def logged(message: str) -> None:
        await asyncio.to_thread(wait_until, lambda: message in messages(lines), what=message)

    await logged("Finished a round")
    assert "debug" not in {line["level"] for line in lines}
    policy.write_text("{enabledStrategies: [], logLevel: debug}")
    program.send_signal(signal.SIGHUP)
    await logged("Reloaded the policy")
    name = sandbox.migrate(old, other_node(sandbox, old), reason="for the test")
    (status,) = await sandbox.finished(name)
    uid = sandbox.outside.get(sandbox.path("migrations", name))["metadata"]["uid"]
    own = f"{sandbox.namespace}/{name}"

    def finished() -> bool:
        return any(line.get("phase") == "Completed" for line in lines if line.get("pod"))

    await asyncio.to_thread(wait_until, finished, what="it is logged")
    words = (uid, name, old["metadata"]["name"], status["newPod"])
    about = [line for line in lines if any(word in json.dumps(line) for word in words)]
    steps = [line["step"] for line in about if "step" in line]
    assert ("Starting" in steps, "HandingOver" in steps) == (True, True), about
    assert "debug" in {line["level"] for line in about}, about
    assert {(line.get("migration"), line.get("migration_uid")) for line in about} == {(own, uid)}
    program.terminate()
    assert program.wait(60) == 0


def read_lines(stream: Any) -> list[dict[str, Any]]:
    """The lines of a log; the list grows as they are written."""
    lines: list[dict[str, Any]] = []

    def read() -> None:
        for line in stream:
            lines.append(json.loads(line))

    Thread(target=read, daemon=True).start()
    return lines


def messages(lines: list[dict[str, Any]]) -> list[str]:
    return [line["message"] for line in lines]


@pytest.mark.parametrize(
    ("is_terminal", "given", "is_json"),
    [
        (True, None, False),
        (False, None, True),
        (True, LogFormat.JSON, True),
        (False, LogFormat.TEXT, False),
    ],
)
@pytest.mark.usefixtures("_restored_levels")
def test_the_log_is_text_on_a_terminal_and_json_elsewhere_unless_an_option_says_so(
    monkeypatch: pytest.MonkeyPatch, is_terminal: bool, given: LogFormat | None, is_json: bool
) -> None:
    reading, writing = os.openpty() if is_terminal else os.pipe()
    with os.fdopen(writing, "w") as stderr, os.fdopen(reading, "rb", 0) as screen:
        monkeypatch.setattr(sys, "stderr", stderr)
        LogOutput(LogOptions(format=given)).start(Policy())
        logging.getLogger("rescheduler.x").info("Started", extra={"pod": "shop/a"})
        shown = screen.read(1000).decode()
    assert shown.startswith("{") == is_json
    assert ("pod=shop/a" in shown) != is_json


def test_the_error_that_ends_the_program_is_logged(
    tmp_path: Path, start_program: StartProgram
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    config = {
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        "users": [{"name": "c", "user": {"token": "t"}}],
        "current-context": "c",
    }
    kubeconfig.write_text(json.dumps(config))
    program = start_program(
        *("run", f"--kubeconfig={kubeconfig}", "--serve=127.0.0.1:0", f"--certificates={tmp_path}")
    )
    _, shown = program.communicate()
    lines = [json.loads(line) for line in shown.splitlines() if line.startswith(b"{")]
    (error,) = [line["error"] for line in lines if line["level"] == "error"]
    assert f"{tmp_path}/tls.crt: cannot be read" in error
    assert program.returncode == 2


class Surprised:
    """A program that ends by an error nobody thought of."""

    policy = Policy()

    async def run(self) -> None:
        raise KeyError("surprise")

    def stop(self) -> None:
        """Nothing to do."""


async def test_an_unexpected_error_that_ends_the_program_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises(KeyError):
        await run_until_signalled(Surprised(), load_policy(None), LogOutput(LogOptions()))
    (error,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "KeyError: 'surprise'" in json.loads(JsonFormatter().format(error))["traceback"]
