"""Let processes that measure time go before all others that want the CPU.

A cgroup with the highest weight there is. Priorities (`nice`) would not do: where the system groups
processes by session, they only count within one.
"""

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from testcluster.realnodes import cgroups
from testcluster.realnodes.cgroups import Hierarchy

# All test processes use the same one, and the last of them removes it.
PREFERRED = "testcluster-preferred"
WEIGHT_FILE, HIGHEST_WEIGHT = "cpu.weight", "10000"
# Version 1 has another scale.
SHARES_FILE, MOST_SHARES = "cpu.shares", "262144"


@contextmanager
def before_all_others() -> Iterator[None]:
    """Within the block, this process and what it starts get the CPU whenever they want it.

    What was started stays so until it ends.
    """
    hierarchy = cpu_hierarchy(cgroups.hierarchies())
    cgroups.create_in(hierarchy, (PREFERRED,))
    prefer(hierarchy.root / PREFERRED)
    earlier = hierarchy.root / own_cgroup(hierarchy)
    move_here(hierarchy.root / PREFERRED)
    try:
        yield
    finally:
        move_here(earlier)


def extend_to(name: str) -> None:
    """If this process goes before all others, let the processes in another cgroup do so, too."""
    hierarchy = cpu_hierarchy(cgroups.hierarchies())
    if own_cgroup(hierarchy) == PREFERRED:
        prefer(hierarchy.root / name)


def prefer(cgroup: Path) -> None:
    """Give a cgroup the highest weight."""
    if (cgroup / SHARES_FILE).exists():
        (cgroup / SHARES_FILE).write_text(MOST_SHARES)
    else:
        (cgroup / WEIGHT_FILE).write_text(HIGHEST_WEIGHT)


def remove_if_unused() -> None:
    """Remove the cgroup unless another test process is using it."""
    with contextlib.suppress(OSError):
        for hierarchy in cgroups.hierarchies():
            if (hierarchy.root / PREFERRED).exists():
                (hierarchy.root / PREFERRED).rmdir()


def move_here(cgroup: Path) -> None:
    """Move this process, but none that it has started."""
    (cgroup / "cgroup.procs").write_text(str(os.getpid()))


def cpu_hierarchy(mounted: list[Hierarchy]) -> Hierarchy:
    """The hierarchy that shares the CPU out."""
    if cgroups.is_version_2(mounted):
        return mounted[0]
    return next(found for found in mounted if "cpu" in found.controllers and not found.is_unified)


def own_cgroup(hierarchy: Hierarchy) -> str:
    """Where this process is in a hierarchy."""
    return cgroup_among(Path("/proc/self/cgroup").read_text(), hierarchy)


def cgroup_among(memberships: str, hierarchy: Hierarchy) -> str:
    """The cgroup of one hierarchy in a process's list, which has one on each line."""
    for line in memberships.splitlines():
        number, controllers, path = line.split(":", 2)
        if number == "0" if hierarchy.is_unified else "cpu" in controllers.split(","):
            return path.strip("/")
    return ""
