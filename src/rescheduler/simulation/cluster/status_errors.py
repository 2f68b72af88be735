"""What the server says when it does not do what it is asked."""

from rescheduler.errors import ApiError, EvictionRefused
from rescheduler.kube.api_errors import describe, from_status
from rescheduler.kube.watch_events import Status


def refusal(call: str, code: int, reason: str, message: str) -> ApiError:
    """The error that our client makes of such an answer."""
    return from_status(call, Status(code, reason, message))


def not_found(call: str, what: str) -> ApiError:
    """There is no such object."""
    return refusal(call, 404, "NotFound", f"{what} not found")


def already_exists(call: str, what: str) -> ApiError:
    """There is one of that name."""
    return refusal(call, 409, "AlreadyExists", f"{what} already exists")


def conflict(call: str, what: str, why: str) -> ApiError:
    """It is not the object that was meant."""
    return refusal(call, 409, "Conflict", f"Operation cannot be fulfilled on {what}: {why}")


def invalid(call: str, what: str, why: str) -> ApiError:
    """It would break a rule."""
    return refusal(call, 422, "Invalid", f"{what} is invalid: {why}")


def bad_request(call: str, why: str) -> ApiError:
    """It makes no sense, or none that we know."""
    return refusal(call, 400, "BadRequest", why)


def gone(call: str, version: int) -> ApiError:
    """Too long ago."""
    return refusal(call, 410, "Expired", f"too old resource version: {version}")


def eviction_refused(call: str, code: int, message: str) -> EvictionRefused:
    """A budget protects the pod."""
    status = Status(code, "TooManyRequests", message)
    return EvictionRefused(call, describe(status), status=code)
