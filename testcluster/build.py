"""Build the test cluster's binary once, and keep it in the user's cache.

Its key in the cache is a hash of everything it depends on. A change of its sources or of the Go
version builds a new binary, and going back finds the old one. The first build takes minutes, and
shows its progress.
"""

import hashlib
import subprocess
import sys
import tempfile
import time
from collections import deque
from pathlib import Path

from testcluster.cache import cache_directory, locked, report
from testcluster.toolchain import SOURCES, BuildError, Toolchain, find_toolchain

KUBERNETES_VERSION = "v1.36.3"
# Without the version the API server calls itself v0.0.0; without symbols it is a third smaller.
LINKER_FLAGS = f"-s -w -X k8s.io/component-base/version.gitVersion={KUBERNETES_VERSION}"
BUILD_FLAGS = ["-trimpath", "-buildvcs=false", "-ldflags", LINKER_FLAGS]
BINARY_NAME = "testcluster"
STAGES_NAME = "stages.yaml"
# Without a terminal (in a CI log), a line is printed this often.
LINE_INTERVAL_SECONDS = 20.0


def ensure_binary() -> Path:
    """The binary; built now if it is not in the cache yet.

    If two processes need it at the same time, the second waits for the first to build it.
    """
    toolchain = find_toolchain()
    binary = cache_directory() / build_key(toolchain) / BINARY_NAME
    if not binary.exists():
        with locked(cache_directory() / "build.lock"):
            # The process that held the lock before may have built it.
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
    """Build to a temporary name first, so that an interrupted build is never used."""
    report(f"Building the test cluster with {toolchain.version}; the first time takes minutes.")
    started = time.monotonic()
    binary.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=binary.parent) as scratch:
        unfinished = Path(scratch) / BINARY_NAME
        run_go_build(toolchain, unfinished)
        write_stages(unfinished, binary.with_name(STAGES_NAME))
        unfinished.rename(binary)
    report(f"Built {binary} in {time.monotonic() - started:.0f} s.")


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
        output_end = "\n".join(last_lines)
        raise BuildError(f"go build failed in {SOURCES}; the end of its output:\n{output_end}")


def write_stages(binary: Path, stages: Path) -> None:
    """Write kwok's stages (how fake nodes and pods behave) next to the binary."""
    stages.write_bytes(
        subprocess.run([binary, "stages"], stdout=subprocess.PIPE, check=True).stdout
    )


def count_packages(toolchain: Toolchain) -> int:
    """The number of packages in the binary; also downloads missing modules."""
    report("Counting its packages (and downloading missing sources) ...")
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
    """Shows how many packages are compiled: in place on a terminal, else as a line now and then."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.done = 0
        self.in_place = sys.stderr.isatty()
        self.started = self.last_shown = time.monotonic()

    def advance(self, package: str) -> None:
        """Count a package; other output of `go` is not counted."""
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
        """Overwrite the last line on a terminal, else add a line."""
        line = f"\r\033[K  {text[:90]}" if self.in_place else f"  {text}\n"
        print(line, end="", file=sys.stderr, flush=True)

    def finish(self) -> None:
        """Clear the line on a terminal."""
        if self.in_place:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
