"""Metrics of the extender and the webhook, on every replica that serves them."""

import logging
from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from rescheduler.extender.extender_server import ExtenderServer
from rescheduler.extender.serving_observer import ServingObserver
from rescheduler.monitoring.metrics.definitions import (
    CERTIFICATE_EXPIRY,
    EXTENDER_DURATION,
    RESERVATIONS,
    WEBHOOK_DURATION,
)

logger = logging.getLogger(__name__)

WEBHOOK = "webhook"


class ServingMetrics(ServingObserver, Collector):
    """Counts requests, and reads from the extender how things are."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._extender: ExtenderServer | None = None
        self._extender_duration = EXTENDER_DURATION.histogram(registry)
        self._webhook_duration = WEBHOOK_DURATION.histogram(registry)
        self._certificate = b""
        self._expires: float | None = None
        """When the certificate ends; None if there is none, or it cannot be read."""

    def read_from(self, extender: ExtenderServer) -> None:
        """Read gauges from this extender from now on."""
        self._extender = extender

    def request_answered(self, verb: str, status: int, seconds: float) -> None:
        if verb == WEBHOOK:
            self._webhook_duration.labels(str(status)).observe(seconds)
        else:
            self._extender_duration.labels(verb, str(status)).observe(seconds)

    def certificate_loaded(self, certificate: bytes) -> None:
        if certificate == self._certificate:
            return
        # Imported only here: it is a big library.
        from cryptography import x509

        self._certificate = certificate
        try:
            loaded = x509.load_pem_x509_certificate(certificate)
            self._expires = loaded.not_valid_after_utc.timestamp()
        except ValueError as error:
            # It can be served all the same: OpenSSL is less strict.
            self._expires = None
            logger.warning("Failed to read when a certificate ends", extra={"error": str(error)})

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """See `Collector`."""
        if self._extender is not None:
            yield RESERVATIONS.gauge({(): self._extender.reservations})
        if self._expires is not None:
            yield CERTIFICATE_EXPIRY.gauge({(): self._expires})
