"""The program that makes an image of the files: docker, podman or buildah, whichever is there."""

import subprocess
from pathlib import Path
from shutil import which

from image.errors import ImageError

CONTAINERFILE = Path(__file__).parent / "Containerfile"

BUILDERS: dict[str, list[str]] = {
    "docker": ["docker", "build"],
    "podman": ["podman", "build"],
    # Nothing is run while the image is built, so nothing has to be isolated.
    "buildah": ["buildah", "bud", "--isolation", "chroot"],
}
"""By name: the beginning of the command that builds."""


def find_builder() -> str:
    """The first builder that is installed and works."""
    for name in BUILDERS:
        if which(name) is not None and works(name):
            return name
    raise ImageError(
        f"none of {', '.join(BUILDERS)} is installed and works; on Debian: apt-get install buildah"
    )


def works(name: str) -> bool:
    """Whether a builder can be used: docker may be there without its daemon."""
    return subprocess.run([name, "info"], capture_output=True, check=False).returncode == 0


def build(builder: str, context: Path, tag: str, architecture: str, version: str) -> None:
    """Build the image, and leave it in the builder's storage."""
    command = [
        *BUILDERS[builder],
        f"--file={CONTAINERFILE}",
        f"--tag={tag}",
        f"--platform=linux/{architecture}",
        f"--build-arg=VERSION={version}",
        str(context),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ImageError(f"{' '.join(command[:2])}: {done.stderr.strip() or done.stdout.strip()}")
