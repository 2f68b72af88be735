"""The command line: `commands/` has a file per command, `views/` what the commands print.

This package handles options, files, output and exit codes. What a command does is implemented in
the other packages and imported inside the command, because `--help` must appear at once. A new
command is a new file in `commands/` and a line in `application.py`.

Exit codes: 0 success, also if there was nothing to do; 1 the API server was unreachable or
refused a request; 2 an option or a file is not valid; 130 interrupted.
"""

import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path

FAILED, BAD_INPUT = 1, 2


def main() -> int:
    """Run the command line; the entry point of both programs."""
    program = program_name(sys.argv[0])
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = run(program, sys.argv[1:])
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        # The reader of our output has closed it, as `head` does.
        _discard_output()
        return FAILED
    except OSError as error:
        _discard_output()
        print(f"{program}: standard output: {error.strerror}", file=sys.stderr)
        return BAD_INPUT
    return code


def _discard_output() -> None:
    """Without this, Python prints a second error when it flushes standard output at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def program_name(path: str) -> str:
    """The name the user typed: kubectl runs `kubectl-reschedule` for `kubectl reschedule`."""
    return "kubectl reschedule" if Path(path).name == "kubectl-reschedule" else "rescheduler"


def run(program: str, arguments: Sequence[str]) -> int:
    """Run one command and return its exit code. Our own errors are printed without traceback."""
    from rescheduler.cli.application import application
    from rescheduler.cli.control_characters import escaped_lines
    from rescheduler.errors import ReschedulerError, SettingsError

    try:
        application(args=list(arguments), prog_name=program)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else FAILED
    except ReschedulerError as error:
        print(f"{program}: {escaped_lines(str(error))}", file=sys.stderr)
        return BAD_INPUT if isinstance(error, SettingsError) else FAILED
    return 0
