"""Certificates of our own making, kept in a Secret that all replicas share."""

import base64
import logging
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from rescheduler.errors import Conflict, NotFound, SettingsError
from rescheduler.extender.tls.certificates import Bundle, new_bundle, renewed
from rescheduler.extender.tls.key_pair import KeyPair
from rescheduler.extender.tls.serving_tls import ServingCredentials, Source, content
from rescheduler.kube.api_server import ApiServer, collection_path, object_path
from rescheduler.model.kinds import Kind
from rescheduler.model.objects import Identity, Part

logger = logging.getLogger(__name__)

MOST_CONFLICTS = 5


class Secret(Part, frozen=True):
    """A Secret, with its values in base64 as the server has them."""

    metadata: Identity
    data: dict[str, str] = {}


SECRET = Kind("Secret", "v1", "secrets", True, Secret)


class CertificateSecret(Source):
    """A Secret with certificates of our own making, shared by all replicas."""

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
            trusted = content(self._client_authority)
        return ServingCredentials(bundle.serving, bundle.trusted, trusted)

    async def _newest(self) -> Bundle:
        """What the Secret has, made or renewed first if need be.

        Several replicas may do so in the same moment; whoever comes second takes the first one's.
        """
        for _ in range(MOST_CONFLICTS):
            try:
                return await self._read_or_make()
            except Conflict:
                continue
        raise SettingsError(f"Secret {self._key}: somebody keeps changing it")

    async def _read_or_make(self) -> Bundle:
        namespace = self._key.partition("/")[0]
        try:
            secret = await self._server.get(object_path(SECRET, self._key), Secret)
        except NotFound:
            made = new_bundle(self._names, self._clock())
            await self._server.create(collection_path(SECRET, namespace), body(self._key, made))
            logger.info("Made certificates", extra={"secret": self._key})
            return made
        bundle = bundle_in(secret)
        try:
            fresh = renewed(bundle, self._names, self._clock())
        except ValueError as error:
            raise SettingsError(
                f"Secret {self._key}: holds no usable certificates: {error}"
            ) from error
        if fresh is not bundle:
            # What others have added to it stays.
            version = {"resourceVersion": secret.metadata.resource_version}
            patch = {"metadata": version, "data": data_of(fresh)}
            await self._server.patch(object_path(SECRET, self._key), patch)
            logger.info("Renewed certificates", extra={"secret": self._key})
        return fresh


FIELDS = ("ca.crt", "ca.key", "tls.crt", "tls.key", "client.crt", "client.key")


def body(key: str, bundle: Bundle) -> dict[str, Any]:
    """A new Secret as the server takes it."""
    namespace, _, name = key.partition("/")
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace},
        "type": "kubernetes.io/tls",
        "data": data_of(bundle),
    }


def data_of(bundle: Bundle) -> dict[str, str]:
    """What is in the Secret."""
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


def bundle_in(secret: Secret) -> Bundle:
    """The certificates in a Secret of ours."""
    key = secret.metadata.key
    missing = [field for field in FIELDS if field not in secret.data]
    if missing:
        raise SettingsError(
            f"Secret {key}: has no {missing[0]}; expected one that rescheduler has made, or none"
        )
    ca, ca_key, crt, crt_key, client, client_key = (
        base64.b64decode(secret.data[field]) for field in FIELDS
    )
    return Bundle(ca, ca_key, KeyPair(crt, crt_key), KeyPair(client, client_key))
