"""Who wants to know how the server does derives from the observer, for example to count."""


class ServingObserver:
    """Is called when something has happened. Does nothing itself."""

    def request_answered(self, verb: str, status: int, seconds: float) -> None:
        """A request of kube-scheduler (filter, prioritize, bind) or of the API server (webhook) was
        answered. Called in the server's thread."""

    def certificate_loaded(self, certificate: bytes) -> None:
        """This is the serving certificate, as PEM; called often with the same one."""


NO_SERVING_OBSERVER = ServingObserver()
