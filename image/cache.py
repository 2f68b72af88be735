"""What was built before is kept in the user's cache, under a hash of what it was made from."""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path


def cache_directory() -> Path:
    """Where parts of images are kept."""
    base = os.environ.get("XDG_CACHE_HOME")
    root = Path(base) if base else Path.home() / ".cache"
    return root / "kube-rescheduler" / "image"


def kept(kind: str, made_from: Iterable[str], build: Callable[[Path], None]) -> Path:
    """A directory that `build` has filled, now or before; those of other contents are deleted.

    It is filled under another name first, so that an interrupted build is never used.
    """
    digest = hashlib.sha256("\0".join(made_from).encode()).hexdigest()[:16]
    place = cache_directory() / f"{kind}-{digest}"
    if place.exists():
        return place
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent, prefix="unfinished-") as scratch:
        unfinished = Path(scratch) / "content"
        unfinished.mkdir()
        build(unfinished)
        for old in place.parent.glob(f"{kind}-*"):
            shutil.rmtree(old)
        unfinished.rename(place)
    return place
