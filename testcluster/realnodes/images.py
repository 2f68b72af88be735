"""The images on the nodes: one static file, packed as `docker save` would."""

import hashlib
import io
import json
import platform
import tarfile
from pathlib import Path

PAUSE_IMAGE = "testcluster.local/pause:1"
TRAFFIC_IMAGE = "testcluster.local/traffic:1"
"""The web server. Its arguments are those of testcluster/go/traffic, beginning with `serve`."""
PROGRAM_PATH = "traffic"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def write_archive(program: Path, archive: Path) -> None:
    """Write an archive with both images, which share their only layer."""
    layer = tar({PROGRAM_PATH: program.read_bytes()})
    files = {"layer.tar": layer}
    manifest = []
    for image, entrypoint in (
        (PAUSE_IMAGE, [f"/{PROGRAM_PATH}", "pause"]),
        (TRAFFIC_IMAGE, [f"/{PROGRAM_PATH}"]),
    ):
        config = image_config(layer, entrypoint)
        name = f"{hashlib.sha256(config).hexdigest()}.json"
        files[name] = config
        manifest.append({"Config": name, "RepoTags": [image], "Layers": ["layer.tar"]})
    archive.write_bytes(tar({**files, "manifest.json": json.dumps(manifest).encode()}))


def image_config(layer: bytes, entrypoint: list[str]) -> bytes:
    """The configuration of an image with one layer."""
    machine = platform.machine()
    diff_ids = [f"sha256:{hashlib.sha256(layer).hexdigest()}"]
    config = {
        "os": "linux",
        "architecture": ARCHITECTURES.get(machine, machine),
        "config": {"Entrypoint": entrypoint},
        "rootfs": {"type": "layers", "diff_ids": diff_ids},
    }
    return json.dumps(config).encode()


def tar(files: dict[str, bytes]) -> bytes:
    """A tar archive of these files, all of them executable."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o755
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()
