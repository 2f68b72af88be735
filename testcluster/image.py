"""Our image, on a base of Debian's packages, as an archive that the nodes of a cluster import.

The Dockerfile pulls its base from a registry of images, which tests do without. Base, layers and
archive are kept in the user's cache, apart from the images of whoever runs this.
"""

import hashlib
import os
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory

from image.builders import BUILDERS, ROOT, VERSION, ImageError, run
from testcluster.cache import cache_directory, locked, report

NAME = f"rescheduler:{VERSION}"
"""What our manifests call it, too."""
ARCHIVED_NAME = f"docker.io/library/{NAME}"
"""What containerd makes of that."""
STAGE = "build"
"""Of the Dockerfile."""
SOURCES = (
    *("Dockerfile", ".dockerignore", "image/assemble.py", "requirements"),
    *("pyproject.toml", "README.md", "LICENSE", "src"),
)
TOOLS = ("mmdebstrap", "buildah")
BASE_PACKAGES = "python3,python3-pip"
RELEASE = "bookworm"
BASE = f"localhost/rescheduler-base:{RELEASE}"
AUTHORITIES = "/etc/ssl/certs"


def missing_image_tool() -> str:
    """Why the image cannot be built here, or nothing."""
    if os.geteuid() != 0:
        return "images are built by root"
    missing = [name for name in TOOLS if which(name) is None]
    return f"{' and '.join(missing)} must be installed" if missing else ""


def ensure_image() -> Path:
    """The archive with our image as it is now; built if anything in it has changed."""
    if reason := missing_image_tool():
        raise ImageError(reason)
    archive = storage() / f"{digest()}.tar"
    with locked(storage() / "lock"):
        if not archive.exists():
            ensure_base()
            build_image()
            for old in storage().glob("*.tar*"):
                old.unlink()
            unfinished = archive.with_suffix(".tar.unfinished")
            buildah("push", "--quiet", NAME, f"docker-archive:{unfinished}:{ARCHIVED_NAME}")
            unfinished.rename(archive)
    return archive


def build_image() -> None:
    """Build the image, and keep the layers that the next one may have, too."""
    _, *build = BUILDERS["buildah"]
    trusted = f"--volume={AUTHORITIES}:{AUTHORITIES}:ro"
    options = (f"--build-arg=BASE={BASE}", f"--build-arg=VERSION={VERSION}", trusted)
    buildah(*build, f"--tag={STAGE}", f"--target={STAGE}", *options, str(ROOT))
    buildah(*build, f"--tag={NAME}", *options, str(ROOT))
    # Those of older images, which no tag leads to.
    buildah("rmi", "--prune")


def digest() -> str:
    """A name that changes with anything the image is built from."""
    found = hashlib.sha256(BASE_PACKAGES.encode())
    for name in SOURCES:
        path = ROOT / name
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file() and file.suffix != ".pyc":
                found.update(f"{file.relative_to(ROOT)}\0".encode() + file.read_bytes() + b"\0")
    return found.hexdigest()[:16]


def ensure_base() -> None:
    """Build the base, unless it was built before."""
    if BASE in buildah("images", "--format={{.Name}}:{{.Tag}}").split():
        return
    report("Building the base of the image from Debian's packages: up to 2 min.")
    with TemporaryDirectory(prefix="rescheduler-base-") as directory:
        files = Path(directory)
        options = ("--quiet", "--variant=minbase", f"--include={BASE_PACKAGES}", RELEASE)
        run("mmdebstrap", *options, str(files / "base.tar"))
        (files / "Dockerfile").write_text("FROM scratch\nADD base.tar /\n")
        buildah("bud", "--isolation=chroot", f"--tag={BASE}", directory)


def buildah(*arguments: str) -> str:
    """The output of buildah, with images of our own."""
    directory = storage()
    places = (f"--root={directory / 'images'}", f"--runroot={directory / 'run'}")
    return run("buildah", *places, *arguments)


def storage() -> Path:
    """Where all of it is kept."""
    return cache_directory() / "image"
