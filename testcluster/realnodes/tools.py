"""The programs that a node needs besides Kubernetes: containerd, runc, CNI plugins, iptables.

Those that are missing on this machine are taken from Debian's packages, unpacked to the cache. The
system itself does not change.
"""

import hashlib
import os
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from testcluster.cache import cache_directory, locked, report

# Each is part of every Debian, and of most other systems.
BASE_PROGRAMS = ("mount", "nsenter", "setpriv", "sh", "unshare")
# Where they may be besides the PATH, which often has no sbin.
USUAL_DIRECTORIES = ("usr/local/sbin", "usr/local/bin", "usr/sbin", "usr/bin", "sbin", "bin")
CNI_DIRECTORIES = ("opt/cni/bin", "usr/lib/cni", "usr/libexec/cni")
PACKAGES = {
    "containerd": "containerd",
    "containerd-shim-runc-v2": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "ip": "iproute2",
    "iptables": "iptables",
    "bridge": "containernetworking-plugins",
    "host-local": "containernetworking-plugins",
    "loopback": "containernetworking-plugins",
}
CNI_PLUGINS = ("bridge", "host-local", "loopback")
# Debian links them when it installs iptables, so its package has only those that are linked to.
LINKS = {
    f"{program}{action}": f"{program}-nft{action}"
    for program in ("iptables", "ip6tables")
    for action in ("", "-save", "-restore")
}


class ToolError(Exception):
    """A program is missing and cannot be had; the message says which, and why."""


@dataclass(frozen=True)
class Tools:
    """Where the programs are: in the system, and the others below `unpacked`."""

    unpacked: Path | None

    def find(self, program: str) -> Path | None:
        """The program, from the system if it is there."""
        for directory in self.directories(program in CNI_PLUGINS):
            if os.access(directory / program, os.X_OK) and (directory / program).is_file():
                return directory / program
        return None

    def directories(self, of_cni: bool) -> list[Path]:
        """Where to look, the system first."""
        places = CNI_DIRECTORIES if of_cni else USUAL_DIRECTORIES
        roots = [Path("/"), *([self.unpacked] if self.unpacked else [])]
        on_path = [] if of_cni else os.environ.get("PATH", "").split(":")
        return [*map(Path, filter(None, on_path)), *(root / p for root in roots for p in places)]

    @property
    def cni_directory(self) -> Path:
        """The directory with the CNI plugins."""
        plugin = self.find("bridge")
        assert plugin is not None, "ensure_tools found it"
        return plugin.parent

    @property
    def env(self) -> dict[str, str]:
        """The variables with which they find each other, and the libraries unpacked with them."""
        variables = {"PATH": ":".join(map(str, self.directories(of_cni=False)))}
        if self.unpacked:
            libraries = {str(path.parent) for path in self.unpacked.rglob("*.so*")}
            if libraries:
                variables["LD_LIBRARY_PATH"] = ":".join(sorted(libraries))
            extensions = next(self.unpacked.glob("usr/lib/*/xtables"), None)
            if extensions:
                variables["XTABLES_LIBDIR"] = str(extensions)
        return variables


@cache
def ensure_tools() -> Tools:
    """All the programs; raises `ToolError` if one is missing and Debian does not have it."""
    system = Tools(None)
    for program in BASE_PROGRAMS:
        if system.find(program) is None:
            raise ToolError(f"the program {program} is missing")
    missing = sorted({PACKAGES[program] for program in PACKAGES if system.find(program) is None})
    if not missing:
        return system
    tools = Tools(ensure_unpacked(missing))
    for program in PACKAGES:
        if tools.find(program) is None:
            raise ToolError(f"Debian's package {PACKAGES[program]} has no program {program}")
    return tools


def ensure_unpacked(packages: list[str]) -> Path:
    """The directory to which the packages are unpacked, downloaded now if it is not there yet."""
    for program in ("apt-get", "dpkg"):
        if shutil.which(program) is None:
            names = ", ".join(packages)
            raise ToolError(f"{names} missing, and no {program} to get them from Debian with")
    key = hashlib.sha256(f"{release()} {packages} {LINKS}".encode()).hexdigest()[:16]
    directory = cache_directory() / f"debian-{key}"
    if not directory.exists():
        with locked(cache_directory() / "debian.lock"):
            # The process that held the lock before may have unpacked them.
            if not directory.exists():
                unpack(packages, directory)
    return directory


def release() -> str:
    """The system's name and version: packages of another one may not work here."""
    file = Path("/etc/os-release")
    return file.read_text() if file.exists() else ""


def unpack(packages: list[str], directory: Path) -> None:
    """Unpack to a temporary directory first, so that an incomplete one is never used."""
    report(f"Downloading Debian's {', '.join(packages)} to {directory} ...")
    started = time.monotonic()
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory.parent, prefix="debian-") as scratch:
        # apt-get gives up its rights while it downloads, and needs a directory to write to.
        Path(scratch).chmod(0o755)
        archives, root = Path(scratch) / "archives", Path(scratch) / "root"
        archives.mkdir()
        root.mkdir()
        run(["apt-get", "download", "--quiet", *with_dependencies(packages)], archives)
        for archive in archives.glob("*.deb"):
            run(["dpkg", "-x", str(archive), str(root)], archives)
        link_programs(root)
        root.rename(directory)
    report(f"Unpacked them in {time.monotonic() - started:.0f} s.")


def link_programs(root: Path) -> None:
    """Give programs the names that Debian gives them when it installs their packages."""
    for name, program in LINKS.items():
        for found in (root / place / program for place in USUAL_DIRECTORIES):
            if found.exists() and not found.with_name(name).exists():
                found.with_name(name).symlink_to(program)


def with_dependencies(packages: list[str]) -> list[str]:
    """The packages, and what else is not installed and has to come with them."""
    simulate = ["apt-get", "install", "--simulate", "--no-install-recommends", "--quiet"]
    lines = run([*simulate, *packages], Path("/")).splitlines()
    return [line.split()[1] for line in lines if line.startswith("Inst ")]


def run(command: list[str], directory: Path) -> str:
    """The output of a command; raises with its error if it fails."""
    env = {**os.environ, "LC_ALL": "C"}
    done = subprocess.run(
        command, cwd=directory, env=env, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        raise ToolError(f"{' '.join(command[:2])} failed: {' '.join(last)}")
    return done.stdout
