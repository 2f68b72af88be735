"""The directory of a cluster: who owns it, and how it is removed.

Its owner holds a lock on a file in it, which the system frees however the owner ends. A directory
whose lock is free was left by a killed process, and the next cluster that starts removes it. Logs
that were kept on purpose have no such file beside them, and stay.
"""

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import BinaryIO

from testcluster.realnodes import cgroups

PREFIX = "testcluster-"
LOCK = "owner.lock"
LOGS = "logs"
NODES = "nodes"
REMOVAL_SECONDS = 30.0


def create() -> tuple[Path, BinaryIO]:
    """A new directory, and the lock that marks it as in use until it is closed."""
    directory = Path(tempfile.mkdtemp(prefix=PREFIX))
    new = directory / f"{LOCK}.new"
    new.touch()
    lock = share_lock(new)
    # Whoever finds it by its name finds it locked.
    new.rename(directory / LOCK)
    return directory, lock


def join(directory: Path) -> BinaryIO:
    """The lock of another process's directory: it stays until both have closed it, or ended."""
    return share_lock(directory / LOCK)


def share_lock(file: Path) -> BinaryIO:
    """Open and lock a file; several processes can do that."""
    lock = file.open("rb")
    fcntl.flock(lock, fcntl.LOCK_SH)
    return lock


def remove_leftovers() -> None:
    """Remove the directories of clusters whose processes were killed, and their nodes' cgroups."""
    for lock in Path(tempfile.gettempdir()).glob(f"{PREFIX}*/{LOCK}"):
        # It is in use, or another process is removing it.
        with contextlib.suppress(OSError):
            if lock.parent.lstat().st_uid == os.geteuid() and not lock.parent.is_symlink():
                remove_if_left(lock)


def remove_if_left(lock: Path) -> None:
    """Remove the directory of a lock; raises BlockingIOError if that is held."""
    directory = lock.parent
    with lock.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        has_cgroups = (directory / NODES).exists()
        # Where processes are still ending, the next start tries again.
        if not has_cgroups or cgroups.try_to_remove(directory.name):
            remove(directory)


def remove(directory: Path) -> None:
    """Remove it, the lock last: if this is interrupted, the rest is still known as left over.

    Processes that are about to end may still write to it.
    """
    deadline = time.monotonic() + REMOVAL_SECONDS
    while directory.exists() and time.monotonic() < deadline:
        # Another process may remove it, too.
        with contextlib.suppress(FileNotFoundError):
            if clear(directory, {LOCK}):
                shutil.rmtree(directory, ignore_errors=True)
            else:
                time.sleep(0.05)


def keep_logs(directory: Path) -> None:
    """Remove everything else, the lock last."""
    clear(directory, {LOCK, LOGS})
    (directory / LOCK).unlink(missing_ok=True)


def clear(directory: Path, kept: set[str]) -> bool:
    """Remove everything but what has one of these names; returns whether all of it is gone."""
    for path in directory.iterdir():
        if path.name in kept:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    return {path.name for path in directory.iterdir()} <= kept
