"""Build the image, and say how large it is."""

import argparse
import json
import platform
import sys
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

from image.base import build_base
from image.builders import BUILDERS, build, find_builder
from image.errors import ImageError
from image.packages import MACHINES, install_packages
from image.sbom import sbom

MEGABYTE = 1_000_000


def main() -> None:
    """Parse the arguments and build."""
    own = {machine: name for name, machine in MACHINES.items()}.get(platform.machine(), "amd64")
    project_version = version("kube-rescheduler")
    parser = argparse.ArgumentParser(prog="python -m image", description=__doc__)
    parser.add_argument("--arch", choices=[*MACHINES], default=own, help="of the image")
    parser.add_argument("--tag", default=f"rescheduler:{project_version}", help="its name")
    parser.add_argument("--builder", choices=[*BUILDERS], help="default: what is installed")
    chosen = parser.parse_args()
    try:
        builder = chosen.builder or find_builder()
        build_image(builder, chosen.arch, chosen.tag, project_version)
    except ImageError as error:
        sys.exit(f"The image cannot be built: {error}")


def build_image(builder: str, architecture: str, tag: str, project_version: str) -> None:
    """Collect what belongs into the image, and build it."""
    with TemporaryDirectory(prefix="rescheduler-image-") as directory:
        context = Path(directory)
        base, packages = context / "base.tar", context / "packages"
        system = build_base(base, architecture)
        python = install_packages(packages, architecture)
        content = sbom(project_version, system, python)
        (context / "sbom.json").write_text(json.dumps(content, indent=2))
        build(builder, context, tag, architecture, project_version)
        own_bytes = sum(file.stat().st_size for file in packages.rglob("*") if file.is_file())
        print(
            f"Built {tag} for {architecture} with {builder}: "
            f"{base.stat().st_size / MEGABYTE:.0f} MB of Debian's Python, "
            f"{own_bytes / MEGABYTE:.0f} MB of ours and its dependencies"
        )


if __name__ == "__main__":
    main()
