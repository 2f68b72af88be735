"""Sends the spans of migrations to a collector, by OTLP over HTTP.

A thread of OpenTelemetry's SDK sends them in batches. If the collector cannot be reached, spans are
dropped: no migration waits for them.
"""

from datetime import datetime
from threading import Thread

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, Status, StatusCode, TraceFlags

from rescheduler.controller.controller_observer import ControllerObserver
from rescheduler.migration.migration_object import Migration, MigrationStatus
from rescheduler.tracing.migration_spans import MigrationSpan, ended_spans

SERVICE = "rescheduler"
CLOSE_SECONDS = 5.0


class SpanExporter(ControllerObserver):
    """Exports a span for each part of a migration that ends. `close` sends what is left."""

    def __init__(self, endpoint: str = "") -> None:
        """Without an `endpoint`, the environment names it (OTEL_EXPORTER_OTLP_ENDPOINT)."""
        # OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES of the environment come first.
        self._resource = Resource({SERVICE_NAME: SERVICE}).merge(OTELResourceDetector().detect())
        exporter = OTLPSpanExporter(endpoint=traces_url(endpoint) if endpoint else None)
        self._processor = BatchSpanProcessor(exporter)
        self._scope = InstrumentationScope(SERVICE)

    def migration_updated(
        self, migration: Migration, status: MigrationStatus, now: datetime
    ) -> None:
        """Export what has ended with this update."""
        for span in ended_spans(migration, status, now):
            self._processor.on_end(self._readable(span))

    def migration_withdrawn(
        self, migration: Migration, status: MigrationStatus, now: datetime
    ) -> None:
        """Export the span of a migration that never started."""
        self.migration_updated(migration, status, now)

    def close(self) -> None:
        """Send what is left, or give up after some seconds: the program is about to end."""
        closing = Thread(target=self._processor.shutdown, daemon=True)
        closing.start()
        closing.join(CLOSE_SECONDS)

    def _readable(self, span: MigrationSpan) -> ReadableSpan:
        parent = None
        if span.parent_id is not None:
            parent = context_of(span.trace_id, span.parent_id)
        return ReadableSpan(
            span.name,
            context=context_of(span.trace_id, span.span_id),
            parent=parent,
            resource=self._resource,
            attributes=span.attributes,
            status=Status(StatusCode.ERROR, span.error) if span.error else Status(),
            start_time=nanoseconds(span.start),
            end_time=nanoseconds(max(span.end, span.start)),
            instrumentation_scope=self._scope,
        )


def context_of(trace_id: int, span_id: int) -> SpanContext:
    """The identity of a span, which is always sampled: there are not many migrations."""
    return SpanContext(trace_id, span_id, is_remote=False, trace_flags=TraceFlags(1))


def nanoseconds(moment: datetime) -> int:
    """Since 1970, without the rounding of a float."""
    return int(moment.timestamp()) * 1_000_000_000 + moment.microsecond * 1000


def traces_url(endpoint: str) -> str:
    """Where a collector takes traces."""
    return f"{endpoint.rstrip('/')}/v1/traces"
