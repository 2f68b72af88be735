"""Client certificates in files, which somebody replaces before they expire."""

import hashlib
import logging
import ssl
from dataclasses import replace
from pathlib import Path

from rescheduler.errors import CredentialsError
from rescheduler.kube.auth.certificates import ClientCertificate, load_certificate

logger = logging.getLogger(__name__)

# How often the files are read again, besides each time that the server rejects the certificate.
CERTIFICATE_FILE_SECONDS = 60.0


class ClientCertificateFiles:
    """A client certificate as it is now. Its key or the certificate itself may also be inline."""

    def __init__(self, named: ClientCertificate) -> None:
        self._named = named
        self._usable: ClientCertificate | None = None

    def current(self) -> ClientCertificate:
        """The certificate that the files hold.

        While they cannot be used, the one before: two files are not replaced in one instant.
        """
        try:
            found = replace(self._named, version=version_of(self._named))
            if found != self._usable:
                # Into a context that nobody uses: half of a pair that does not match would stay.
                load_certificate(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), found)
        except CredentialsError as error:
            if self._usable is None:
                raise
            logger.warning("Kept the old client certificate", extra={"error": str(error)})
            return self._usable
        if self._usable is not None and found != self._usable:
            logger.info("Loaded a new client certificate", extra={"source": found.source})
        self._usable = found
        return found


def version_of(certificate: ClientCertificate) -> str:
    """A text that changes whenever the content of one of its files does."""
    digest = hashlib.sha256()
    for part in (certificate.certificate, certificate.key):
        digest.update(hashlib.sha256(content_of(part, certificate.source)).digest())
    return digest.hexdigest()


def content_of(part: Path | bytes, source: str) -> bytes:
    """What a file holds."""
    if isinstance(part, bytes):
        return part
    try:
        return part.read_bytes()
    except OSError as error:
        raise CredentialsError(f"{source}: {part}: cannot be read: {error.strerror}") from error
