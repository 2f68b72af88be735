"""Reads the files that users name, and writes files so that each is complete or absent."""

import gzip
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import BinaryIO

from rescheduler.errors import SettingsError

STANDARD = "-"


def read_input(name: str) -> tuple[str, bytes]:
    """The name of a file for messages, and its content; `-` is standard input."""
    try:
        if name == STANDARD and sys.stdin is None:
            raise SettingsError("standard input: it is closed; expected a file")
        if name == STANDARD:
            return "standard input", sys.stdin.buffer.read()
        return name, Path(name).read_bytes()
    except OSError as error:
        raise SettingsError(f"{name}: {error.strerror}") from error


@contextmanager
def output_to(name: str) -> Iterator[BinaryIO]:
    """A file to write to, which gets its name only when the block has ended without an error.

    A name that ends in `.gz` is packed; `-` is standard output. Only its owner may read
    the file: it has the names of everything in a cluster.
    """
    target = Path(name)
    if name != STANDARD and target.is_dir():
        raise SettingsError(f"{name}: it is a directory; expected a file")
    is_stream = name == STANDARD or (target.exists() and not target.is_file())
    try:
        with _draft_of_stream(name) if is_stream else _draft_of_file(target) as draft:
            yield draft
    except BrokenPipeError:
        raise
    except OSError as error:
        raise SettingsError(f"{name}: {error.strerror or error}") from error


@contextmanager
def _draft_of_stream(name: str) -> Iterator[BinaryIO]:
    with tempfile.TemporaryFile() as draft:
        yield draft
        draft.seek(0)
        with nullcontext(sys.stdout.buffer) if name == STANDARD else Path(name).open("wb") as out:
            shutil.copyfileobj(draft, out)
            out.flush()


@contextmanager
def _draft_of_file(target: Path) -> Iterator[BinaryIO]:
    with _replacing(target) as final:
        if target.suffix != ".gz":
            yield final
            return
        with tempfile.TemporaryFile(dir=target.parent) as draft:
            yield draft
            draft.seek(0)
            # Without a timestamp, so that the same cluster gives the same file.
            with gzip.GzipFile(fileobj=final, mode="wb", compresslevel=6, mtime=0) as packed:
                shutil.copyfileobj(draft, packed)


@contextmanager
def _replacing(target: Path) -> Iterator[BinaryIO]:
    """A new file that takes the target's place in one step, or is removed again."""
    descriptor, path = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(descriptor, "wb") as final:
            yield final
        Path(path).replace(target)
    except BaseException:
        Path(path).unlink(missing_ok=True)
        raise
