"""Build the test cluster's binary once, and keep it in the user's cache.

The binary is kept under a key made of everything that shapes it, so a change of its sources or
of the Go version builds a new one, and going back finds the old one. The first build takes
minutes; it says how far it is.
"""

import hashlib
import subprocess
import sys
import tempfile
import time
from collections import deque
from pathlib import Path

from testcluster.cache import cache_directory, locked, say
from testcluster.toolchain import SOURCES, BuildError, Toolchain, find_toolchain

KUBERNETES_VERSION = "v1.36.3"
# Without the version the API server calls itself v0.0.0; without symbols it is a third smaller.
LINKER_FLAGS = f"-s -w -X k8s.io/component-base/version.gitVersion={KUBERNETES_VERSION}"
BUILD_FLAGS = ["-trimpath", "-buildvcs=false", "-ldflags", LINKER_FLAGS]
BINARY_NAME = "testcluster"
STAGES_NAME = "stages.yaml"
# What is not a terminal (a CI log) gets a line this often instead of one that changes in place.
LINE_INTERVAL_SECONDS = 20.0


def ensure_binary() -> Path:
    """The binary, built now if it is not in the cache yet.

    Two processes that need it at once do not both build it: the second waits for the first.
    """
    toolchain = find_toolchain()
    binary = cache_directory() / build_key(toolchain) / BINARY_NAME
    if not binary.exists():
        with locked(cache_directory() / "build.lock"):
            # Whoever held the lock before may have built it.
            if not binary.exists():
                build(toolchain, binary)
    return binary


def build_key(toolchain: Toolchain) -> str:
    """A name that changes with anything the binary depends on."""
    digest = hashlib.sha256()
    for part in (toolchain.version, toolchain.platform, *BUILD_FLAGS):
        digest.update(part.encode() + b"\0")
    for source in sorted([*SOURCES.glob("go.*"), *SOURCES.glob("*.go")]):
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def build(toolchain: Toolchain, binary: Path) -> None:
    """Build to a temporary name first, so that a build cut short is never taken for a binary."""
    say(f"Building the test cluster with {toolchain.version}; the first time takes minutes.")
    started = time.monotonic()
    binary.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=binary.parent) as scratch:
        unfinished = Path(scratch) / BINARY_NAME
        run_go_build(toolchain, unfinished)
        write_stages(unfinished, binary.with_name(STAGES_NAME))
        unfinished.rename(binary)
    say(f"Built {binary} in {time.monotonic() - started:.0f} s.")


def run_go_build(toolchain: Toolchain, output: Path) -> None:
    """Run `go build`, reporting each package that it names while it compiles."""
    progress = Progress(total=count_packages(toolchain))
    last_lines: deque[str] = deque(maxlen=25)
    command = [str(toolchain.go), "build", "-v", *BUILD_FLAGS, "-o", str(output), "."]
    with subprocess.Popen(command, cwd=SOURCES, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            last_lines.append(line.rstrip())
            progress.advance(line.strip())
    progress.finish()
    if process.returncode != 0:
        told = "\n".join(last_lines)
        raise BuildError(f"go build failed; the last it said in {SOURCES}:\n{told}")


def write_stages(binary: Path, stages: Path) -> None:
    """Keep what kwok's fake nodes and pods do beside the binary that carries it."""
    stages.write_bytes(
        subprocess.run([binary, "stages"], stdout=subprocess.PIPE, check=True).stdout
    )


def count_packages(toolchain: Toolchain) -> int:
    """How many packages the binary consists of; also downloads the modules, where missing."""
    say("Looking up its packages (downloading the sources that are missing) ...")
    listed = subprocess.run(
        [toolchain.go, "list", "-deps", "."],
        cwd=SOURCES,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode != 0:
        raise BuildError(f"go list failed in {SOURCES}:\n{listed.stderr[-3000:].strip()}")
    return len(listed.stdout.splitlines())


class Progress:
    """How many packages are compiled, as one changing line or as a plain line now and then."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.done = 0
        self.in_place = sys.stderr.isatty()
        self.started = self.last_shown = time.monotonic()

    def advance(self, package: str) -> None:
        """Count one more; what `go` says other than a package's name is not counted."""
        if ("/" not in package and not package.isalnum()) or " " in package:
            return
        self.done += 1
        now = time.monotonic()
        if now - self.last_shown >= (0.2 if self.in_place else LINE_INTERVAL_SECONDS):
            self.last_shown = now
            self.show(
                f"{self.done} of {self.total} packages, {now - self.started:.0f} s: {package}"
            )

    def show(self, text: str) -> None:
        """Write over the last line on a terminal, add a line elsewhere."""
        line = f"\r\033[K  {text[:90]}" if self.in_place else f"  {text}\n"
        print(line, end="", file=sys.stderr, flush=True)

    def finish(self) -> None:
        """Leave nothing half-written behind."""
        if self.in_place:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
