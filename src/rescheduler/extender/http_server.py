"""The HTTPS server: reads questions, checks who asks, and hands out answers.

It waits for nobody: what is too long, too slow or not to be understood is refused, and what a
scheduler asks too early is answered with 503, so that it goes on without us.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import msgspec
from aiohttp import web

from rescheduler.errors import SettingsError
from rescheduler.extender.handlers import Extender
from rescheduler.extender.protocol import BadRequest
from rescheduler.extender.tls.serving_tls import ServingContext
from rescheduler.extender.webhook.admission import Admission
from rescheduler.extender.webhook.registration import PATH as WEBHOOK_PATH

logger = logging.getLogger(__name__)

# 5,000 whole nodes of 10 KB and a pod; a scheduler that sends names needs a hundredth of it.
LONGEST_QUESTION = 64 << 20
# The API server accepts no object of more than 3 MB, and a review may hold one twice.
LONGEST_REVIEW = 8 << 20
# Who sends more slowly than this is not a scheduler.
READ_SECONDS = 10.0
# Longer than the 90 seconds for which a Go client keeps a connection that it does not use: if we
# were the first to close it, we might do so just as a question comes.
IDLE_SECONDS = 120.0
# How long a question that is being answered may hold us up when we are to end.
ENDING_SECONDS = 2.0

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
AnswerTo = Callable[[bytes], bytes | Awaitable[bytes]]


@dataclass(frozen=True)
class Answers:
    """Who answers what."""

    extender: Extender
    admission: Admission
    why_not_ready: Callable[[], str]
    """Why questions cannot be answered now; nothing if they can."""


def application(answers: Answers, tls: ServingContext) -> web.Application:
    """All paths."""
    made = web.Application(middlewares=[answering_errors])
    extender = answers.extender
    for name, answer in (("filter", extender.filter), ("prioritize", extender.prioritize)):
        handler = once_ready(answers, answering(answer, LONGEST_QUESTION))
        made.router.add_post(f"/extender/{name}", for_known_clients(handler, tls))
    # Binding needs no knowledge, and nobody else does it for us.
    binding = for_known_clients(answering(extender.bind, LONGEST_REVIEW), tls)
    made.router.add_post("/extender/bind", client_certificate_required(binding, tls))
    review = answering(answers.admission.review, LONGEST_REVIEW)
    made.router.add_post(WEBHOOK_PATH, review)
    made.router.add_get("/healthz", alive)
    made.router.add_get("/readyz", readiness(answers))
    return made


def once_ready(answers: Answers, handle: Handler) -> Handler:
    """The handler, while enough is known to answer."""

    async def check(request: web.Request) -> web.StreamResponse:
        if why := answers.why_not_ready():
            return refusal(web.HTTPServiceUnavailable.status_code, why)
        return await handle(request)

    return check


def answering(answer: AnswerTo, longest: int) -> Handler:
    """A handler that has a body answered."""

    async def handle(request: web.Request) -> web.StreamResponse:
        answered = answer(await body_of(request, longest))
        content = answered if isinstance(answered, bytes) else await answered
        return web.Response(body=content, content_type="application/json")

    return handle


def for_known_clients(handle: Handler, tls: ServingContext) -> Handler:
    """The handler, for those alone who show a certificate that we trust, where we trust any."""

    async def check(request: web.Request) -> web.StreamResponse:
        transport = request.transport
        shown = None if transport is None else transport.get_extra_info("peercert")
        if tls.knows_clients and not shown:
            return refusal(web.HTTPForbidden.status_code, "expected a client certificate")
        return await handle(request)

    return check


def client_certificate_required(handle: Handler, tls: ServingContext) -> Handler:
    """The handler, where clients are told apart: it does with our rights what it is asked to."""

    async def check(request: web.Request) -> web.StreamResponse:
        if not tls.knows_clients:
            why = "expected --client-ca, without which anyone could bind pods"
            return refusal(web.HTTPForbidden.status_code, why)
        return await handle(request)

    return check


async def body_of(request: web.Request, longest: int) -> bytes:
    """All that was sent, unless it is too long or takes too long."""
    too_long = f"expected a body of at most {longest} bytes"
    if (request.content_length or 0) > longest:
        raise Refusal(web.HTTPRequestEntityTooLarge.status_code, too_long)
    parts: list[bytes] = []
    length = 0
    try:
        async with asyncio.timeout(READ_SECONDS):
            async for part in request.content.iter_any():
                parts.append(part)
                length += len(part)
                if length > longest:
                    raise Refusal(web.HTTPRequestEntityTooLarge.status_code, too_long)
    except TimeoutError as error:
        raise Refusal(web.HTTPRequestTimeout.status_code, "the body took too long") from error
    except (OSError, web.RequestPayloadError) as error:
        # A scheduler that has waited for long enough goes away: nobody reads the answer.
        raise Refusal(web.HTTPBadRequest.status_code, f"the body broke off: {error}") from error
    return b"".join(parts)


class Refusal(Exception):
    """A request that gets no answer."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


def refusal(status: int, why: str) -> web.Response:
    """Why there is no answer."""
    body = msgspec.json.encode({"error": why})
    return web.Response(status=status, body=body, content_type="application/json")


@web.middleware
async def answering_errors(request: web.Request, handler: Any) -> web.StreamResponse:
    """Turns errors into answers."""
    try:
        response: web.StreamResponse = await handler(request)
    except BadRequest as error:
        extra = {"path": request.path, "error": str(error)}
        logger.warning("Refused a request that cannot be understood", extra=extra)
        return refusal(web.HTTPBadRequest.status_code, str(error))
    except Refusal as error:
        return refusal(error.status, str(error))
    return response


async def alive(request: web.Request) -> web.Response:
    """Whether we are there at all."""
    return web.Response(text="ok\n")


def readiness(answers: Answers) -> Handler:
    """Whether questions are answered."""

    async def handle(request: web.Request) -> web.StreamResponse:
        why = answers.why_not_ready()
        status = web.HTTPServiceUnavailable.status_code if why else web.HTTPOk.status_code
        return web.Response(status=status, text=f"{why or 'ok'}\n")

    return handle


@asynccontextmanager
async def serving(
    answers: Answers, tls: ServingContext, host: str, port: int
) -> AsyncIterator[int]:
    """Serve while the block runs; gives the port, which the system picks if it is 0."""
    runner = web.AppRunner(
        application(answers, tls),
        access_log=None,
        handle_signals=False,
        keepalive_timeout=IDLE_SECONDS,
        shutdown_timeout=ENDING_SECONDS,
    )
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port, ssl_context=tls.context, backlog=512)
        try:
            await site.start()
        except (OSError, UnicodeError) as error:
            # The latter for a name that cannot be one.
            why = error.strerror if isinstance(error, OSError) else error
            raise SettingsError(f"{host}:{port}: cannot listen there: {why}") from error
        listening = runner.addresses[0][1]
        logger.info("Serving", extra={"host": host, "port": listening})
        yield listening
    finally:
        await runner.cleanup()
