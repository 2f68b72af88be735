"""The program that builds the image: docker, podman or buildah, whichever is there and works."""

import subprocess
from importlib.metadata import version
from pathlib import Path
from shutil import which

ROOT = Path(__file__).parent.parent
VERSION = version("kube-rescheduler")

BUILDERS: dict[str, tuple[str, ...]] = {
    "docker": ("docker", "build"),
    "podman": ("podman", "build"),
    # What runs while the image is built needs no more isolation than a change of root.
    "buildah": ("buildah", "bud", "--isolation=chroot", "--layers"),
}
"""By name: the beginning of the command that builds."""


class ImageError(Exception):
    """The image cannot be built; the message says why, and what to do."""


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


def build(builder: str, tag: str, *options: str) -> None:
    """Build the image, and leave it in the builder's storage."""
    run(*BUILDERS[builder], f"--tag={tag}", *options, str(ROOT))


def run(*command: str) -> str:
    """The output of a command; raises with its error if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ImageError(f"{' '.join(command[:2])}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout.strip()
