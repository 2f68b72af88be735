"""Requests that are refused, with a status and a reason for people."""

import msgspec
from aiohttp import web


class RequestRefused(Exception):
    """A request that is refused with an HTTP status and a reason."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


def error_response(status: int, why: str) -> web.Response:
    """A refusal with its reason, as JSON."""
    body = msgspec.json.encode({"error": why})
    return web.Response(status=status, body=body, content_type="application/json")


def probe_response(why_not: str) -> web.Response:
    """The response to a probe of a kubelet, which fails for a reason."""
    status = web.HTTPServiceUnavailable.status_code if why_not else web.HTTPOk.status_code
    return web.Response(status=status, text=f"{why_not or 'ok'}\n")
