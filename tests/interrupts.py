"""Commands that Ctrl-C ends, whoever started the tests."""

import sys
from pathlib import Path

# A shell without job control lets its background jobs ignore SIGINT, and their children inherit it.
_RUN = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])
"""


def interruptible(program: Path, *arguments: str | Path) -> list[str]:
    """The command line of a program that SIGINT reaches as it does in a terminal."""
    return [sys.executable, "-IS", "-c", _RUN, str(program), *map(str, arguments)]
