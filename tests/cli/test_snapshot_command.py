"""`rescheduler snapshot`: writes a live cluster to a file, complete or not at all, no secrets."""

import asyncio
import gzip
import json
import signal
import socket
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from rescheduler.cli.connection import read_snapshot
from rescheduler.cli.options import ClusterAccess
from rescheduler.files.cluster_file import read_cluster, read_cluster_files
from rescheduler.model.kinds import KINDS
from testcluster import TestCluster
from testcluster.applying import apply
from testcluster.builders import pod
from tests.cli.conftest import Result, StartProgram

Command = Callable[..., Result]


@pytest.fixture
def silent_server() -> Iterator[socket.socket]:
    """A server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(120)
        yield server


def kubeconfig_for(directory: Path, port: int) -> Path:
    file = directory / "kubeconfig"
    file.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "x", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
                "users": [{"name": "x", "user": {"token": "none"}}],
                "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
                "current-context": "x",
            }
        )
    )
    return file


def test_the_file_agrees_with_kubectl_and_with_the_live_store(
    command: Command, quiet_cluster: TestCluster, tmp_path: Path
) -> None:
    file = tmp_path / "cluster.json"
    result = command("snapshot", "--kubeconfig", quiet_cluster.kubeconfig, "-o", file)
    assert (result.code, result.out, result.err) == (0, "", "")
    kinds = ",".join(f"{kind.plural}.{kind.api_version.rpartition('/')[0]}" for kind in KINDS)
    by_kubectl = quiet_cluster.kubectl("get", kinds.replace(".,", ","), "-A", "-o", "json")
    ours = read_cluster([("ours", file.read_bytes())])
    assert ours == read_cluster([("kubectl's", by_kubectl.encode())])
    assert ours == asyncio.run(read_snapshot(ClusterAccess(quiet_cluster.kubeconfig, None)))
    assert len(ours.pods) == 4


def test_the_file_says_when_it_was_written(
    command: Command, quiet_cluster: TestCluster, tmp_path: Path
) -> None:
    file = tmp_path / "cluster.json"
    before = datetime.now(UTC).replace(microsecond=0)
    assert command("snapshot", "--kubeconfig", quiet_cluster.kubeconfig, "-o", file).code == 0
    written_at = read_cluster_files([("x", file.read_bytes())]).written_at
    assert written_at is not None
    assert before <= written_at <= datetime.now(UTC)


def test_a_compressed_file_has_the_same_content(
    command: Command, quiet_cluster: TestCluster, tmp_path: Path
) -> None:
    plain, packed = tmp_path / "cluster.json", tmp_path / "cluster.json.gz"
    for file in (plain, packed):
        assert command("snapshot", "--kubeconfig", quiet_cluster.kubeconfig, "-o", file).code == 0
    # The first line says when it was written.
    (_, unpacked), (_, written) = (
        content.split(b"\n", 1)
        for content in (gzip.decompress(packed.read_bytes()), plain.read_bytes())
    )
    assert unpacked == written


def test_without_a_file_the_snapshot_goes_to_standard_output(
    command: Command, quiet_cluster: TestCluster
) -> None:
    result = command("snapshot", "--kubeconfig", quiet_cluster.kubeconfig)
    assert len(read_cluster([("-", result.out.encode())]).nodes) == 2


def test_nothing_confidential_is_written(command: Command, quiet_cluster: TestCluster) -> None:
    result = command("snapshot", "--kubeconfig", quiet_cluster.kubeconfig)
    assert "secretive" in result.out
    for word in ("confidential", "PASSWORD", "managedFields", "Secret"):
        assert word not in result.out


def test_an_anonymized_cluster_can_be_planned(
    command: Command, quiet_cluster: TestCluster, tmp_path: Path
) -> None:
    file = tmp_path / "cluster.json"
    kubeconfig = quiet_cluster.kubeconfig
    written = command("snapshot", "--anonymize", "--kubeconfig", kubeconfig, "-o", file)
    assert written.code == 0
    assert "these names were kept, all others replaced: " in written.err
    assert "kubernetes.io/hostname" in written.err
    assert "cart" not in written.err
    assert "cart" not in file.read_text()
    assert "shop" not in file.read_text()
    result = command("plan", "-s", file, "-o", "json")
    assert result.code == 0, result.err
    utilization = json.loads(result.out)["before"]["utilization"]
    live = command("plan", "--kubeconfig", kubeconfig, "-o", "json")
    assert utilization == json.loads(live.out)["before"]["utilization"]


def test_missing_permissions_are_reported(
    command: Command, quiet_cluster: TestCluster, tmp_path: Path
) -> None:
    file = tmp_path / "cluster.json"
    for arguments in (["snapshot", "-o", file], ["plan"]):
        result = command(*arguments, "--kubeconfig", quiet_cluster.powerless_kubeconfig)
        assert result.code == 1
        assert result.out == ""
        assert "cannot list resource" in result.err
        assert len(result.err.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_an_unreachable_server_is_reported_with_its_address(
    command: Command, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    kubeconfig = kubeconfig_for(tmp_path, port)
    file = tmp_path / "cluster.json"
    for arguments in (["snapshot", "-o", file], ["plan"]):
        result = command(*arguments, "--kubeconfig", kubeconfig)
        assert result.code == 1
        assert f"127.0.0.1:{port}" in result.err
        assert len(result.err.splitlines()) == 1
    assert list(tmp_path.iterdir()) == [kubeconfig]


def test_a_missing_kubeconfig_is_bad_input(command: Command, tmp_path: Path) -> None:
    result = command("snapshot", "--kubeconfig", tmp_path / "nowhere")
    assert result.code == 2
    assert "no such file" in result.err


def test_a_missing_directory_is_bad_input(
    command: Command, quiet_cluster: TestCluster, tmp_path: Path
) -> None:
    file = tmp_path / "nowhere" / "cluster.json"
    result = command("snapshot", "--kubeconfig", quiet_cluster.kubeconfig, "-o", file)
    assert result.code == 2
    assert "No such file or directory" in result.err


def test_an_existing_file_is_kept_after_a_failure(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "cluster.json"
    file.write_text("precious")
    assert command("snapshot", "--kubeconfig", tmp_path / "nowhere", "-o", file).code == 2
    assert file.read_text() == "precious"
    assert list(tmp_path.iterdir()) == [file]


def test_ctrl_c_ends_it_quietly_and_leaves_no_file(
    start_program: StartProgram, silent_server: socket.socket, tmp_path: Path
) -> None:
    kubeconfig = kubeconfig_for(tmp_path, silent_server.getsockname()[1])
    process = start_program("snapshot", "--kubeconfig", kubeconfig, "-o", tmp_path / "cluster.json")
    connection, _ = silent_server.accept()
    with connection:
        assert connection.recv(1), "it requests the first kind, and waits"
        assert len(list(tmp_path.iterdir())) == 2, "there is a temporary file"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
    assert (process.returncode, out, err) == (130, b"", b"")
    assert list(tmp_path.iterdir()) == [kubeconfig]


def test_a_pod_whose_node_is_missing_is_left_out(
    command: Command, quiet_cluster: TestCluster, tmp_path: Path
) -> None:
    file = tmp_path / "cluster.json"
    apply(quiet_cluster, pod("shop/orphan", on="no-longer-there"))
    try:
        result = command("snapshot", "--kubeconfig", quiet_cluster.kubeconfig, "-o", file)
    finally:
        quiet_cluster.client.delete("/api/v1/namespaces/shop/pods/orphan?gracePeriodSeconds=0")
    assert result.code == 0, result.err
    assert "orphan" not in file.read_text()
    assert command("plan", "-s", file).code == 0
