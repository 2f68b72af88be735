"""The commands, one file each.

Here is what a person at a terminal deals with: options, files, exit codes, pictures. What a
command does is somebody else's work; it is imported inside the command, because starting up must
take no longer than a keystroke. A new command is a new file, and a line in `application.py`.

Exit codes: 0 done, also if there was nothing to do; 1 the API server could not be reached or
refused; 2 something that was given to us cannot be used; 130 interrupted.
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
        # Whoever read our output has seen enough.
        _drop_output()
        return FAILED
    except OSError as error:
        _drop_output()
        print(f"{program}: standard output: {error.strerror}", file=sys.stderr)
        return BAD_INPUT
    return code


def _drop_output() -> None:
    """Python would complain when it flushes again at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def program_name(path: str) -> str:
    """How the user called us: kubectl runs `kubectl-reschedule` for `kubectl reschedule`."""
    return "kubectl reschedule" if Path(path).name == "kubectl-reschedule" else "rescheduler"


def run(program: str, arguments: Sequence[str]) -> int:
    """Run one command and say how it went. Errors that have a name are told without traceback."""
    from rescheduler.cli.application import application
    from rescheduler.errors import ReschedulerError, SettingsError

    try:
        application(args=list(arguments), prog_name=program)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else FAILED
    except ReschedulerError as error:
        print(f"{program}: {error}", file=sys.stderr)
        return BAD_INPUT if isinstance(error, SettingsError) else FAILED
    return 0
