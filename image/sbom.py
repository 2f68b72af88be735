"""The list of everything in the image, as CycloneDX."""

from collections.abc import Sequence
from importlib.metadata import Distribution
from typing import Any
from urllib.parse import quote

from image.base import RELEASE, DebianPackage


def sbom(
    version: str, system: Sequence[DebianPackage], python: Sequence[Distribution]
) -> dict[str, Any]:
    """The list, with a package URL for each."""
    debian = [
        component(
            package.name,
            package.version,
            f"pkg:deb/debian/{quote(package.name)}@{quote(package.version, safe='')}"
            f"?arch={package.architecture}&distro={RELEASE}",
        )
        for package in system
    ]
    pypi = [
        component(found.name, found.version, f"pkg:pypi/{found.name.lower()}@{found.version}")
        for found in python
    ]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {"type": "container", "name": "rescheduler", "version": version}},
        "components": [*debian, *pypi],
    }


def component(name: str, version: str, url: str) -> dict[str, str]:
    """One package."""
    return {"type": "library", "name": name, "version": version, "purl": url, "bom-ref": url}
