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
    control_plane_program,
    ensure_binary,
    ensure_program,
    kubernetes_version,
    node_program,
    servers_program,
)
from testcluster.pinning import modules
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
    write_modules(directory / "go.mod", "v1.99.1")
    (directory / "main.go").write_text("package main\n")
    monkeypatch.setattr(build, "SOURCES", directory)
    monkeypatch.setattr(toolchain, "SOURCES", directory)
    return directory


def write_modules(file: Path, kubernetes: str) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_text(
        f"module example\n\ngo 1.26.0\n\nrequire (\n\tk8s.io/kubernetes {kubernetes}\n)\n"
    )


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
        build_key(Toolchain(Path("go"), version, platform), control_plane_program())
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


def test_servers_and_nodes_of_an_older_kubernetes_are_built_if_the_environment_names_it(
    sources: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_modules(sources / "versions" / "1.98.mod", "v1.98.7")
    monkeypatch.setattr(build, "KUBERNETES_VERSION", "v1.99.1")
    for newest in ("", "1.99"):
        monkeypatch.setenv("KUBERNETES", newest)
        assert servers_program() == control_plane_program()
        assert node_program().version == "v1.99.1"
    monkeypatch.setenv("KUBERNETES", "1.98")
    for program in (servers_program(), node_program()):
        assert program.version == "v1.98.7"
        assert "-modfile=versions/1.98.mod" in program.build_flags
    assert control_plane_program().version == "v1.99.1"


def test_a_kubernetes_without_modules_is_refused_with_the_versions_that_there_are(
    sources: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_modules(sources / "versions" / "1.98.mod", "v1.98.7")
    monkeypatch.setattr(build, "KUBERNETES_VERSION", "v1.99.1")
    monkeypatch.setenv("KUBERNETES", "1.9")
    with pytest.raises(BuildError, match=r"^KUBERNETES=1\.9: expected one of 1\.98, 1\.99$"):
        servers_program()


def test_an_older_kubernetes_has_the_staging_modules_of_its_own_version() -> None:
    for file in [SOURCES / "go.mod", *SOURCES.glob("versions/*.mod")]:
        number = kubernetes_version(file).removeprefix("v1.")
        lines = [line.split() for line in file.read_text().splitlines() if "=>" in line]
        assert len(lines) > 30
        assert {line[3] for line in lines} == {f"v0.{number}"}


def test_the_modules_of_an_older_kubernetes_are_those_that_it_was_released_with() -> None:
    released = """
require go.etcd.io/etcd/server/v3 v3.6.5
replace (
\tk8s.io/api => ./staging/src/k8s.io/api
\tk8s.io/kubelet => ./staging/src/k8s.io/kubelet
)
"""
    written = modules("1.35.8", released).splitlines()
    assert "go.etcd.io/etcd/server/v3 v3.6.5" in written
    assert "k8s.io/kubernetes v1.35.8" in written
    for name in ("k8s.io/api", "k8s.io/kubelet"):
        assert f"{name} => {name} v0.35.8" in written
