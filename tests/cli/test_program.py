"""The program as a whole: its names, version, start-up, output errors."""

import re
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest

import rescheduler.cli.commands
from rescheduler.cli import program_name
from tests.cli.conftest import Result, StartProgram

Command = Callable[..., Result]

COMMANDS = Path(rescheduler.cli.commands.__file__).parent
CLUSTER = Path(__file__).parents[2] / "examples" / "uneven-cluster.yaml"
HEAVY = ("aiohttp", "jinja2", "kubernetes", "msgspec", "numpy", "rich", "yaml")


def test_kubectl_runs_it_under_another_name() -> None:
    assert program_name("/usr/local/bin/kubectl-reschedule") == "kubectl reschedule"
    assert program_name("/usr/local/bin/rescheduler") == "rescheduler"


def test_usage_shows_the_name_it_was_called_by(start_program: StartProgram) -> None:
    out, _ = start_program("--help", program="kubectl-reschedule").communicate()
    assert out.startswith(b"Usage: kubectl reschedule [OPTIONS] COMMAND")


def test_the_version_is_that_of_the_package(command: Command) -> None:
    result = command("--version")
    assert (result.code, result.out) == (0, version("kube-rescheduler") + "\n")


def test_without_a_command_the_commands_are_listed(command: Command) -> None:
    result = command()
    assert "plan" in result.out + result.err
    assert "snapshot" in result.out + result.err


def test_an_unknown_command_is_bad_usage(command: Command) -> None:
    result = command("dance")
    assert result.code == 2
    assert "No such command 'dance'" in result.err


def test_help_imports_no_heavy_package() -> None:
    """Start-up must be quick: a command imports what it needs when it runs."""
    script = (
        "import sys; from rescheduler.cli import run; run('rescheduler', ['--help']); "
        f"print([name for name in {HEAVY} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("file", sorted(COMMANDS.glob("*.py")), ids=lambda file: file.stem)
def test_commands_do_not_import_each_other(file: Path) -> None:
    """What two commands share is in a file of `cli/`, where both find it."""
    assert not re.search(r"^\s*(from|import) rescheduler\.cli\.commands", file.read_text(), re.M)


def test_a_closed_pipe_is_not_reported_as_an_error(start_program: StartProgram) -> None:
    for output in ("json", "table"):
        process = start_program("plan", "-s", CLUSTER, "-o", output)
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
        assert process.wait(120) == 1


def test_a_full_disk_is_reported_in_one_line() -> None:
    program = Path(sys.executable).with_name("rescheduler")
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [program, "plan", "-s", CLUSTER], stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert done.returncode == 2
    assert done.stderr == b"rescheduler: standard output: No space left on device\n"


def test_a_closed_standard_input_is_reported_in_one_line() -> None:
    program = Path(sys.executable).with_name("rescheduler")
    done = subprocess.run(
        f'"{program}" plan -s - <&-', shell=True, capture_output=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr == b"rescheduler: standard input: it is closed; expected a file\n"


def test_a_terminal_without_unicode_gets_ascii() -> None:
    program = Path(sys.executable).with_name("rescheduler")
    done = subprocess.run(
        [program, "plan", "-s", CLUSTER],
        env={"PYTHONIOENCODING": "ascii", "PATH": ""},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.isascii()
