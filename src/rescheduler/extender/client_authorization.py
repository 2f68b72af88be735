"""Who may call us: clients with a certificate that we trust, and for binding nobody else."""

from collections.abc import Awaitable, Callable

import msgspec
from aiohttp import web

from rescheduler.extender.tls.serving_tls import ServingContext

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def require_client_certificate(handle: Handler, tls: ServingContext) -> Handler:
    """Refuse clients without a certificate that we trust, if a CA for clients is configured."""

    async def check(request: web.Request) -> web.StreamResponse:
        transport = request.transport
        certificate = None if transport is None else transport.get_extra_info("peercert")
        if tls.has_client_ca and not certificate:
            return error_response(web.HTTPForbidden.status_code, "expected a client certificate")
        return await handle(request)

    return check


def require_client_ca(handle: Handler, tls: ServingContext) -> Handler:
    """Refuse everyone if no CA for clients is configured: this path acts with our own rights."""

    async def check(request: web.Request) -> web.StreamResponse:
        if not tls.has_client_ca:
            why = "expected --client-ca, without which anyone could bind pods"
            return error_response(web.HTTPForbidden.status_code, why)
        return await handle(request)

    return check


def error_response(status: int, why: str) -> web.Response:
    """A refusal with its reason, as JSON."""
    body = msgspec.json.encode({"error": why})
    return web.Response(status=status, body=body, content_type="application/json")
