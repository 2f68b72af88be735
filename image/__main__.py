"""Build the image, and say how large it is."""

import argparse
import json
import platform
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

from image.base import ARCHIVE, DebianPackage, add_base
from image.builders import BUILDERS, build, find_builder
from image.errors import ImageError
from image.packages import MACHINES, install_packages
from image.sbom import sbom

MEGABYTE = 1_000_000
VERSION = version("kube-rescheduler")


def main() -> None:
    """Parse the arguments and build."""
    own = {machine: name for name, machine in MACHINES.items()}.get(platform.machine(), "amd64")
    parser = argparse.ArgumentParser(prog="python -m image", description=__doc__)
    parser.add_argument("--arch", choices=[*MACHINES], default=own, help="of the image")
    parser.add_argument("--tag", default=f"rescheduler:{VERSION}", help="its name")
    parser.add_argument("--builder", choices=[*BUILDERS], help="default: what is installed")
    parser.add_argument(
        "--kept-base",
        action="store_true",
        help="take Debian's packages from an earlier build, for tests: newer ones may be safer",
    )
    chosen = parser.parse_args()
    try:
        builder = chosen.builder or find_builder()
        with TemporaryDirectory(prefix="rescheduler-image-") as directory:
            context = Path(directory)
            system = add_base(context, chosen.arch, may_be_old=chosen.kept_base)
            build_image(builder, context, system, chosen.arch, chosen.tag)
    except ImageError as error:
        sys.exit(f"The image cannot be built: {error}")


def build_image(
    builder: str, context: Path, system: Sequence[DebianPackage], architecture: str, tag: str
) -> None:
    """Add what is ours to the context, which has the base already, and build the image."""
    packages = context / "packages"
    python = install_packages(packages, architecture)
    content = sbom(VERSION, system, python)
    (context / "sbom.json").write_text(json.dumps(content, indent=2))
    build(builder, context, tag, architecture, VERSION)
    own_bytes = sum(file.stat().st_size for file in packages.rglob("*") if file.is_file())
    print(
        f"Built {tag} for {architecture} with {builder}: "
        f"{(context / ARCHIVE).stat().st_size / MEGABYTE:.0f} MB of Debian's Python, "
        f"{own_bytes / MEGABYTE:.0f} MB of ours and its dependencies"
    )


if __name__ == "__main__":
    main()
