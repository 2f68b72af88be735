"""A machine that cannot run real nodes is told why in one line."""

import os
from pathlib import Path

import pytest

from testcluster.realnodes import requirements
from testcluster.realnodes.cgroups import (
    Hierarchy,
    check_controllers,
    create_in,
    hierarchies_among,
)
from testcluster.realnodes.cpu_priority import cgroup_among, cpu_hierarchy
from testcluster.realnodes.requirements import missing_requirement
from testcluster.realnodes.tools import ToolError, ensure_unpacked, link_programs


def test_without_root_the_reason_is_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setattr("sys.platform", "linux")
    assert missing_requirement.__wrapped__() == "real nodes need root"


def test_elsewhere_than_on_linux_the_reason_is_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    assert missing_requirement.__wrapped__() == "real nodes need Linux, not darwin"


def test_a_cache_that_nodes_would_not_see_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/lib/builder")
    assert "below /var/lib" in missing_requirement.__wrapped__()


def test_programs_that_cannot_be_had_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def missing() -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        ensure_unpacked(["containerd", "runc"])

    with pytest.raises(ToolError, match=r"^containerd, runc missing, and no apt-get"):
        missing()
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr(requirements, "ensure_tools", missing)
    assert "containerd, runc missing" in missing_requirement.__wrapped__()


def test_programs_that_debian_links_when_it_installs_them_are_found(tmp_path: Path) -> None:
    programs = tmp_path / "usr" / "sbin"
    programs.mkdir(parents=True)
    (programs / "xtables-nft-multi").touch(mode=0o755)
    for name in ("iptables-nft", "iptables-nft-save", "iptables-nft-restore"):
        (programs / name).symlink_to("xtables-nft-multi")
    link_programs(tmp_path)
    for name in ("iptables", "iptables-save", "iptables-restore"):
        assert os.access(programs / name, os.X_OK), name


def test_controllers_are_enabled_above_a_cgroup_of_version_2(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    create_in(Hierarchy(tmp_path, is_unified=True), ("cluster",))
    assert (tmp_path / "cluster").is_dir()
    enabled = (tmp_path / "cgroup.subtree_control").read_text()
    assert enabled.split() == ["+cpu", "+cpuset", "+memory", "+pids"]


def test_controllers_that_version_2_lacks_are_named(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpu memory\n")
    with pytest.raises(OSError, match="lacks the controllers cpuset, pids"):
        create_in(Hierarchy(tmp_path, is_unified=True), ("cluster",))


@pytest.mark.parametrize("hidden", ["/run", "/var/lib", "/var/log"])
def test_temporary_files_that_nodes_would_not_see_are_refused(
    monkeypatch: pytest.MonkeyPatch, hidden: str
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr("tempfile.tempdir", f"{hidden}/builder")
    reason = f"real nodes cannot use temporary files below {hidden}: set TMPDIR"
    assert missing_requirement.__wrapped__() == reason


def test_a_link_to_a_place_that_nodes_would_not_see_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("sys.platform", "linux")
    (tmp_path / "link").symlink_to("/var/lib")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "link"))
    assert "below /var/lib" in missing_requirement.__wrapped__()


def test_controllers_that_version_1_lacks_are_named() -> None:
    mounts = """\
tmpfs /sys/fs/cgroup tmpfs rw,relatime,mode=755 0 0
cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,relatime,cpu,cpuacct 0 0
cgroup /sys/fs/cgroup/cpuset cgroup rw,relatime,cpuset 0 0
cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0
"""
    with pytest.raises(OSError, match=r"no hierarchy of version 1 is mounted for memory, pids$"):
        check_controllers(hierarchies_among(mounts))
    memory = "cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0\n"
    pids = "cgroup /sys/fs/cgroup/pids cgroup rw,relatime,pids 0 0\n"
    check_controllers(hierarchies_among(mounts + memory + pids))


def test_version_2_alone_needs_no_hierarchy_of_version_1() -> None:
    check_controllers(hierarchies_among("cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n"))


def test_a_process_is_found_in_the_hierarchy_that_shares_the_cpu_out() -> None:
    mounts = "cgroup /c/cpuset cgroup rw,cpuset 0 0\ncgroup /c/cpu cgroup rw,cpu,cpuacct 0 0\n"
    version_2 = "cgroup2 /c/unified cgroup2 rw 0 0\n"
    memberships = "3:cpuset:/\n2:cpu,cpuacct:/shop/web\n0::/user\n"
    version_1 = cpu_hierarchy(hierarchies_among(version_2 + mounts))
    assert version_1.root == Path("/c/cpu")
    assert cgroup_among(memberships, version_1) == "shop/web"
    assert cgroup_among(memberships, cpu_hierarchy(hierarchies_among(version_2))) == "user"
