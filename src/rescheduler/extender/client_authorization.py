"""Who may call us: clients with a certificate of our CA. Only schedulers may change anything."""

import logging
import ssl
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any

from aiohttp import web

from rescheduler.extender.tls.serving_tls import ServingContext
from rescheduler.serving.refusals import error_response

logger = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Certificate = Mapping[str, Any]
"""A client's certificate, as the ssl module describes it."""

KUBE_SCHEDULERS = ("kube-scheduler", "system:kube-scheduler")
"""The name in the certificate that we issue, and that of a scheduler in its own certificate."""

# We renew after two thirds of the lifetime. A client whose certificate is older than that has a
# copy that nobody renews.
OLD_AFTER = 0.75
WARN_AGAIN_SECONDS = 86_400.0
MOST_REMEMBERED = 1000


class ClientAuthorization:
    """Checks the certificates of clients."""

    def __init__(
        self,
        tls: ServingContext,
        schedulers: Collection[str] = KUBE_SCHEDULERS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._tls = tls
        self._schedulers = schedulers
        self._clock = clock
        self._warned: dict[tuple[str, bool], float] = {}
        """When a warning was logged, by serial number and whether the certificate had expired."""

    def require_certificate(self, handle: Handler) -> Handler:
        """Refuse clients without a certificate that we trust, if a CA for clients is configured."""

        async def check(request: web.Request) -> web.StreamResponse:
            certificate = certificate_of(request)
            if certificate:
                self._warn_if_old(certificate)
                if self._has_expired(certificate):
                    return forbidden(
                        f"client certificate of {described(certificate)}: "
                        f"expired on {certificate['notAfter']}"
                    )
            elif self._tls.has_client_ca:
                return forbidden("expected a client certificate")
            return await handle(request)

        return check

    def is_scheduler(self, request: web.Request) -> bool:
        """Whether a client of one of the names asks. What anyone else asks must change nothing.

        An authority may have issued certificates to many that have nothing to do with scheduling.
        """
        certificate = certificate_of(request)
        return (
            self._tls.has_client_ca
            and not set(names_in(certificate)).isdisjoint(self._schedulers)
            and not self._has_expired(certificate)
        )

    def require_scheduler(self, handle: Handler) -> Handler:
        """Refuse everyone but clients of certain names: this path acts with our own rights."""
        known = self.require_certificate(handle)

        async def check(request: web.Request) -> web.StreamResponse:
            if not self._tls.has_client_ca:
                return forbidden("expected --client-ca, without which anyone could bind pods")
            certificate = certificate_of(request)
            if certificate and set(names_in(certificate)).isdisjoint(self._schedulers):
                expected = " or ".join(self._schedulers)
                return forbidden(
                    f"client certificate of {described(certificate)}: may not bind pods; "
                    f"expected that of {expected} (--bind-client)"
                )
            return await known(request)

        return check

    def _has_expired(self, certificate: Certificate) -> bool:
        """Whether a certificate was valid when its connection was opened, and no longer is."""
        return self._clock() > ssl.cert_time_to_seconds(certificate["notAfter"])

    def _warn_if_old(self, certificate: Certificate) -> None:
        """Log a warning, once a day, if a client's certificate expires soon or has expired."""
        start, end = (
            ssl.cert_time_to_seconds(certificate[field]) for field in ("notBefore", "notAfter")
        )
        now = self._clock()
        if now < start + OLD_AFTER * (end - start):
            return
        has_expired = self._has_expired(certificate)
        warning = (certificate.get("serialNumber", ""), has_expired)
        if now < self._warned.get(warning, 0.0) + WARN_AGAIN_SECONDS:
            return
        if len(self._warned) >= MOST_REMEMBERED:
            self._warned.clear()
        self._warned[warning] = now
        extra = {"client": described(certificate), "expires": certificate["notAfter"]}
        if has_expired:
            logger.warning("Refused a client whose certificate has expired", extra=extra)
        else:
            logger.warning("A client's certificate expires soon", extra=extra)


def certificate_of(request: web.Request) -> Certificate:
    """The certificate of a client, verified during the handshake; empty if it has sent none."""
    transport = request.transport
    found: Certificate | None = None
    if transport is not None:
        found = transport.get_extra_info("peercert")
    return found or {}


def names_in(certificate: Certificate) -> list[str]:
    """The common name and the DNS names in a certificate."""
    subject = [pair for part in certificate.get("subject", ()) for pair in part]
    common = [value for key, value in subject if key == "commonName"]
    alternatives = [value for key, value in certificate.get("subjectAltName", ()) if key == "DNS"]
    return list(dict.fromkeys([*common, *alternatives]))


def described(certificate: Certificate) -> str:
    """Whose certificate it is, for people."""
    return ", ".join(names_in(certificate)) or "nobody"


def forbidden(why: str) -> web.Response:
    """A refusal for who somebody is."""
    return error_response(web.HTTPForbidden.status_code, why)
