"""The binary is built once, with a Go that is new enough, and failures are explained."""

from pathlib import Path

import pytest

from testcluster import build, toolchain
from testcluster.build import (
    BINARY_NAME,
    STAGES_NAME,
    Program,
    announce,
    build_key,
    ensure_binary,
    ensure_program,
)
from testcluster.toolchain import (
    SOURCES,
    BuildError,
    Toolchain,
    find_toolchain,
    version_numbers,
)


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "kube-rescheduler" / "testcluster"


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = tmp_path / "sources"
    directory.mkdir()
    (directory / "go.mod").write_text("module example\n\ngo 1.26.0\n")
    (directory / "main.go").write_text("package main\n")
    monkeypatch.setattr(build, "SOURCES", directory)
    monkeypatch.setattr(toolchain, "SOURCES", directory)
    return directory


def fake_go(directory: Path, version: str, on_build: str) -> Path:
    """A fake `go` command that counts how often it builds."""
    directory.mkdir(parents=True, exist_ok=True)
    go = directory / "go"
    go.write_text(
        f"""#!/bin/sh
case "$1" in
  env) printf '{version}\\nlinux\\namd64\\n' ;;
  list) printf 'a\\nb\\n' ;;
  build) echo built >> "{directory}/builds"
    while [ "$1" != -o ]; do shift; done
    {on_build} ;;
esac
"""
    )
    go.chmod(0o755)
    return go


def test_versions_compare_as_numbers() -> None:
    assert version_numbers("go1.26.10") > version_numbers("1.26.9")
    assert version_numbers("go1.27rc1") > version_numbers("1.26.0")


def test_the_go_on_the_path_is_used_if_it_is_new_enough(
    tmp_path: Path, sources: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = fake_go(tmp_path / "bin", "go1.26.1", "true")
    monkeypatch.setenv("PATH", str(go.parent), prepend=":")
    assert find_toolchain() == Toolchain(go, "go1.26.1", "linux-amd64")


def test_a_go_that_is_too_old_is_replaced_by_the_pinned_one(
    tmp_path: Path, sources: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = fake_go(tmp_path / "bin", "go1.25.9", "true")
    monkeypatch.setenv("PATH", str(old.parent), prepend=":")
    monkeypatch.setattr(
        toolchain,
        "install_go",
        lambda directory: fake_go(directory / "go" / "bin", "go1.26.6", "true"),
    )
    found = find_toolchain()
    assert found.version == "go1.26.6"
    assert own_cache in found.go.parents


def test_the_binary_is_built_once_for_the_same_sources(
    tmp_path: Path, sources: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = 'printf \'#!/bin/sh\\necho stages\\n\' > "$2"; chmod +x "$2"'
    go = fake_go(tmp_path / "bin", "go1.26.1", result)
    monkeypatch.setenv("PATH", str(go.parent), prepend=":")
    first = ensure_binary()
    assert ensure_binary() == first
    assert first.name == BINARY_NAME
    assert first.with_name(STAGES_NAME).read_text() == "stages\n"
    assert (go.parent / "builds").read_text() == "built\n"
    (sources / "main.go").write_text("package main // changed\n")
    assert ensure_binary() != first


def test_what_is_missing_is_announced_with_the_minutes_that_it_takes(
    tmp_path: Path,
    sources: Path,
    own_cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    result = 'printf \'#!/bin/sh\\n\' > "$2"; chmod +x "$2"'
    go = fake_go(tmp_path / "bin", "go1.26.1", result)
    monkeypatch.setenv("PATH", str(go.parent), prepend=":")
    programs = [Program(name, f"The {name}", sources, minutes=3) for name in ("one", "two")]
    announce(programs)
    expected = (
        "Building once, in up to 6 minutes on two idle cores: The one (3 min), The two (3 min)."
    )
    assert capfd.readouterr().err.splitlines() == [expected]
    for program in programs:
        ensure_program(program)
    capfd.readouterr()
    announce(programs)
    assert capfd.readouterr().err == ""


def test_the_key_depends_on_the_go_version_and_the_platform(sources: Path) -> None:
    keys = {
        build_key(Toolchain(Path("go"), version, platform))
        for version in ("go1.26.1", "go1.26.2")
        for platform in ("linux-amd64", "linux-arm64")
    }
    assert len(keys) == 4


def test_a_failed_build_shows_the_output_of_go_and_leaves_no_binary(
    tmp_path: Path, sources: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = fake_go(tmp_path / "bin", "go1.26.1", "echo 'main.go:1: syntax error' >&2; exit 1")
    monkeypatch.setenv("PATH", str(go.parent), prepend=":")
    with pytest.raises(BuildError, match=r"main\.go:1: syntax error"):
        ensure_binary()
    assert not list(own_cache.rglob(BINARY_NAME))


def test_what_kubelet_shares_with_the_control_plane_is_compiled_once() -> None:
    """Another version of one module means that whatever imports it is compiled again."""
    control_plane, nodes = (
        required_versions(folder / "go.mod") for folder in (SOURCES, SOURCES / "node")
    )
    shared = control_plane.keys() & nodes.keys()
    assert len(shared) > 100
    assert {name: nodes[name] for name in shared} == {name: control_plane[name] for name in shared}


def required_versions(module: Path) -> dict[str, str]:
    """By name of a module: its version, the one that replaces it if there is one."""
    words = [line.split() for line in module.read_text().splitlines()]
    required = {line[0]: line[1] for line in words if len(line) > 1 and line[1].startswith("v")}
    replaced = {line[0]: line[3] for line in words if "=>" in line}
    return required | replaced
