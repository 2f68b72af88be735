"""The HTTPS server: reads requests, checks who sent them, and sends responses.

A request that is too long, too slow or cannot be decoded is refused with the reason. Before the
cluster is loaded, kube-scheduler gets a 503 and goes on without us.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from rescheduler.errors import SettingsError
from rescheduler.extender.client_authorization import (
    Handler,
    error_response,
    require_client_ca,
    require_client_certificate,
)
from rescheduler.extender.handlers import ExtenderHandlers
from rescheduler.extender.protocol import BadRequest
from rescheduler.extender.tls.serving_tls import ServingContext
from rescheduler.extender.webhook.admission import AdmissionHandler
from rescheduler.extender.webhook.registration import WEBHOOK_PATH

logger = logging.getLogger(__name__)

# 5,000 whole nodes of 10 KB and a pod; a scheduler that sends names needs a hundredth of it.
MAX_ARGS_BYTES = 64 << 20
# The API server accepts no object of more than 3 MB, and a review may hold one twice.
MAX_REVIEW_BYTES = 8 << 20
# No scheduler sends more slowly than this.
READ_SECONDS = 10.0
# Longer than the 90 seconds for which a Go client keeps an idle connection: if we were the first to
# close it, we might do so just as a request comes.
KEEPALIVE_SECONDS = 120.0
# How long requests that are being answered may delay the end.
SHUTDOWN_SECONDS = 2.0

BodyHandler = Callable[[bytes], bytes | Awaitable[bytes]]


@dataclass(frozen=True)
class Endpoints:
    """What is served."""

    extender: ExtenderHandlers
    admission: AdmissionHandler
    why_not_ready: Callable[[], str]
    """Why requests cannot be answered now; empty if they can."""


def application(endpoints: Endpoints, tls: ServingContext) -> web.Application:
    """The routes. Only those of the extender ask for a client certificate."""
    app = web.Application(middlewares=[error_responses])
    extender = endpoints.extender
    for verb, handle in (("filter", extender.filter), ("prioritize", extender.prioritize)):
        handler = require_ready(json_handler(handle, MAX_ARGS_BYTES), endpoints)
        app.router.add_post(f"/extender/{verb}", require_client_certificate(handler, tls))
    # Binding works before the cluster is loaded, and the scheduler relies on us for it.
    binding = require_client_certificate(json_handler(extender.bind, MAX_REVIEW_BYTES), tls)
    app.router.add_post("/extender/bind", require_client_ca(binding, tls))
    app.router.add_post(WEBHOOK_PATH, json_handler(endpoints.admission.review, MAX_REVIEW_BYTES))
    app.router.add_get("/healthz", healthz)
    app.router.add_get("/readyz", readyz(endpoints))
    return app


def require_ready(handle: Handler, endpoints: Endpoints) -> Handler:
    """Refuse requests with 503 while we know too little to answer them."""

    async def check(request: web.Request) -> web.StreamResponse:
        if why := endpoints.why_not_ready():
            return error_response(web.HTTPServiceUnavailable.status_code, why)
        return await handle(request)

    return check


def json_handler(handle: BodyHandler, max_bytes: int) -> Handler:
    """A handler that reads the body and responds with JSON."""

    async def handle_request(request: web.Request) -> web.StreamResponse:
        response = handle(await body_of(request, max_bytes))
        content = response if isinstance(response, bytes) else await response
        return web.Response(body=content, content_type="application/json")

    return handle_request


async def body_of(request: web.Request, max_bytes: int) -> bytes:
    """The whole body, unless it is too long or too slow."""
    too_long = f"expected a body of at most {max_bytes} bytes"
    if (request.content_length or 0) > max_bytes:
        raise RequestRefused(web.HTTPRequestEntityTooLarge.status_code, too_long)
    parts: list[bytes] = []
    length = 0
    try:
        async with asyncio.timeout(READ_SECONDS):
            async for part in request.content.iter_any():
                parts.append(part)
                length += len(part)
                if length > max_bytes:
                    raise RequestRefused(web.HTTPRequestEntityTooLarge.status_code, too_long)
    except TimeoutError as error:
        why = "the body took too long"
        raise RequestRefused(web.HTTPRequestTimeout.status_code, why) from error
    except (OSError, web.RequestPayloadError) as error:
        # A scheduler whose timeout is over closes the connection: nobody reads the response.
        why = f"the body broke off: {error}"
        raise RequestRefused(web.HTTPBadRequest.status_code, why) from error
    return b"".join(parts)


class RequestRefused(Exception):
    """A request that is refused with an HTTP status and a reason."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


@web.middleware
async def error_responses(request: web.Request, handler: Any) -> web.StreamResponse:
    """Turns errors into responses."""
    try:
        response: web.StreamResponse = await handler(request)
    except BadRequest as error:
        extra = {"path": request.path, "error": str(error)}
        logger.warning("Refused a request that cannot be decoded", extra=extra)
        return error_response(web.HTTPBadRequest.status_code, str(error))
    except RequestRefused as error:
        return error_response(error.status, str(error))
    return response


async def healthz(request: web.Request) -> web.Response:
    """Whether the process is alive."""
    return web.Response(text="ok\n")


def readyz(endpoints: Endpoints) -> Handler:
    """Whether requests are answered, or why not."""

    async def handle(request: web.Request) -> web.StreamResponse:
        why = endpoints.why_not_ready()
        status = web.HTTPServiceUnavailable.status_code if why else web.HTTPOk.status_code
        return web.Response(status=status, text=f"{why or 'ok'}\n")

    return handle


@asynccontextmanager
async def serving(
    endpoints: Endpoints, tls: ServingContext, host: str, port: int
) -> AsyncIterator[int]:
    """Serve while the block runs; yields the port, which the system chooses if it is 0."""
    runner = web.AppRunner(
        application(endpoints, tls),
        access_log=None,
        handle_signals=False,
        keepalive_timeout=KEEPALIVE_SECONDS,
        shutdown_timeout=SHUTDOWN_SECONDS,
    )
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port, ssl_context=tls.context, backlog=512)
        try:
            await site.start()
        except (OSError, UnicodeError) as error:
            # UnicodeError is for a host name that is not one.
            why = error.strerror if isinstance(error, OSError) else error
            raise SettingsError(f"{host}:{port}: cannot listen there: {why}") from error
        listening = runner.addresses[0][1]
        logger.info("Serving", extra={"host": host, "port": listening})
        yield listening
    finally:
        await runner.cleanup()
