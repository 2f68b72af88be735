"""Certificates and keys as files, for a module that reads them from files only."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def as_file(content: Path | bytes) -> Iterator[str]:
    """The path of a file with this content, which nobody else can read, until the block ends.

    On Linux it exists in memory only: a container may have no directory that it can write to.
    """
    if isinstance(content, Path):
        yield str(content)
    elif sys.platform == "linux":
        descriptor = os.memfd_create("credentials")
        with os.fdopen(descriptor, "wb") as memory:
            memory.write(content)
            memory.flush()
            yield f"/proc/self/fd/{descriptor}"
    else:
        with tempfile.NamedTemporaryFile() as file:
            file.write(content)
            file.flush()
            yield file.name
