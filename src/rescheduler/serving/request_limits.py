"""How many requests are answered at the same time, and how much of their bodies is kept.

Requests above a limit are refused at once. A scheduler and an API server go on without us, so a
refusal costs a flooded server next to nothing and harms no pod.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from aiohttp import web

from rescheduler.serving.refusals import RequestRefused

MIB = 1 << 20


class RequestLimit:
    """Counts the requests of one kind that are being read or answered, and their bytes."""

    def __init__(self, requests: int, total_bytes: int = MIB) -> None:
        self._most_requests = requests
        self._most_bytes = total_bytes
        self._requests = 0
        self._bytes = 0

    @contextmanager
    def admitted(self) -> Iterator["AdmittedRequest"]:
        """Count a request while the block runs; `RequestRefused` if there are too many."""
        if self._requests >= self._most_requests:
            raise too_many(f"{self._most_requests} other requests are being answered")
        request = AdmittedRequest(self)
        self._requests += 1
        try:
            yield request
        finally:
            self._requests -= 1
            self._bytes -= request.received

    def count_bytes(self, count: int) -> None:
        """Count bytes of some request; `RequestRefused` if all bodies together are too long."""
        self._bytes += count
        if self._bytes > self._most_bytes:
            raise too_many(f"the bodies of all requests are above {self._most_bytes} bytes")


class AdmittedRequest:
    """One request that counts."""

    def __init__(self, limit: RequestLimit) -> None:
        self._limit = limit
        self.received = 0
        """How many bytes of its body are kept."""

    def receive(self, part: bytes) -> None:
        """Count a part of its body."""
        self.received += len(part)
        self._limit.count_bytes(len(part))


def too_many(why: str) -> RequestRefused:
    """The refusal of a request that would be one too many."""
    return RequestRefused(web.HTTPTooManyRequests.status_code, f"too many requests: {why}")
