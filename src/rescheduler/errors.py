"""Every error that leaves one part of the program for another, named by what to do next.

    ReschedulerError
    ├── SettingsError            a person must change what they gave us
    │   ├── SnapshotError        ... a file that should hold a cluster
    │   └── CredentialsError     ... how to reach the API server, and as whom
    └── ApiError                 a call to the API server did not give what was asked
        ├── Unavailable          nothing was done: try later
        ├── NotLeading           nothing was sent: leave it to the replica that leads
        ├── OutcomeUnknown       a write may or may not have happened: read, then decide
        ├── Conflict             the object changed meanwhile: read it again
        │   └── AlreadyExists    ... or is there already
        ├── Gone                 this version of the list is forgotten: list afresh
        ├── NotFound             there is no such object, or no such kind
        ├── Forbidden            a person must grant us this
        ├── Refused              the server will never accept this request: its text says why
        └── EvictionRefused      a disruption budget protects the pod: leave it for now

That a pod cannot move is not an error: plans carry it as a result.
"""


class ReschedulerError(Exception):
    """Anything that went wrong in a way we have a name for. Its text is for people."""


class SettingsError(ReschedulerError):
    """A person must act: a setting, a policy or a file they gave is not usable."""


class SnapshotError(SettingsError):
    """A file that should hold a cluster does not."""


class CredentialsError(SettingsError):
    """The kubeconfig, its context, a certificate or a plugin does not let us connect."""


class ApiError(ReschedulerError):
    """A call to the API server failed. The text names the call, the status and the answer."""

    def __init__(self, call: str, answer: str, *, status: int | None = None) -> None:
        super().__init__(f"{call}: {answer}")
        self.call = call
        self.answer = answer
        self.status = status


class Unavailable(ApiError):
    """The server could not answer, and nothing was done: the same call may work later."""

    def __init__(
        self,
        call: str,
        answer: str,
        *,
        status: int | None = None,
        retry_after_seconds: float | None = None,
    ) -> None:
        super().__init__(call, answer, status=status)
        self.retry_after_seconds = retry_after_seconds


class NotLeading(ApiError):
    """We do not hold the lease, or cannot know: the write was not sent."""


class OutcomeUnknown(ApiError):
    """A write was sent and its answer was lost: it may have happened, now or in a moment."""


class Conflict(ApiError):
    """The object is no longer the one that the write was meant for."""


class AlreadyExists(Conflict):
    """An object of that name is there already."""


class Gone(ApiError):
    """The server no longer remembers the version that was asked for."""


class NotFound(ApiError):
    """The object does not exist, or the server does not know its kind."""


class Forbidden(ApiError):
    """The server does not know who we are, or does not let us do this."""


class Refused(ApiError):
    """The server understood and said no: it would say so again."""


class EvictionRefused(ApiError):
    """Evicting this pod now would break a disruption budget."""
