"""Requests that are refused, with a status and a reason for people."""

import msgspec
from aiohttp import web


class RequestRefused(Exception):
    """A request that is refused with an HTTP status and a reason."""

    is_logged = False
    """Whether its sender is at fault, so that whoever looks after both should know."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class BadRequest(RequestRefused):
    """A request that cannot be decoded; sending it again would not help."""

    is_logged = True

    def __init__(self, why: str) -> None:
        super().__init__(web.HTTPBadRequest.status_code, why)


def error_response(status: int, why: str) -> web.Response:
    """A refusal with its reason, as JSON."""
    body = msgspec.json.encode({"error": why})
    return web.Response(status=status, body=body, content_type="application/json")


def probe_response(why_not: str) -> web.Response:
    """The response to a probe of a kubelet, which fails for a reason."""
    status = web.HTTPServiceUnavailable.status_code if why_not else web.HTTPOk.status_code
    return web.Response(status=status, text=f"{why_not or 'ok'}\n")
