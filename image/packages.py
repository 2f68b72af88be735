"""Our program and its dependencies, for the architecture and the Python of the image."""

import shutil
import subprocess
import sys
from importlib.metadata import Distribution, distributions
from pathlib import Path

from image.cache import kept
from image.errors import ImageError

ROOT = Path(__file__).parent.parent
REQUIREMENTS = ROOT / "requirements" / "runtime.txt"
MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
"""By the name that Debian and images use: the name that wheels use."""
PYTHON_VERSION, ABIS = "3.11", ("cp311", "abi3", "none")
# All that the C library of the base can run.
MANYLINUX = ("2_34", "2_28", "2_27", "2_24", "2_17", "2014")


def install_packages(directory: Path, architecture: str) -> list[Distribution]:
    """Install into a directory; what is in it then.

    The dependencies are locked, so those of an earlier build are the same.
    """
    options = dependency_options(architecture)
    made_from = [REQUIREMENTS.read_text(), *options]
    dependencies = kept(
        f"packages-{architecture}",
        made_from,
        lambda place: pip(
            "install", f"--target={place}", *options, f"--requirement={REQUIREMENTS}"
        ),
    )
    shutil.copytree(dependencies, directory)
    pip("install", f"--target={directory}", "--no-deps", "--no-build-isolation", str(ROOT))
    return sorted(distributions(path=[str(directory)]), key=lambda found: found.name)


def dependency_options(architecture: str) -> list[str]:
    """How pip finds the wheels for an architecture: those with the hashes that are locked."""
    machine = MACHINES[architecture]
    platforms = [
        f"--platform=manylinux{'' if name == '2014' else '_'}{name}_{machine}" for name in MANYLINUX
    ]
    return [
        "--no-deps",
        "--require-hashes",
        "--only-binary=:all:",
        "--implementation=cp",
        f"--python-version={PYTHON_VERSION}",
        *(f"--abi={abi}" for abi in ABIS),
        *platforms,
    ]


def pip(*arguments: str) -> None:
    """Run pip; raises with its error if it fails."""
    options = ("--quiet", "--disable-pip-version-check", "--no-compile")
    command, *rest = arguments
    done = subprocess.run(
        [sys.executable, "-m", "pip", command, *options, *rest],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise ImageError(f"pip {command}: {done.stderr.strip()}")
