"""Build the test cluster's binaries once, and keep them in the user's cache.

The key of a binary in the cache is a hash of everything it depends on. A change of its sources or
of the Go version builds a new one, and going back finds the old one. The first build takes minutes,
and shows its progress.

`KUBERNETES=1.35` in the environment builds the servers and the nodes of an older version, from the
same Go sources with the modules in `go/versions/1.35.mod`. kwok, kubectl and the oracle stay those
of the newest version.
"""

import hashlib
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from testcluster.cache import cache_directory, locked, report
from testcluster.toolchain import SOURCES, BuildError, Toolchain, find_toolchain

# Without symbols a binary is a third smaller.
LINKER_FLAGS = "-s -w"
# Without it the API server calls itself v0.0.0.
VERSION_FLAG = "-X k8s.io/component-base/version.gitVersion="
KUBERNETES_VARIABLE = "KUBERNETES"
BINARY_NAME = "testcluster"
STAGES_NAME = "stages.yaml"
# Without a terminal (in a CI log), a line is printed this often.
LINE_INTERVAL_SECONDS = 20.0


@dataclass(frozen=True)
class Program:
    """One of the test cluster's Go programs: the folder of its module, and how it is built.

    It takes so many minutes on two idle cores if nothing is in Go's cache but what the programs
    before it in `build_all` share with it.
    """

    name: str
    title: str
    sources: Path
    minutes: int
    flags: tuple[str, ...] = ()
    package: str = "."
    modules: str = "go.mod"
    """The versions of its modules: a file in `sources`, with its checksums beside it."""
    version: str = ""
    """The version of Kubernetes that it reports as its own."""

    @property
    def list_flags(self) -> list[str]:
        """What selects its packages."""
        alternative = [] if self.modules == "go.mod" else [f"-modfile={self.modules}"]
        return [*alternative, *self.flags]

    @property
    def build_flags(self) -> list[str]:
        """Everything that the binary depends on besides its sources and the toolchain."""
        linker = f"{LINKER_FLAGS} {VERSION_FLAG}{self.version}" if self.version else LINKER_FLAGS
        return ["-trimpath", "-buildvcs=false", "-ldflags", linker, *self.list_flags]

    @property
    def files(self) -> list[Path]:
        """Its own files, which name the modules that it is built from."""
        modules = self.sources / self.modules
        named = [file for file in (modules, modules.with_suffix(".sum")) if file.exists()]
        folders = {self.sources, self.sources / self.package}
        return sorted([*named, *(file for folder in folders for file in folder.glob("*.go"))])


def kubernetes_version(modules: Path) -> str:
    """The version of Kubernetes among the modules, such as `v1.37.1`."""
    found = re.search(r"^\s+k8s\.io/kubernetes (v\S+)$", modules.read_text(), re.MULTILINE)
    assert found, f"{modules} requires Kubernetes"
    return found[1]


KUBERNETES_VERSION = kubernetes_version(SOURCES / "go.mod")
"""The newest version, which tests run on by default."""


def kubernetes_modules() -> str:
    """The modules of the version of Kubernetes that tests run on."""
    chosen = os.environ.get(KUBERNETES_VARIABLE) or KUBERNETES_VERSION
    if f"{KUBERNETES_VERSION}.".startswith(f"v{chosen.removeprefix('v')}."):
        return "go.mod"
    older = {file.stem: file for file in sorted(SOURCES.glob("versions/*.mod"))}
    if chosen not in older:
        newest = KUBERNETES_VERSION.removeprefix("v").rpartition(".")[0]
        expected = ", ".join([*older, newest])
        raise BuildError(f"{KUBERNETES_VARIABLE}={chosen}: expected one of {expected}")
    return str(older[chosen].relative_to(SOURCES))


def of_kubernetes(
    modules: str, name: str, title: str, minutes: int, tags: str = "", package: str = "."
) -> Program:
    """A program made of Kubernetes' own code."""
    version = kubernetes_version(SOURCES / modules)
    flags = ("-tags", tags) if tags else ()
    return Program(name, title, SOURCES, minutes, flags, package, modules, version)


def control_plane_program() -> Program:
    """The newest control plane, with kwok, kubectl and the oracle."""
    return of_kubernetes("go.mod", BINARY_NAME, "the test cluster", minutes=9)


def servers_program() -> Program:
    """The control plane that tests run on."""
    modules = kubernetes_modules()
    if modules == "go.mod":
        return control_plane_program()
    title = f"Kubernetes {kubernetes_version(SOURCES / modules)}"
    return of_kubernetes(modules, "servers", title, minutes=9, tags="servers")


def node_program() -> Program:
    """Kubelet and kube-proxy of the version that tests run on, for real nodes."""
    modules = kubernetes_modules()
    return of_kubernetes(modules, "node", "kubelet and kube-proxy", minutes=2, package="./node")


def traffic_program() -> Program:
    """The web server in the images of real nodes, and the load generator.

    These tags keep it from using the C library, which an image does not have.
    """
    flags = ("-tags", "netgo,osusergo")
    return Program("traffic", "the web server", SOURCES / "traffic", minutes=1, flags=flags)


def helm_program() -> Program:
    """Helm, for the tests of the chart."""
    return Program("helm", "Helm", SOURCES / "helm", minutes=4)


def prometheus_programs() -> list[Program]:
    """Prometheus and promtool, from one module; without service discovery, half of their code."""
    commands = "github.com/prometheus/prometheus/cmd"
    flags = ("-tags", "remove_all_sd")
    return [
        Program(name, title, SOURCES / "prometheus", minutes, flags, f"{commands}/{name}")
        for name, title, minutes in (("prometheus", "Prometheus", 4), ("promtool", "promtool", 1))
    ]


def ensure_binary() -> Path:
    """The newest control plane's binary; built now if it is not in the cache yet."""
    return ensure_program(control_plane_program())


def announce(programs: Sequence[Program]) -> None:
    """Say what has to be built first, and how long that takes at most."""
    toolchain = find_toolchain()
    missing = [each for each in programs if not cached_binary(toolchain, each).exists()]
    if missing:
        minutes = sum(each.minutes for each in missing)
        listed = ", ".join(f"{each.title} ({each.minutes} min)" for each in missing)
        report(f"Building once, in up to {minutes} minutes on two idle cores: {listed}.")


def ensure_program(program: Program) -> Path:
    """The program's binary; built now if it is not in the cache yet.

    If two processes need it at the same time, the second waits for the first to build it.
    """
    toolchain = find_toolchain()
    binary = cached_binary(toolchain, program)
    if not binary.exists():
        with locked(cache_directory() / "build.lock"):
            # The process that held the lock before may have built it.
            if not binary.exists():
                build(toolchain, program, binary)
    return binary


def cached_binary(toolchain: Toolchain, program: Program) -> Path:
    """Where the program's binary is, once it is built."""
    return cache_directory() / build_key(toolchain, program) / program.name


def build_key(toolchain: Toolchain, program: Program) -> str:
    """A name that changes with anything the binary depends on."""
    digest = hashlib.sha256()
    for part in (toolchain.version, toolchain.platform, *program.build_flags, program.package):
        digest.update(part.encode() + b"\0")
    for source in program.files:
        name = str(source.relative_to(program.sources))
        digest.update(name.encode() + b"\0" + source.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def build(toolchain: Toolchain, program: Program, binary: Path) -> None:
    """Build to a temporary name first, so that an interrupted build is never used."""
    report(f"Building {program.title} with {toolchain.version}: up to {program.minutes} min.")
    started = time.monotonic()
    binary.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=binary.parent) as scratch:
        unfinished = Path(scratch) / program.name
        run_go_build(toolchain, program, unfinished)
        if program.name == BINARY_NAME:
            write_stages(unfinished, binary.with_name(STAGES_NAME))
        unfinished.rename(binary)
    report(f"Built {binary} in {time.monotonic() - started:.0f} s.")


def run_go_build(toolchain: Toolchain, program: Program, output: Path) -> None:
    """Run `go build`, reporting each package that it names while it compiles."""
    progress = Progress(total=count_packages(toolchain, program))
    last_lines: deque[str] = deque(maxlen=25)
    options = [*program.build_flags, "-o", str(output)]
    command = [str(toolchain.go), "build", "-v", *options, program.package]
    with subprocess.Popen(
        command, cwd=program.sources, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            last_lines.append(line.rstrip())
            progress.advance(line.strip())
    progress.finish()
    if process.returncode != 0:
        output_end = "\n".join(last_lines)
        raise BuildError(
            f"go build failed in {program.sources}; the end of its output:\n{output_end}"
        )


def write_stages(binary: Path, stages: Path) -> None:
    """Write kwok's stages (how fake nodes and pods behave) next to the binary."""
    stages.write_bytes(
        subprocess.run([binary, "stages"], stdout=subprocess.PIPE, check=True).stdout
    )


def count_packages(toolchain: Toolchain, program: Program) -> int:
    """The number of packages in the binary; also downloads missing modules."""
    report("Counting its packages (and downloading missing sources) ...")
    listed = subprocess.run(
        [toolchain.go, "list", *program.list_flags, "-deps", program.package],
        cwd=program.sources,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode != 0:
        raise BuildError(f"go list failed in {program.sources}:\n{listed.stderr[-3000:].strip()}")
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
