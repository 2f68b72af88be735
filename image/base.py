"""The base of the image: Python from Debian's packages, without a shell or any other program."""

import shutil
import subprocess
from pathlib import Path
from shutil import which
from typing import NamedTuple
from urllib.parse import unquote

from image.cache import kept
from image.errors import ImageError

RELEASE = "bookworm"
PYTHON = "python3.11"
INCLUDED = (PYTHON, "libstdc++6")
# `dpkg` and `tar` come as dependencies of libraries, and nobody runs them.
REMOVED = "usr/share/doc usr/share/man usr/share/info usr/share/locale usr/share/lintian"
ARCHIVE, LISTING = "base.tar", "base.packages"
USER = "nonroot:x:65532:65532:nonroot:/nonexistent:/usr/sbin/nologin"


class DebianPackage(NamedTuple):
    """A package that was unpacked into the base."""

    name: str
    version: str
    architecture: str


def add_base(context: Path, architecture: str, *, may_be_old: bool) -> list[DebianPackage]:
    """Put the base into the context of a build, as a tar archive; the packages in it.

    If it may be old, that of an earlier build is taken.
    """
    if may_be_old:
        made_from = base_command(Path(), architecture)
        kind = f"base-{architecture}"
        place = kept(kind, made_from, lambda place: build_base(place, architecture))
        shutil.copytree(place, context, dirs_exist_ok=True)
    else:
        build_base(context, architecture)
    names = (context / LISTING).read_text().split()
    return [package_of(name) for name in names if name.endswith(".deb")]


def build_base(directory: Path, architecture: str) -> None:
    """Build the base in a directory, from the packages that Debian has now."""
    if which("mmdebstrap") is None:
        raise ImageError("mmdebstrap is not installed; on Debian: apt-get install mmdebstrap")
    command = base_command(directory, architecture)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ImageError(f"mmdebstrap: {done.stderr.strip()}")


def base_command(directory: Path, architecture: str) -> list[str]:
    """The command that builds the base in a directory."""
    listing = directory / LISTING
    # The only hook of this variant. Nothing is installed, so what is deleted is not missed.
    clean_up = (
        f'cd "$1" && ls var/cache/apt/archives > {listing} && rm -rf {REMOVED} && '
        f"find bin sbin usr/bin usr/sbin ! -type d ! -name {PYTHON} -delete && "
        f'echo "{USER}" > etc/passwd && echo nonroot:x:65532: > etc/group'
    )
    return [
        "mmdebstrap",
        "--quiet",
        "--variant=extract",
        f"--architectures={architecture}",
        f"--include={','.join(INCLUDED)}",
        f"--extract-hook={clean_up}",
        RELEASE,
        str(directory / ARCHIVE),
    ]


def package_of(file: str) -> DebianPackage:
    """The package in a file such as `zlib1g_1%3a1.2.13_amd64.deb`."""
    name, version, architecture = file.removesuffix(".deb").split("_")
    return DebianPackage(name, unquote(version), architecture)
