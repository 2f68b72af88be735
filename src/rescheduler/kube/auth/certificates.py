"""Certificates as the ssl module takes them: the authorities to trust, and our own.

Inline certificates are kept in memory, and never written to a disk.
"""

import ssl
from dataclasses import dataclass, field
from pathlib import Path

from rescheduler.errors import CredentialsError
from rescheduler.kube.auth.memory_files import as_file


@dataclass(frozen=True)
class ClientCertificate:
    """A certificate and its key: files, or PEM."""

    certificate: Path | bytes = field(repr=False)
    key: Path | bytes = field(repr=False)
    # Where it comes from, for messages.
    source: str = field(default="client certificate", compare=False)
    # Another one means that a file has new content.
    version: str = field(default="", repr=False)

    @property
    def is_in_files(self) -> bool:
        """Whether somebody may replace it."""
        return isinstance(self.certificate, Path) or isinstance(self.key, Path)


@dataclass(frozen=True)
class Trust:
    """Which server certificates to accept."""

    # The authorities to trust, as a file or as PEM; None for those of the system.
    authorities: Path | bytes | None = None
    # False only where a kubeconfig asks for it with insecure-skip-tls-verify.
    verify: bool = True
    # The name to expect in the server's certificate, where it is not that of the URL.
    server_name: str | None = None


def ssl_context(trust: Trust, source: str) -> ssl.SSLContext:
    """How to verify the server."""
    try:
        context = default_context(trust.authorities)
    except (OSError, ValueError) as error:
        if isinstance(trust.authorities, Path):
            what = f"{trust.authorities}: expected a readable file of PEM certificates"
        else:
            what = "inline data: expected PEM certificates"
        raise CredentialsError(f"{source}: certificate authority {what}: {error}") from error
    # From Python 3.13 on the strict mode is the default, and it refuses authorities that
    # kubectl accepts and that clusters are running with.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not trust.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def default_context(authorities: Path | bytes | None) -> ssl.SSLContext:
    """A context that trusts these authorities and no others."""
    if isinstance(authorities, bytes):
        # Comments between certificates may be in any encoding; the module takes ASCII only.
        return ssl.create_default_context(cadata=authorities.decode("ascii", errors="ignore"))
    return ssl.create_default_context(cafile=authorities)


def load_certificate(context: ssl.SSLContext, certificate: ClientCertificate) -> None:
    """Present `certificate` on new connections."""
    try:
        with as_file(certificate.certificate) as file, as_file(certificate.key) as key_file:
            # Without a password, OpenSSL would ask on the terminal for that of an encrypted key.
            context.load_cert_chain(file, key_file, password="")
    except (OSError, ValueError) as error:
        raise CredentialsError(
            f"{certificate.source}: expected a PEM certificate and its key: {error}"
        ) from error
