"""A server that anybody may connect to, on a loop and in a thread of its own.

A connection that asks for nothing, and a request that is half-sent, come to an end. What is sent in
vain is refused at little cost, and a line of the log now and then tells of it.
"""

import asyncio
import logging
import math
import ssl
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from rescheduler.errors import SettingsError
from rescheduler.serving.listener import Listener
from rescheduler.serving.refusals import RequestRefused, error_response
from rescheduler.serving.server_thread import in_own_thread

logger = logging.getLogger(__name__)

# How long the rest of a refused body is read, so that its sender sees the response.
LINGERING_SECONDS = 1.0
# How long requests that are being answered may delay the end.
SHUTDOWN_SECONDS = 2.0
# Anyone can send requests that fail; one line in so many seconds tells of them.
LOG_SECONDS = 10.0
UNREAD = {web.HTTPRequestEntityTooLarge.status_code, web.HTTPRequestTimeout.status_code}
"""Refusals of bodies that are too long, or too slow, to be read to the end."""

Routes = Callable[[Any], web.Application]
"""The application, with a middleware that it gets."""


@dataclass(frozen=True)
class Port:
    """Where connections are accepted, and how many stay open."""

    host: str
    number: int
    """The system chooses one if it is 0."""
    most_connections: int
    keepalive_seconds: float
    context: Callable[[], ssl.SSLContext | None] = lambda: None
    """What connections are encrypted with; without it, they are not."""


@asynccontextmanager
async def serving(routes: Routes, port: Port) -> AsyncIterator[int]:
    """Serve in another thread while the block runs; yields the number of the port."""
    async with in_own_thread(partial(listening, routes, port)) as number:
        yield number


@asynccontextmanager
async def listening(routes: Routes, port: Port) -> AsyncIterator[int]:
    """Serve on the loop that this is called on, while the block runs."""
    runner = web.AppRunner(
        routes(refusing(lambda request: listener.used(request.transport))),
        access_log=None,
        logger=logger_of_server(),
        handle_signals=False,
        keepalive_timeout=port.keepalive_seconds,
        lingering_time=LINGERING_SECONDS,
        shutdown_timeout=SHUTDOWN_SECONDS,
    )
    await runner.setup()
    assert runner.server is not None
    listener = Listener(runner.server, port.most_connections, port.context)
    try:
        try:
            yield await listener.open(port.host, port.number)
        finally:
            await listener.close()
            await runner.cleanup()
    except (OSError, UnicodeError) as error:
        # UnicodeError is for a host name that is not one.
        why = error.strerror if isinstance(error, OSError) else error
        raise SettingsError(f"{port.host}:{port.number}: cannot listen there: {why}") from error


def logger_of_server() -> logging.Logger:
    """What the HTTP server itself logs: a line now and then about what is no HTTP.

    Anybody can send that; by default, each time would leave a traceback in the log.
    """
    of_server, may_log = logging.Logger(__name__), LogInterval()
    of_server.parent = logger

    def is_logged(record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, HttpProcessingError):
            record.levelno, record.levelname = logging.WARNING, "WARNING"
            record.msg, record.args = "Refused a request that is no HTTP", ()
            record.exc_info, record.error = None, " ".join(error.message.split())
        return may_log.now()

    of_server.addFilter(is_logged)
    return of_server


def refusing(on_request: Callable[[web.Request], None]) -> Any:
    """A middleware that reports every request, and turns errors into responses."""
    may_log = LogInterval()

    @web.middleware
    async def handle(request: web.Request, handler: Any) -> web.StreamResponse:
        on_request(request)
        try:
            response: web.StreamResponse = await handler(request)
        except RequestRefused as error:
            if error.is_logged and may_log.now():
                message = "Refused a request that cannot be decoded"
                extra = {"path": route_of(request), "error": str(error)}
                logger.warning(message, extra=extra)
            refusal = error_response(error.status, str(error))
            if error.status in UNREAD:
                # The rest may never be read. Who believed that this connection goes on would send
                # the next request in vain.
                refusal.force_close()
            return refusal
        except (web.HTTPException, asyncio.CancelledError):
            raise
        except Exception as error:
            if may_log.now():
                extra = {"path": route_of(request), "error": str(error)}
                logger.exception("Failed to answer a request", extra=extra)
            failed = web.HTTPInternalServerError
            return error_response(failed.status_code, "failed; the log says why")
        return response

    return handle


def route_of(request: web.Request) -> str | None:
    """The path without what varies in it: that of the webhook may hold its token."""
    route = request.match_info.route.resource
    return None if route is None else route.canonical


class LogInterval:
    """Lets one line be logged in a while."""

    def __init__(self) -> None:
        self._logged_at = -math.inf

    def now(self) -> bool:
        """Whether a line may be logged now; then the next one has to wait."""
        now = time.monotonic()
        if now < self._logged_at + LOG_SECONDS:
            return False
        self._logged_at = now
        return True
