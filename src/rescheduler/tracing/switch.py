"""Whether traces are on, and what to do if they cannot be."""

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from rescheduler.errors import SettingsError

if TYPE_CHECKING:
    from rescheduler.tracing.span_exporter import SpanExporter

logger = logging.getLogger(__name__)

OPTION = "--trace-endpoint"
VARIABLES = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
"""Where OpenTelemetry's programs send traces to; either turns them on."""
INSTALL = "install it with: pip install 'kube-rescheduler[tracing]'"


def span_exporter(option: str | None, environment: Mapping[str, str]) -> "SpanExporter | None":
    """What exports traces; None if nobody asked for it.

    Who gives the option must have what it needs. An environment variable may be meant for other
    programs, so without OpenTelemetry there is only a warning.
    """
    if option is not None:
        return _exporter(checked_url(option))
    given = [name for name in VARIABLES if environment.get(name)]
    if not given or environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    try:
        return _exporter("")
    except SettingsError as error:
        logger.warning("Went on without traces", extra={"why": f"{given[0]}: {error}"})
        return None


def checked_url(url: str) -> str:
    """The URL of a collector."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        expected = "expected the URL of an OTLP/HTTP collector, such as http://127.0.0.1:4318"
        raise SettingsError(f"{OPTION} {url!r}: {expected}")
    return url


def _exporter(endpoint: str) -> "SpanExporter":
    try:
        from rescheduler.tracing.span_exporter import SpanExporter
    except ModuleNotFoundError as error:
        raise SettingsError(f"traces need OpenTelemetry; {INSTALL}") from error
    return SpanExporter(endpoint)
