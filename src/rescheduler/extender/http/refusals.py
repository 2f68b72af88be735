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
