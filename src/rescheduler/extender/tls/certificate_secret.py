"""Certificates that we issue, kept in Secrets that all replicas share.

One Secret holds what servers and schedulers need, and schedulers may mount it. The authority's own
key is in another one, named like the first with `-ca` at the end. Whoever has that key can issue
certificates for anyone.
"""

import base64
import logging
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from rescheduler.errors import Conflict, NotFound, SettingsError
from rescheduler.extender.tls.certificates import (
    Bundle,
    bundle_signed_by,
    first_certificate,
    new_authority,
    renewed,
    trusted_with,
)
from rescheduler.extender.tls.key_pair import KeyPair
from rescheduler.extender.tls.serving_tls import (
    CertificateSource,
    ServingCredentials,
    file_content,
)
from rescheduler.kube.api_server import ApiServer, collection_path, object_path
from rescheduler.model.kinds import Kind
from rescheduler.model.objects import Identity, Part

logger = logging.getLogger(__name__)

MOST_CONFLICTS = 5
AUTHORITY_SUFFIX = "-ca"


class TlsSecret(Part, frozen=True):
    """A Secret, with its values in base64 as the API server has them."""

    metadata: Identity
    data: dict[str, str] = {}


SECRET = Kind("Secret", "v1", "secrets", True, TlsSecret)


class CertificateSecret(CertificateSource):
    """Reads both Secrets, and creates or renews what is in them."""

    def __init__(
        self,
        server: ApiServer,
        key: str,
        names: Sequence[str],
        clock: Callable[[], datetime],
        client_authority: Path | None = None,
    ) -> None:
        self._server = server
        self._key = key
        self._authority_key = f"{key}{AUTHORITY_SUFFIX}"
        self._names = names
        self._clock = clock
        self._client_authority = client_authority

    async def load(self) -> ServingCredentials:
        bundle = await self._newest()
        trusted = bundle.trusted
        if self._client_authority is not None:
            trusted = file_content(self._client_authority)
        return ServingCredentials(bundle.serving, bundle.trusted, trusted)

    async def _newest(self) -> Bundle:
        """What the Secrets have; they are created or renewed first if necessary.

        Several replicas may try at the same time: those that come second use what the first wrote.
        """
        for _ in range(MOST_CONFLICTS):
            try:
                return await self._read_or_write()
            except Conflict:
                continue
        raise SettingsError(
            f"Secret {self._key}: changed by others {MOST_CONFLICTS} times in a row"
        )

    async def _read_or_write(self) -> Bundle:
        secret = await self._read(self._key)
        authority_secret = await self._read(self._authority_key)
        try:
            authority = authority_in(authority_secret) or old_authority_in(secret)
            bundle = self._bundle(secret, authority)
        except ValueError as error:
            raise SettingsError(
                f"Secret {self._key}: holds no usable certificates: {error}"
            ) from error
        # First, so that nothing is ever signed by an authority that would be lost.
        await self._write(self._authority_key, authority_secret, authority_data(bundle))
        await self._write(self._key, secret, data_of(bundle))
        return bundle

    def _bundle(self, secret: TlsSecret | None, authority: KeyPair | None) -> Bundle:
        """What both Secrets should hold."""
        names, now = self._names, self._clock()
        trusted = b""
        # Those that are installed with us are empty at first.
        if secret is not None and secret.data:
            trusted, serving, client = certificates_in(secret)
            if authority is not None and authority.certificate == first_certificate(trusted):
                return renewed(Bundle(trusted, authority.key, serving, client), names, now)
        # Nothing is there yet, one of the two Secrets is lost, or a renewal was interrupted.
        authority = authority or new_authority(now)
        trusted = trusted_with(authority, trusted) if trusted else authority.certificate
        return renewed(bundle_signed_by(authority, trusted, names, now), names, now)

    async def _read(self, key: str) -> TlsSecret | None:
        try:
            return await self._server.get(object_path(SECRET, key), TlsSecret)
        except NotFound:
            return None

    async def _write(self, key: str, secret: TlsSecret | None, data: dict[str, str]) -> None:
        """Create a Secret, or bring it up to date; nothing if it is."""
        if secret is None:
            namespace = key.partition("/")[0]
            await self._server.create(collection_path(SECRET, namespace), body(key, data))
            logger.info("Issued certificates", extra={"secret": key})
            return
        removed = dict.fromkeys(secret.data.keys() & OLD_FIELDS - data.keys())
        if removed or any(secret.data.get(field) != value for field, value in data.items()):
            # A patch keeps what others have added.
            version = {"resourceVersion": secret.metadata.resource_version}
            patch = {"metadata": version, "data": data | removed}
            await self._server.patch(object_path(SECRET, key), patch)
            message = "Renewed certificates" if secret.data else "Issued certificates"
            logger.info(message, extra={"secret": key})


FIELDS = ("ca.crt", "tls.crt", "tls.key", "client.crt", "client.key")
AUTHORITY_FIELDS = ("ca.crt", "ca.key")
OLD_FIELDS = {"ca.key"}
"""Earlier versions kept the authority's key next to what schedulers mount. It is moved away."""


def body(key: str, data: dict[str, str]) -> dict[str, Any]:
    """A new Secret to create."""
    namespace, _, name = key.partition("/")
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace},
        "type": "kubernetes.io/tls" if "tls.key" in data else "Opaque",
        "data": data,
    }


def data_of(bundle: Bundle) -> dict[str, str]:
    """The data of the Secret that servers and schedulers read."""
    serving, client = bundle.serving, bundle.client
    return encoded(
        FIELDS,
        (bundle.trusted, serving.certificate, serving.key, client.certificate, client.key),
    )


def authority_data(bundle: Bundle) -> dict[str, str]:
    """The data of the Secret that only we read."""
    return encoded(AUTHORITY_FIELDS, (bundle.authority.certificate, bundle.authority.key))


def encoded(fields: Sequence[str], values: Sequence[bytes]) -> dict[str, str]:
    """Fields of a Secret with their values in base64."""
    return {
        field: base64.b64encode(value).decode() for field, value in zip(fields, values, strict=True)
    }


def certificates_in(secret: TlsSecret) -> tuple[bytes, KeyPair, KeyPair]:
    """The trusted authorities, the serving and the client certificate in a Secret that we wrote."""
    trusted, crt, crt_key, client, client_key = (value_of(secret, field) for field in FIELDS)
    return trusted, KeyPair(crt, crt_key), KeyPair(client, client_key)


def authority_in(secret: TlsSecret | None) -> KeyPair | None:
    """The authority in the Secret that only we read."""
    if secret is None or not secret.data:
        return None
    certificate, key = (value_of(secret, field) for field in AUTHORITY_FIELDS)
    return KeyPair(first_certificate(certificate), key)


def old_authority_in(secret: TlsSecret | None) -> KeyPair | None:
    """The authority in a Secret that an earlier version wrote."""
    if secret is None or "ca.key" not in secret.data:
        return None
    return authority_in(secret)


def value_of(secret: TlsSecret, field: str) -> bytes:
    """The value of a field that must be there."""
    if field not in secret.data:
        raise SettingsError(
            f"Secret {secret.metadata.key}: has no {field}; "
            "expected one that rescheduler has created, or none"
        )
    return base64.b64decode(secret.data[field])
