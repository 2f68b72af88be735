"""The HTTPS server: reads requests, checks who sent them, and sends responses.

A request that is too long, too slow, one too many, or cannot be decoded is refused with the reason.
Before the cluster is loaded, kube-scheduler gets a 503 and goes on without us.

The server has a thread of its own (see `serving/server_thread.py`). It decodes requests and encodes
responses; only what lies between is computed on the loop that has started it.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from aiohttp import web

from rescheduler.extender.client_authorization import ClientAuthorization, Handler
from rescheduler.extender.handlers import ExtenderHandlers
from rescheduler.extender.scheduling_request import (
    MAX_ARGS_BYTES,
    MAX_NAMES_BYTES,
    SchedulingRequest,
    scheduling_request,
)
from rescheduler.extender.scheduling_response import FilteredNodes, ScoredNodes
from rescheduler.extender.serving_observer import NO_SERVING_OBSERVER, ServingObserver
from rescheduler.extender.tls.serving_tls import ServingContext
from rescheduler.extender.webhook.admission import AdmissionHandler, request_in
from rescheduler.extender.webhook.registration import WEBHOOK_PATH
from rescheduler.serving import http_serving
from rescheduler.serving.http_serving import Port
from rescheduler.serving.refusals import RequestRefused, probe_response
from rescheduler.serving.request_limits import MIB, AdmittedRequest, RequestLimit
from rescheduler.serving.server_thread import on_loop

T = TypeVar("T")

logger = logging.getLogger(__name__)

# etcd stores no object above 1.5 MiB, in a shorter form than JSON. A review of a new pod holds the
# pod once. One that is still longer is created without us.
MAX_REVIEW_BYTES = 2 * MIB
MOST_REVIEWS = 100
# Filter and prioritize, for clients that are not known as schedulers.
MOST_OTHERS = 16
# Four names.
MAX_BINDING_BYTES = 128 << 10
# kube-scheduler gives up after five seconds unless it is configured otherwise, the API server after
# one.
READ_SECONDS = 5.0
# Longer than the 90 seconds for which a Go client keeps an idle connection: if we were the first to
# close it, we might do so just as a request comes.
KEEPALIVE_SECONDS = 120.0
# Schedulers and API servers keep a few connections each.
MOST_CONNECTIONS = 400

TOKEN_PATH = f"{WEBHOOK_PATH}/{{token}}"
OBSERVED_VERBS = {
    **{f"/extender/{verb}": verb for verb in ("filter", "prioritize", "bind")},
    **dict.fromkeys((WEBHOOK_PATH, TOKEN_PATH), "webhook"),
}
"""By path. What strangers ask for is not observed: they could make up any number of paths."""


@dataclass(frozen=True)
class Endpoints:
    """What is served."""

    extender: ExtenderHandlers
    admission: AdmissionHandler
    why_not_ready: Callable[[], str]
    """Why requests cannot be answered now; empty if they can. Called from any thread."""
    observer: ServingObserver = NO_SERVING_OBSERVER
    why_restart: Callable[[], str] = str
    """What only a restart mends; empty if there is nothing."""


@dataclass(frozen=True)
class RequestQuota:
    """How much some clients may ask at the same time."""

    max_bytes: int
    limit: RequestLimit
    turns: AbstractAsyncContextManager[Any] = field(default_factory=nullcontext)
    """Held by requests whose answer is being computed on the loop that has started the server."""


@dataclass(frozen=True)
class JsonEndpoint:
    """How the requests of one kind are read and handled."""

    handle: Callable[[Any], Any]
    """Called on the loop that has started the server, with what `decode` returns."""
    quota: RequestQuota
    decode: Callable[[bytes], Any] = bytes
    """Called in the server's thread."""
    encode: Callable[[Any], bytes] = bytes
    """Called in the server's thread, with what `handle` returns."""


class Application:
    """The routes. Only those of the extender ask for a client certificate."""

    def __init__(
        self,
        endpoints: Endpoints,
        tls: ServingContext,
        clients: ClientAuthorization,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._endpoints = endpoints
        self._tls = tls
        self._clients = clients
        self._loop = loop
        # A scheduler asks about one pod at a time, and binds several at once. An API server may
        # create many pods in the same moment.
        self._schedulers = RequestQuota(
            MAX_ARGS_BYTES, RequestLimit(32, 2 * MAX_ARGS_BYTES), asyncio.Semaphore(2)
        )
        # Anyone else who may ask takes nothing of what schedulers may ask.
        self._others = RequestQuota(
            MAX_NAMES_BYTES, RequestLimit(MOST_OTHERS, 32 * MIB), asyncio.Semaphore(1)
        )
        self._binders = RequestQuota(MAX_BINDING_BYTES, RequestLimit(500, 16 * MIB))
        self._reviewers = RequestQuota(MAX_REVIEW_BYTES, RequestLimit(MOST_REVIEWS, 32 * MIB))
        self._health_limit = RequestLimit(32)

    def routes(self, middleware: Any) -> web.Application:
        """All paths, and what handles them."""
        app = web.Application(middlewares=[observing(self._endpoints.observer), middleware])
        extender, clients = self._endpoints.extender, self._clients
        filtering = partial(self._schedule, extender.filter, FilteredNodes.encoded)
        scoring = partial(self._schedule, extender.prioritize, ScoredNodes.encoded)
        for verb, handle in (("filter", filtering), ("prioritize", scoring)):
            app.router.add_post(f"/extender/{verb}", clients.require_certificate(handle))
        # Binding works before the cluster is loaded, and the scheduler relies on us for it.
        endpoint = JsonEndpoint(extender.bind, self._binders)
        app.router.add_post("/extender/bind", clients.require_scheduler(self._handler(endpoint)))
        app.router.add_post(WEBHOOK_PATH, self._review)
        app.router.add_post(TOKEN_PATH, self._review)
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        return app

    async def _schedule(
        self,
        handle: Callable[..., Any],
        encode: Callable[[Any], bytes],
        request: web.Request,
    ) -> web.StreamResponse:
        """Filter or prioritize, unless we know too little for it."""
        # Before the body is read: how many nodes it may have depends on the nodes that we know.
        if why := self._endpoints.why_not_ready():
            raise RequestRefused(web.HTTPServiceUnavailable.status_code, why)
        is_from_scheduler = self._clients.is_scheduler(request)
        endpoint = JsonEndpoint(
            partial(handle, is_from_scheduler=is_from_scheduler),
            self._schedulers if is_from_scheduler else self._others,
            self._scheduling_request,
            encode,
        )
        return await self._handler(endpoint)(request)

    def _scheduling_request(self, body: bytes) -> SchedulingRequest:
        return scheduling_request(body, self._endpoints.extender.most_nodes)

    def _handler(self, endpoint: JsonEndpoint) -> Handler:
        """A handler that reads the body and responds with JSON."""

        async def handle_request(request: web.Request) -> web.StreamResponse:
            quota = endpoint.quota
            with quota.limit.admitted() as admitted:
                argument = endpoint.decode(await body_of(request, quota.max_bytes, admitted))
                async with quota.turns:
                    result = await self._on_loop(endpoint.handle, argument)
                content = endpoint.encode(result)
            return web.Response(body=content, content_type="application/json")

        return handle_request

    async def _review(self, request: web.Request) -> web.StreamResponse:
        token = request.match_info.get("token", "")
        review = self._endpoints.admission.review
        handle = partial(review, is_from_api_server=self._tls.is_webhook_token(token))
        endpoint = JsonEndpoint(handle, self._reviewers, request_in)
        return await self._handler(endpoint)(request)

    async def _healthz(self, request: web.Request) -> web.StreamResponse:
        """Whether a restart would help: the loop of migrations has to take its turn for it."""
        with self._health_limit.admitted():
            why = await self._on_loop(lambda _: self._endpoints.why_restart(), None)
        return probe_response(why)

    async def _readyz(self, request: web.Request) -> web.StreamResponse:
        """Whether requests are answered, or why not."""
        with self._health_limit.admitted():
            why = await self._on_loop(lambda _: self._endpoints.why_not_ready(), None)
        return probe_response(why)

    async def _on_loop(self, handle: Callable[[Any], T | Awaitable[T]], argument: Any) -> T:
        return await on_loop(self._loop, handle, argument)


async def body_of(request: web.Request, max_bytes: int, admitted: AdmittedRequest) -> bytes:
    """The whole body, unless it is too long or too slow."""
    too_long = f"expected a body of at most {max_bytes} bytes"
    if (request.content_length or 0) > max_bytes:
        raise RequestRefused(web.HTTPRequestEntityTooLarge.status_code, too_long)
    parts: list[bytes] = []
    try:
        async with asyncio.timeout(READ_SECONDS):
            async for part in request.content.iter_any():
                parts.append(part)
                admitted.receive(part)
                if admitted.received > max_bytes:
                    raise RequestRefused(web.HTTPRequestEntityTooLarge.status_code, too_long)
    except TimeoutError as error:
        why = "the body took too long"
        raise RequestRefused(web.HTTPRequestTimeout.status_code, why) from error
    except (OSError, web.RequestPayloadError) as error:
        # A scheduler whose timeout is over closes the connection: nobody reads the response.
        why = f"the body broke off: {error}"
        raise RequestRefused(web.HTTPBadRequest.status_code, why) from error
    return b"".join(parts)


def observed_verb(request: web.Request) -> str:
    """The verb of a request that observers hear of; empty for others."""
    route = request.match_info.route.resource
    return OBSERVED_VERBS.get(route.canonical, "") if route is not None else ""


def observing(observer: ServingObserver) -> Any:
    """A middleware that tells an observer how long requests took."""

    @web.middleware
    async def handle(request: web.Request, handler: Any) -> web.StreamResponse:
        verb, started = observed_verb(request), time.monotonic()
        status = web.HTTPInternalServerError.status_code
        try:
            response: web.StreamResponse = await handler(request)
            status = response.status
        finally:
            if verb:
                observer.request_answered(verb, status, time.monotonic() - started)
        return response

    return handle


@asynccontextmanager
async def serving(
    endpoints: Endpoints, tls: ServingContext, clients: ClientAuthorization, host: str, port: int
) -> AsyncIterator[int]:
    """Serve while the block runs; yields the port, which the system chooses if it is 0."""
    application = Application(endpoints, tls, clients, asyncio.get_running_loop())
    where = Port(host, port, MOST_CONNECTIONS, KEEPALIVE_SECONDS, lambda: tls.context)
    async with http_serving.serving(application.routes, where) as listening_port:
        logger.info("Serving", extra={"host": host, "port": listening_port})
        yield listening_port
