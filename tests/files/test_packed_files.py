"""Packed files are read, and what no cluster looks like is refused before it fills the memory."""

import gzip
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from rescheduler.files import documents
from rescheduler.files.bad_document import BadDocument
from rescheduler.files.documents import ALWAYS_BYTES, unpacked

COMMAND = Path(sys.executable).with_name("rescheduler")
MIB = 1 << 20


def bomb(megabytes: int) -> bytes:
    """What becomes so much, all of it white space between two brackets."""
    return gzip.compress(b"[" + b" " * (megabytes * MIB) + b"]", compresslevel=9)


def test_what_is_packed_is_what_it_was_before(tmp_path: Path) -> None:
    content = b"kind: List\n" * 300_000
    assert unpacked(gzip.compress(content)) == content
    assert unpacked(gzip.compress(content) + gzip.compress(b"a: b\n")) == content + b"a: b\n"
    assert unpacked(content) == content
    assert unpacked(gzip.compress(b"")) == b""


def test_what_becomes_far_more_than_a_cluster_is_refused_early() -> None:
    with pytest.raises(BadDocument, match="expected a cluster, which is packed to a 250th at best"):
        unpacked(bomb(300))


def test_little_may_become_much() -> None:
    """A small file that is well packed does no harm."""
    assert len(unpacked(bomb(ALWAYS_BYTES // MIB - 1))) < ALWAYS_BYTES


def test_more_than_there_is_memory_for_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "memory_bytes", lambda: 20.0 * MIB)
    with pytest.raises(BadDocument, match="expected at most half of the memory of this machine"):
        unpacked(bomb(12))


def test_a_command_says_what_is_wrong_in_little_memory(tmp_path: Path) -> None:
    """Three megabytes that become three gigabytes."""
    file = tmp_path / "cluster.json.gz"
    file.write_bytes(bomb(100) * 30)

    def limit_memory() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (1000 * MIB, 1000 * MIB))

    done = subprocess.run(
        [COMMAND, "plan", "--snapshot", file],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=limit_memory,
    )
    assert done.returncode == 2, done.stderr
    assert "expected a cluster" in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
