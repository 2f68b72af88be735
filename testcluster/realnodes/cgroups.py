"""The cgroups of the nodes of a cluster: one tree, in each hierarchy of this machine."""

import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path

# What the kubelet sets limits with.
CONTROLLERS = ("cpu", "cpuset", "memory", "pids")
# In version 1, what it measures CPU with is a controller of its own.
CONTROLLERS_OF_VERSION_1 = ("cpu", "cpuacct", "cpuset", "memory", "pids")
CPUSET_FILES = ("cpuset.cpus", "cpuset.mems")
REMOVAL_SECONDS = 20.0


@dataclass(frozen=True)
class Hierarchy:
    """Where a hierarchy is mounted, and whether it is the unified one of version 2."""

    root: Path
    is_unified: bool
    controllers: frozenset[str] = frozenset()
    """Of version 1, with other options of the mount among them."""


def hierarchies() -> list[Hierarchy]:
    """The hierarchies mounted on this machine."""
    return hierarchies_among(Path("/proc/self/mounts").read_text())


def hierarchies_among(mounts: str) -> list[Hierarchy]:
    """The hierarchies in a list of mounts, which has one on each line."""
    found = []
    for line in mounts.splitlines():
        _, mount_point, kind, options, *_ = line.split()
        if kind in ("cgroup", "cgroup2"):
            controllers = frozenset(options.split(","))
            found.append(Hierarchy(Path(mount_point), kind == "cgroup2", controllers))
    return found


def is_version_2(mounted: list[Hierarchy]) -> bool:
    """Whether the unified hierarchy is the only one; beside others it has no controllers."""
    return all(hierarchy.is_unified for hierarchy in mounted)


def create(*path: str) -> None:
    """Create a cgroup below the root of each hierarchy that the kubelet uses."""
    mounted = hierarchies()
    check_controllers(mounted)
    for hierarchy in mounted:
        if not hierarchy.is_unified or is_version_2(mounted):
            create_in(hierarchy, path)


def check_controllers(mounted: list[Hierarchy]) -> None:
    """Raise if the kubelet would miss a hierarchy; that of version 2 is checked when it is used."""
    if not mounted:
        raise OSError("no cgroup hierarchy is mounted")
    if is_version_2(mounted):
        return
    there = {name for found in mounted if not found.is_unified for name in found.controllers}
    missing = [name for name in CONTROLLERS_OF_VERSION_1 if name not in there]
    if missing:
        raise OSError(f"no hierarchy of version 1 is mounted for {', '.join(missing)}")


def create_in(hierarchy: Hierarchy, path: tuple[str, ...]) -> None:
    """Create a cgroup and those above it, so that processes and limits can be put into it."""
    current = hierarchy.root
    for name in path:
        if hierarchy.is_unified:
            enable_controllers(current)
        child = current / name
        child.mkdir(exist_ok=True)
        if not hierarchy.is_unified:
            copy_cpuset(current, child)
        current = child


def enable_controllers(directory: Path) -> None:
    """Version 2: let the cgroups below this one have limits."""
    available = (directory / "cgroup.controllers").read_text().split()
    missing = [name for name in CONTROLLERS if name not in available]
    if missing:
        raise OSError(f"{directory} lacks the controllers {', '.join(missing)}")
    wanted = " ".join(f"+{name}" for name in CONTROLLERS)
    (directory / "cgroup.subtree_control").write_text(wanted)


def copy_cpuset(parent: Path, child: Path) -> None:
    """Version 1: a new cpuset is empty, and refuses processes until it is filled."""
    for name in CPUSET_FILES:
        if (parent / name).exists() and not (child / name).read_text().strip():
            (child / name).write_text((parent / name).read_text())


def remove(name: str) -> None:
    """Remove a cgroup and all below it everywhere; its processes may still be ending."""
    deadline = time.monotonic() + REMOVAL_SECONDS
    while not try_to_remove(name) and time.monotonic() < deadline:
        time.sleep(0.05)


def try_to_remove(name: str) -> bool:
    """Try once to remove a cgroup and all below it everywhere; returns whether all are gone."""
    are_gone = [remove_tree(hierarchy.root / name) for hierarchy in hierarchies()]
    return all(are_gone)


def remove_tree(top: Path) -> bool:
    """Try to remove it once, the innermost first; returns whether it is gone."""
    # Unlike a glob, a walk goes on where a directory goes away meanwhile.
    for directory, _, _ in os.walk(top, topdown=False):
        # Busy while a process in it is ending.
        with contextlib.suppress(OSError):
            Path(directory).rmdir()
    return not top.exists()


def leftovers(name: str) -> list[Path]:
    """Where a cgroup of this name still is."""
    roots = (hierarchy.root for hierarchy in hierarchies())
    return [root / name for root in roots if (root / name).exists()]
