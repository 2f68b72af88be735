"""A fence in front of the API server: writes pass only while their sender may write.

The client asks twice. Before it opens a connection, it asks for how long the server may work on the
write. It asks again at the last moment, when the request is handed to the operating system.
"""

from typing import Protocol

from rescheduler.errors import ApiError


class WritePermit(Protocol):
    """What the client may do with one write."""

    server_seconds: float
    """How long the server may work on the write. The server is told, and gives up then."""
    refusal: ApiError | None
    """Why the request was not sent after all: `NotLeading`, or `Unavailable` to try again."""

    def send(self) -> None:
        """The request is about to be sent. Raises the refusal to stop it."""
        ...

    def answered(self) -> None:
        """The server has answered: the write has no effect from now on."""
        ...


class WriteFence(Protocol):
    """Decides whether writes may be sent."""

    def permit(self, call: str) -> WritePermit:
        """Permit the write that `call` describes, or raise `NotLeading`."""
        ...
