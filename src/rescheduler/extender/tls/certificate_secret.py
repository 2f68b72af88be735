"""Certificates that we issue, kept in a Secret that all replicas share."""

import base64
import logging
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from rescheduler.errors import Conflict, NotFound, SettingsError
from rescheduler.extender.tls.certificates import Bundle, new_bundle, renewed
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


class TlsSecret(Part, frozen=True):
    """A Secret, with its values in base64 as the API server has them."""

    metadata: Identity
    data: dict[str, str] = {}


SECRET = Kind("Secret", "v1", "secrets", True, TlsSecret)


class CertificateSecret(CertificateSource):
    """Reads the Secret, and creates or renews what is in it."""

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
        """What the Secret has; it is created or renewed first if necessary.

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
        namespace = self._key.partition("/")[0]
        try:
            secret = await self._server.get(object_path(SECRET, self._key), TlsSecret)
        except NotFound:
            bundle = new_bundle(self._names, self._clock())
            await self._server.create(collection_path(SECRET, namespace), body(self._key, bundle))
            logger.info("Issued certificates", extra={"secret": self._key})
            return bundle
        bundle = bundle_in(secret)
        try:
            fresh = renewed(bundle, self._names, self._clock())
        except ValueError as error:
            raise SettingsError(
                f"Secret {self._key}: holds no usable certificates: {error}"
            ) from error
        if fresh is not bundle:
            # A patch keeps what others have added.
            version = {"resourceVersion": secret.metadata.resource_version}
            patch = {"metadata": version, "data": data_of(fresh)}
            await self._server.patch(object_path(SECRET, self._key), patch)
            logger.info("Renewed certificates", extra={"secret": self._key})
        return fresh


FIELDS = ("ca.crt", "ca.key", "tls.crt", "tls.key", "client.crt", "client.key")


def body(key: str, bundle: Bundle) -> dict[str, Any]:
    """A new Secret to create."""
    namespace, _, name = key.partition("/")
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace},
        "type": "kubernetes.io/tls",
        "data": data_of(bundle),
    }


def data_of(bundle: Bundle) -> dict[str, str]:
    """The data of the Secret."""
    serving, client = bundle.serving, bundle.client
    values = (
        bundle.trusted,
        bundle.authority_key,
        serving.certificate,
        serving.key,
        client.certificate,
        client.key,
    )
    encoded = [base64.b64encode(value).decode() for value in values]
    return dict(zip(FIELDS, encoded, strict=True))


def bundle_in(secret: TlsSecret) -> Bundle:
    """The certificates in a Secret that we wrote."""
    key = secret.metadata.key
    missing = [field for field in FIELDS if field not in secret.data]
    if missing:
        raise SettingsError(
            f"Secret {key}: has no {missing[0]}; expected one that rescheduler has created, or none"
        )
    ca, ca_key, crt, crt_key, client, client_key = (
        base64.b64decode(secret.data[field]) for field in FIELDS
    )
    return Bundle(ca, ca_key, KeyPair(crt, crt_key), KeyPair(client, client_key))
