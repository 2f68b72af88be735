"""The errors that a server answers, as our client raises them."""

from rescheduler.errors import ApiError, EvictionRefused
from rescheduler.kube.api_errors import describe, from_status
from rescheduler.kube.watch_events import Status


def refusal(call: str, code: int, reason: str, message: str) -> ApiError:
    """The error that our client raises for this status."""
    return from_status(call, Status(code, reason, message))


def not_found(call: str, what: str) -> ApiError:
    """404: there is no such object."""
    return refusal(call, 404, "NotFound", f"{what} not found")


def already_exists(call: str, what: str) -> ApiError:
    """409: there is an object of this name."""
    return refusal(call, 409, "AlreadyExists", f"{what} already exists")


def conflict(call: str, what: str, why: str) -> ApiError:
    """409: the object has another uid or version."""
    return refusal(call, 409, "Conflict", f"Operation cannot be fulfilled on {what}: {why}")


def invalid(call: str, what: str, why: str) -> ApiError:
    """422: the object would be invalid."""
    return refusal(call, 422, "Invalid", f"{what} is invalid: {why}")


def bad_request(call: str, why: str) -> ApiError:
    """400: the request is malformed or not supported."""
    return refusal(call, 400, "BadRequest", why)


def gone(call: str, version: int) -> ApiError:
    """410: the resource version is too old."""
    return refusal(call, 410, "Expired", f"too old resource version: {version}")


def eviction_refused(call: str, code: int, message: str) -> EvictionRefused:
    """A disruption budget does not allow the eviction."""
    status = Status(code, "TooManyRequests", message)
    return EvictionRefused(call, describe(status), status=code)
