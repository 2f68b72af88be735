"""Our program and its dependencies, for the architecture and the Python of the image."""

import subprocess
import sys
from importlib.metadata import Distribution, distributions
from pathlib import Path

from image.errors import ImageError

ROOT = Path(__file__).parent.parent
MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
"""By the name that Debian and images use: the name that wheels use."""
PYTHON_VERSION, ABIS = "3.11", ("cp311", "abi3", "none")
# All that the C library of the base can run.
MANYLINUX = ("2_34", "2_28", "2_27", "2_24", "2_17", "2014")


def install_packages(directory: Path, architecture: str) -> list[Distribution]:
    """Install into a directory; what is in it then."""
    machine = MACHINES[architecture]
    platforms = [
        f"--platform=manylinux{'' if name == '2014' else '_'}{name}_{machine}" for name in MANYLINUX
    ]
    binaries = [
        "--only-binary=:all:",
        "--implementation=cp",
        f"--python-version={PYTHON_VERSION}",
        *(f"--abi={abi}" for abi in ABIS),
        *platforms,
    ]
    locked = ["--require-hashes", "--requirement", str(ROOT / "requirements" / "runtime.txt")]
    pip("install", f"--target={directory}", "--no-deps", *binaries, *locked)
    pip("install", f"--target={directory}", "--no-deps", "--no-build-isolation", str(ROOT))
    return sorted(distributions(path=[str(directory)]), key=lambda found: found.name)


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
