"""Counts requests to the API server."""

from prometheus_client import CollectorRegistry

from rescheduler.kube.request import Request
from rescheduler.monitoring.metrics.definitions import API_DURATION, API_REQUESTS

NO_ANSWER = "error"


class ApiMetrics:
    """Call it after each request."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = API_REQUESTS.counter(registry)
        self._duration = API_DURATION.histogram(registry)

    def __call__(self, request: Request, status: int | None, seconds: float) -> None:
        """A request was answered, or was not."""
        verb, code = request.verb, NO_ANSWER if status is None else str(status)
        self._requests.labels(verb, request.resource, code).inc()
        self._duration.labels(verb).observe(seconds)
