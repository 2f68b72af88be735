"""Exchange an OIDC refresh token for a new identity token.

The identity provider gets a secret from us, so its certificate is always verified: against the
authority in the kubeconfig, or those of the system.
"""

import base64
import math
import ssl
import time
from collections.abc import Callable, Mapping
from typing import Any

import aiohttp
import msgspec

from rescheduler.errors import CredentialsError
from rescheduler.kube.watch_events import decoder_of

TIMEOUT_SECONDS = 30.0
# Header, claims and signature.
JWT_PARTS = 3


class Discovery(msgspec.Struct, frozen=True):
    """The part of a provider's description that we need."""

    token_endpoint: str


class Tokens(msgspec.Struct, frozen=True):
    """The provider's answer. Not every provider replaces the refresh token."""

    id_token: str
    refresh_token: str = ""


class Claims(msgspec.Struct, frozen=True):
    """The part of a token that we need: when it expires, in seconds since 1970."""

    exp: float = math.inf


def seconds_left(token: str | None) -> float:
    """How long an identity token is good for; one that we cannot read is not."""
    parts = (token or "").split(".")
    if len(parts) != JWT_PARTS:
        return -math.inf
    payload = parts[1]
    try:
        claims = base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4))
        return decoder_of(Claims).decode(claims).exp - time.time()
    except ValueError:
        return -math.inf


async def refreshed_tokens(
    config: Mapping[str, Any], absolute: Callable[[str], str]
) -> dict[str, str]:
    """What to change in the provider's part of the kubeconfig."""
    issuer = str(config.get("idp-issuer-url", "")).rstrip("/")
    if not config.get("refresh-token"):
        raise CredentialsError(
            f"OIDC provider {issuer}: the token has expired; "
            "expected a refresh-token in the kubeconfig to get a new one"
        )
    try:
        tokens = await ask(issuer, config, trusted(config, absolute))
    except (aiohttp.ClientError, TimeoutError, msgspec.DecodeError, OSError) as error:
        raise CredentialsError(
            f"OIDC provider {issuer}: could not refresh the token: {error}"
        ) from error
    changes = {"id-token": tokens.id_token, "refresh-token": tokens.refresh_token}
    return {key: value for key, value in changes.items() if value}


async def ask(issuer: str, config: Mapping[str, Any], context: ssl.SSLContext) -> Tokens:
    """Find the provider's token endpoint and ask it."""
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=context),
        timeout=aiohttp.ClientTimeout(total=TIMEOUT_SECONDS),
        raise_for_status=True,
    ) as session:
        async with session.get(f"{issuer}/.well-known/openid-configuration") as answer:
            discovery = decoder_of(Discovery).decode(await answer.read())
        client = aiohttp.encode_basic_auth(config["client-id"], config.get("client-secret") or "")
        form = {"grant_type": "refresh_token", "refresh_token": config["refresh-token"]}
        headers = {"Authorization": client}
        async with session.post(discovery.token_endpoint, data=form, headers=headers) as answer:
            return decoder_of(Tokens).decode(await answer.read())


def trusted(config: Mapping[str, Any], absolute: Callable[[str], str]) -> ssl.SSLContext:
    """Who may vouch for the provider."""
    if data := config.get("idp-certificate-authority-data"):
        return ssl.create_default_context(cadata=base64.b64decode(data).decode())
    if file := config.get("idp-certificate-authority"):
        return ssl.create_default_context(cafile=absolute(file))
    return ssl.create_default_context()
