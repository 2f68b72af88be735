"""The files that are kept in the user's cache between runs, and a lock for them."""

import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_directory() -> Path:
    """The directory with the binaries and the downloaded Go toolchain."""
    base = os.environ.get("XDG_CACHE_HOME")
    root = Path(base) if base else Path.home() / ".cache"
    return root / "kube-rescheduler" / "testcluster"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold `path` as a lock among processes; the system frees it even if this one is killed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report("Waiting for another process that builds the test cluster ...")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def report(text: str) -> None:
    """Print progress on standard error; standard output is for results."""
    print(text, file=sys.stderr, flush=True)
