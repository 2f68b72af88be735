"""Tokens in files, such as a ServiceAccount's, which the kubelet rotates."""

from pathlib import Path

from rescheduler.errors import CredentialsError
from rescheduler.kube.auth.authentication import Authentication, ClientIdentity, bearer
from rescheduler.kube.auth.certificate_files import ClientCertificateFiles

# How often a token file is read again, as client-go does. The kubelet rotates a token long
# before it expires, so a minute late is early enough.
TOKEN_FILE_SECONDS = 60.0


def token_file(
    path: Path, files: ClientCertificateFiles | None = None, fallback: str = ""
) -> Authentication:
    """A token that someone else replaces in a file now and then, perhaps next to a certificate.

    `fallback` is a token to use while the file cannot be read.
    """

    async def load() -> ClientIdentity:
        try:
            token = read_token(path)
        except CredentialsError:
            if not fallback:
                raise
            token = fallback
        certificate = None if files is None else files.current()
        return ClientIdentity(bearer(token, f"token file {path}"), certificate, TOKEN_FILE_SECONDS)

    return Authentication(load)


def read_token(path: Path) -> str:
    """The token in a file."""
    try:
        token = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise CredentialsError(f"token file {path}: expected a readable file: {error}") from error
    if not token:
        raise CredentialsError(f"token file {path}: expected a token, but it is empty")
    return token
