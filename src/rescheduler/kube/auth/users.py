"""A kubeconfig's user: how they prove who they are, and whom they act as.

Where a user has several ways, the order is kubectl's: a token, a password or a client certificate
count more than an exec plugin, and a token file counts more than a token.
"""

import logging
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from rescheduler.kube.auth.authentication import (
    Authentication,
    ClientIdentity,
    basic,
    bearer,
    fixed,
    header_value,
)
from rescheduler.kube.auth.certificate_files import CERTIFICATE_FILE_SECONDS, ClientCertificateFiles
from rescheduler.kube.auth.certificates import ClientCertificate
from rescheduler.kube.auth.exec_plugin import ExecPlugin
from rescheduler.kube.auth.kubeconfig import ChosenContext, Entry, User
from rescheduler.kube.auth.token_file import token_file

logger = logging.getLogger(__name__)

# What a header's name may contain besides letters and digits. Anything else is sent as %XX.
HEADER_NAME_CHARACTERS = "!#$&'*+-.^_`|~"


def authentication_of(
    chosen: ChosenContext, server: str, *, silent: bool = False
) -> Authentication:
    """How this user proves who they are, and keeps doing so; if silent, without a terminal."""
    user = chosen.user
    refuse_auth_provider(user)
    authorization, certificate = authorization_of(user), certificate_of(user)
    files = None if certificate is None else ClientCertificateFiles(certificate)
    config = user.value.exec
    plugin = None if config is None else ExecPlugin(config, chosen, silent=silent)
    if not server.startswith("https:"):
        # As kubectl does: a secret is not sent where everyone can read it.
        logger.info(
            "Left out the credentials on a connection without TLS", extra={"source": chosen.source}
        )
        return fixed(ClientIdentity())
    if user.value.token_file:
        path = user.resolved(user.value.token_file)
        return token_file(path, files, fallback=user.value.token)
    if plugin is not None and not authorization and certificate is None:
        return Authentication(plugin.identity)
    if files is not None and certificate is not None and certificate.is_in_files:
        return certificate_in_files(authorization, files)
    return fixed(ClientIdentity(authorization, certificate))


def certificate_in_files(authorization: str, files: ClientCertificateFiles) -> Authentication:
    """A client certificate that someone else replaces now and then."""

    async def load() -> ClientIdentity:
        return ClientIdentity(authorization, files.current(), CERTIFICATE_FILE_SECONDS)

    return Authentication(load)


def refuse_auth_provider(user: Entry[User]) -> None:
    """Kubernetes has replaced auth providers by exec plugins."""
    provider = user.value.auth_provider
    if provider is None:
        return
    name = provider.get("name") if isinstance(provider, dict) else None
    raise user.error(
        "auth-provider",
        (f"{name!r}: " if isinstance(name, str) else "")
        + "no longer supported; expected an exec plugin instead, such as kubelogin for OIDC and "
        "Azure or gke-gcloud-auth-plugin for GKE",
    )


def authorization_of(user: Entry[User]) -> str:
    """The `Authorization` header, if the kubeconfig itself has what it takes."""
    entry = user.value
    if (entry.token or entry.token_file) and (entry.username or entry.password):
        field = "token" if entry.token else "tokenFile"
        raise user.error(field, "expected this or username and password, not both")
    if entry.token:
        return bearer(entry.token, user.place("token"))
    if entry.username or entry.password:
        return basic(entry.username, entry.password)
    return ""


def certificate_of(user: Entry[User]) -> ClientCertificate | None:
    """The client certificate, if there is one. A key alone is nothing, as in kubectl."""
    entry = user.value
    certificate = file_or_data(
        user, "client-certificate", entry.client_certificate, entry.client_certificate_data
    )
    if certificate is None:
        return None
    key = file_or_data(user, "client-key", entry.client_key, entry.client_key_data)
    if key is None:
        raise user.error("client-key", "missing, expected this or client-key-data")
    names = (part if isinstance(part, Path) else "inline data" for part in (certificate, key))
    source = user.place("client certificate {} with key {}".format(*names))
    return ClientCertificate(certificate, key, source)


def file_or_data(user: Entry[User], field: str, file: str, data: str) -> Path | bytes | None:
    """What one of two fields has, the one with a path and the one with base64."""
    if file and data:
        raise user.error(field, f"expected this or {field}-data, not both")
    if data:
        return user.decoded(f"{field}-data", data)
    return user.readable(field, file) if file else None


def impersonation_of(user: Entry[User]) -> Sequence[tuple[str, str]]:
    """The headers that ask the server to act as somebody else."""
    entry = user.value
    if not entry.as_user:
        if entry.as_uid or entry.as_groups or entry.as_user_extra:
            raise user.error("as", "missing, expected it with as-uid, as-groups and as-user-extra")
        return ()
    headers = [("as", "Impersonate-User", entry.as_user)]
    headers += [("as-uid", "Impersonate-Uid", entry.as_uid)] if entry.as_uid else []
    headers += [("as-groups", "Impersonate-Group", group) for group in entry.as_groups]
    headers += [
        ("as-user-extra", f"Impersonate-Extra-{quote(key, safe=HEADER_NAME_CHARACTERS)}", value)
        for key, values in entry.as_user_extra.items()
        for value in values
    ]
    return [(name, header_value(value, user.place(field))) for field, name, value in headers]
