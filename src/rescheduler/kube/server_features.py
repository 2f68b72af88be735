"""What an API server of this version can do, as far as it matters to us."""

import logging
import re
from dataclasses import dataclass
from typing import NamedTuple, Self

import msgspec

from rescheduler.errors import ApiError
from rescheduler.kube.api_server import ApiServer

logger = logging.getLogger(__name__)

VERSION_PATH = "/version"


class ServerVersion(NamedTuple):
    """A version of Kubernetes. The patch version is left out: no feature depends on it."""

    major: int
    minor: int

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """The version in a text such as `v1.34.2-gke.100` or `1.36+`.

        None if there is none. A server that was built without a version calls itself v0.0.0.
        """
        found = re.match(r"v?(\d+)\.(\d+)", text.strip())
        version = cls(int(found[1]), int(found[2])) if found else None
        return version if version is not None and version.major > 0 else None

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


PLACING_VERSION = ServerVersion(1, 27)
"""The first version that can place a pod on a chosen node. Older ones drop the scheduling gate of a
new pod without a word, so that the pod is scheduled before its target is nominated."""


class VersionAnswer(msgspec.Struct, rename="camel"):
    """What the server says about its version. Some distributions write only parts of it."""

    git_version: str = ""
    major: str = ""
    minor: str = ""

    @property
    def version(self) -> ServerVersion | None:
        """The version of the API, or None if the server does not say."""
        return ServerVersion.parse(self.git_version) or ServerVersion.parse(
            f"{self.major}.{self.minor}"
        )


@dataclass(frozen=True, slots=True)
class ServerFeatures:
    """What the API server can do. A server of unknown version is taken for a new one."""

    version: ServerVersion | None = None

    @property
    def can_place_pods(self) -> bool:
        """Whether a new pod can be placed on a chosen node, as Handoff and Recreate need it."""
        return self.version is None or self.version >= PLACING_VERSION

    @property
    def placing_blocker(self) -> str | None:
        """Why no pod can be placed on a chosen node, or None if it can."""
        if self.can_place_pods:
            return None
        return (
            f"the API server is {self.version}, "
            f"placing a pod on a chosen node needs {PLACING_VERSION}"
        )


async def read_server_features(server: ApiServer) -> ServerFeatures:
    """Ask the server for its version. An error is logged, and its version stays unknown.

    Every authenticated user may ask, unless an administrator has taken that away.
    """
    try:
        answer = await server.get(VERSION_PATH, VersionAnswer)
    except ApiError as error:
        logger.warning("Failed to read the version of the API server", extra={"error": str(error)})
        return ServerFeatures()
    return ServerFeatures(answer.version)
