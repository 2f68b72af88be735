"""The result of this package: all that a connection needs to know."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from rescheduler.kube.auth.authentication import Authentication
from rescheduler.kube.auth.certificates import Trust


@dataclass(frozen=True)
class Credentials:
    """Where the API server is, how to trust it, and who we are to it."""

    server: str
    authentication: Authentication
    trust: Trust
    # Sent with every request, to act as somebody else. A name may appear several times.
    impersonation: Sequence[tuple[str, str]] = ()
    # Its URL may contain a password.
    proxy: str | None = field(default=None, repr=False)
    # Ask for gzip: see docs/designs/api-server.md for when that pays.
    compression: bool = False
    # Where all this comes from, for messages.
    source: str = "credentials"
