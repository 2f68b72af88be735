"""Build the image with the builder that this machine has."""

import argparse
import sys

from image.builders import BUILDERS, VERSION, ImageError, build, find_builder


def main() -> None:
    """Parse the arguments and build."""
    parser = argparse.ArgumentParser(prog="python -m image", description=__doc__)
    parser.add_argument("--tag", default=f"rescheduler:{VERSION}", help="its name")
    parser.add_argument("--builder", choices=[*BUILDERS], help="default: what is installed")
    parser.add_argument("--base", help="the image to build on; default: what the Dockerfile says")
    parser.add_argument("--platform", help="for other machines, such as linux/arm64")
    chosen = parser.parse_args()
    options = [f"--build-arg=VERSION={VERSION}"]
    if chosen.base:
        options.append(f"--build-arg=BASE={chosen.base}")
    if chosen.platform:
        options.append(f"--platform={chosen.platform}")
    try:
        builder = chosen.builder or find_builder()
        build(builder, chosen.tag, *options)
    except ImageError as error:
        sys.exit(f"The image cannot be built: {error}")
    print(f"Built {chosen.tag} with {builder}.")


if __name__ == "__main__":
    main()
