"""The program as a whole: its names, its version, its start-up, its manners."""

import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from rescheduler.cli import program_name
from tests.cli.conftest import Result, Start

Command = Callable[..., Result]

CLUSTER = Path(__file__).parents[2] / "examples" / "uneven-cluster.yaml"
HEAVY = ("aiohttp", "jinja2", "kubernetes", "msgspec", "numpy", "rich", "yaml")


def test_kubectl_runs_it_under_another_name() -> None:
    assert program_name("/usr/local/bin/kubectl-reschedule") == "kubectl reschedule"
    assert program_name("/usr/local/bin/rescheduler") == "rescheduler"


def test_usage_shows_the_name_it_was_called_by(start: Start) -> None:
    out, _ = start("--help", program="kubectl-reschedule").communicate()
    assert out.startswith(b"Usage: kubectl reschedule [OPTIONS] COMMAND")


def test_the_version_is_that_of_the_package(command: Command) -> None:
    result = command("--version")
    assert (result.code, result.out) == (0, version("kube-rescheduler") + "\n")


def test_without_a_command_it_shows_what_there_is(command: Command) -> None:
    result = command()
    assert "plan" in result.out + result.err
    assert "snapshot" in result.out + result.err


def test_an_unknown_command_is_bad_usage(command: Command) -> None:
    result = command("dance")
    assert result.code == 2
    assert "No such command 'dance'" in result.err


def test_showing_help_loads_nothing_heavy() -> None:
    """Starting up must be quick: what a command needs is loaded when it runs."""
    script = (
        "import sys; from rescheduler.cli import run; run('rescheduler', ['--help']); "
        f"print([name for name in {HEAVY} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_reader_that_has_seen_enough_is_no_error(start: Start) -> None:
    for output in ("json", "table"):
        process = start("plan", "-s", CLUSTER, "-o", output)
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
        assert process.wait(20) == 1


def test_a_full_disk_is_told_in_a_line() -> None:
    program = Path(sys.executable).with_name("rescheduler")
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [program, "plan", "-s", CLUSTER], stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert done.returncode == 2
    assert done.stderr == b"rescheduler: standard output: No space left on device\n"


def test_a_closed_standard_input_is_told_in_a_line() -> None:
    program = Path(sys.executable).with_name("rescheduler")
    done = subprocess.run(
        f'"{program}" plan -s - <&-', shell=True, capture_output=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr == b"rescheduler: standard input: it is closed; expected a file\n"


def test_a_terminal_that_knows_no_unicode_gets_it_spelled_out() -> None:
    program = Path(sys.executable).with_name("rescheduler")
    done = subprocess.run(
        [program, "plan", "-s", CLUSTER],
        env={"PYTHONIOENCODING": "ascii", "PATH": ""},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.isascii()
