"""Images of programs of this machine, packed as `docker save` would."""

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

PAUSE_IMAGE = "testcluster.local/pause:1"
TRAFFIC_IMAGE = "testcluster.local/traffic:1"
"""The web server. Its arguments are those of testcluster/go/traffic, beginning with `serve`."""
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True)
class Image:
    """Its name, and the command with which its containers begin."""

    name: str
    entrypoint: tuple[str, ...]


def write_traffic_archive(archive: Path, program: Path) -> None:
    """Write the archive with what every node has: the sandbox's pause, and the web server."""
    pause = Image(PAUSE_IMAGE, ("/traffic", "pause"))
    write_archive(archive, {"/traffic": program}, pause, Image(TRAFFIC_IMAGE, ("/traffic",)))


def write_archive(archive: Path, programs: Mapping[str, Path], *images: Image) -> None:
    """Write an archive with images of the same programs, given by their paths in there.

    The images share their only layer.
    """
    layer = archive.with_suffix(".layer")
    with tarfile.open(layer, "w") as files:
        for path, program in programs.items():
            files.add(program.resolve(), path.removeprefix("/"), filter=executable)
    with layer.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
    manifest = []
    with tarfile.open(archive, "w") as files:
        files.add(layer, "layer.tar")
        for image in images:
            config = image_config(digest, image.entrypoint)
            name = f"{hashlib.sha256(config).hexdigest()}.json"
            add_file(files, name, config)
            manifest.append({"Config": name, "RepoTags": [image.name], "Layers": ["layer.tar"]})
        add_file(files, "manifest.json", json.dumps(manifest).encode())
    layer.unlink()


def executable(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """An entry that every user may run, whoever owns the file on this machine."""
    entry.mode, entry.uid, entry.gid = 0o755, 0, 0
    return entry


def add_file(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    """Add a file with this content."""
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    archive.addfile(entry, io.BytesIO(content))


def image_config(layer_digest: str, entrypoint: tuple[str, ...]) -> bytes:
    """The configuration of an image with one layer."""
    machine = platform.machine()
    config = {
        "os": "linux",
        "architecture": ARCHITECTURES.get(machine, machine),
        "config": {"Entrypoint": entrypoint, "Env": ["PATH=/usr/local/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer_digest}"]},
    }
    return json.dumps(config).encode()
