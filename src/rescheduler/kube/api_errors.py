"""Turn what went wrong with a call into the error that says what to do next.

The one question that matters for a write is whether the server may have done it. Only an answer
that rules it out, or a connection that was never opened, becomes `Unavailable`.
"""

import re
import ssl
from http import HTTPStatus

import aiohttp
import msgspec

from rescheduler.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    CredentialsError,
    EvictionRefused,
    Forbidden,
    Gone,
    NotFound,
    OutcomeUnknown,
    Refused,
    ReschedulerError,
    Unavailable,
)
from rescheduler.kube.request import Request
from rescheduler.kube.watch_events import Status, decoder_of

# Enough of an unexpected body, such as a proxy's page, to recognise who wrote it.
SHOWN_CHARACTERS = 300

# Admission (quota, pod security, policies) also answers 403, about the object, not about us.
NOT_ALLOWED = re.compile(r'User "[^"]*" cannot ')

# The server says 500 where two budgets protect one pod, yet no later try will do better.
SEVERAL_BUDGETS = "more than one PodDisruptionBudget"


def from_answer(
    request: Request, code: int, body: bytes, retry_after: str | None = None
) -> ApiError:
    """The error for an answer other than success."""
    status = read_status(code, body)
    wait_seconds = retry_after_seconds(retry_after)
    if request.path.endswith("/eviction") and is_budget_refusal(status):
        return EvictionRefused(str(request), describe(status), status=code)
    if code >= HTTPStatus.INTERNAL_SERVER_ERROR and not request.is_read and wait_seconds is None:
        return OutcomeUnknown(str(request), describe(status), status=code)
    return from_status(str(request), status, wait_seconds)


def from_status(call: str, status: Status, wait_seconds: float | None = None) -> ApiError:
    """The error for a status, whether it was an answer or came in the middle of a watch."""
    text, code = describe(status), status.code
    match code:
        case HTTPStatus.UNAUTHORIZED:
            return Forbidden(call, text, status=code)
        case HTTPStatus.FORBIDDEN:
            permission = NOT_ALLOWED.search(status.message) or not status.reason
            return (Forbidden if permission else Refused)(call, text, status=code)
        case HTTPStatus.NOT_FOUND:
            return NotFound(call, text, status=code)
        case HTTPStatus.CONFLICT:
            exists = status.reason == "AlreadyExists"
            return (AlreadyExists if exists else Conflict)(call, text, status=code)
        case HTTPStatus.GONE:
            return Gone(call, text, status=code)
        case HTTPStatus.REQUEST_TIMEOUT | HTTPStatus.TOO_MANY_REQUESTS:
            return Unavailable(call, text, status=code, retry_after_seconds=wait_seconds)
        case _ if code >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return Unavailable(call, text, status=code, retry_after_seconds=wait_seconds)
        case _:
            return Refused(call, text, status=code)


def from_exception(request: Request, server: str, error: Exception) -> ReschedulerError:
    """The error for a call that got no answer, or half of one."""
    call = str(request)
    match error:
        case aiohttp.ClientConnectorCertificateError() | aiohttp.ClientConnectorSSLError():
            return CredentialsError(f"{call}: no trusted connection to {server}: {reason(error)}")
        case aiohttp.ClientConnectorError() | aiohttp.ConnectionTimeoutError():
            return Unavailable(call, f"could not connect to {server}: {reason(error)}")
    what = f"lost the answer of {server}: {reason(error)}"
    return Unavailable(call, what) if request.is_read else OutcomeUnknown(call, what)


def from_body(request: Request, problem: object) -> Unavailable:
    """The error for an answer of success with a body that is not what was asked for."""
    return Unavailable(str(request), f"the answer is not what a Kubernetes API says: {problem}")


def reason(error: BaseException) -> str:
    """The innermost explanation: aiohttp wraps the operating system's and OpenSSL's."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        error = error.certificate_error
    elif isinstance(error, aiohttp.ClientConnectorError):
        error = error.os_error
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate verification failed: {error.verify_message}"
    if isinstance(error, TimeoutError):
        return "timed out"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__


def read_status(code: int, body: bytes) -> Status:
    """The status in an answer; whatever is not a status becomes the message of one."""
    try:
        status = decoder_of(Status).decode(body)
    except msgspec.DecodeError:
        text = body[:SHOWN_CHARACTERS].decode(errors="replace").strip()
        return Status(code=code, message=text)
    return msgspec.structs.replace(status, code=code)


def describe(status: Status) -> str:
    """Code, phrase and the server's own words."""
    try:
        phrase = HTTPStatus(status.code).phrase
    except ValueError:
        phrase = status.reason
    head = f"{status.code} {phrase}".strip()
    return f"{head}: {status.message}" if status.message else head


def is_budget_refusal(status: Status) -> bool:
    """Whether an eviction was refused by a budget, rather than by a limit on requests."""
    return status.has_cause("DisruptionBudget") or SEVERAL_BUDGETS in status.message


def retry_after_seconds(header: str | None) -> float | None:
    """The value of a Retry-After header. Kubernetes never sends the other form, a date."""
    return float(header) if header and header.isdecimal() else None
