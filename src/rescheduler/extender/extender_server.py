"""The extender and the webhook behind one HTTPS server, for a cluster that the caller watches."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from random import Random

from rescheduler.errors import OutcomeUnknown, ReschedulerError, Unavailable
from rescheduler.extender.client_authorization import KUBE_SCHEDULERS, ClientAuthorization
from rescheduler.extender.handlers import ExtenderHandlers, OnOverload
from rescheduler.extender.http_server import Endpoints, serving
from rescheduler.extender.replacement_marker import ReplacementMarker
from rescheduler.extender.retries.scheduling_retries import SchedulingRetries
from rescheduler.extender.serving_observer import NO_SERVING_OBSERVER, ServingObserver
from rescheduler.extender.tls.serving_tls import (
    CertificateFiles,
    CertificateSource,
    ServingContext,
    ServingCredentials,
    keep_certificates_current,
)
from rescheduler.extender.waiting_migrations import WaitingMigrations
from rescheduler.extender.webhook.admission import AdmissionHandler
from rescheduler.extender.webhook.registration import WebhookAddress, register
from rescheduler.kube.api_server import ApiServer
from rescheduler.kube.backoff import Backoff
from rescheduler.kube.clock import WALL_CLOCK
from rescheduler.kube.event_recorder import EventRecorder
from rescheduler.kube.live_store import cancel
from rescheduler.migration.migration_watches import MigrationWatches
from rescheduler.settings import Policy

logger = logging.getLogger(__name__)

NO_CERTIFICATES = "the certificates are not loaded yet"
NOT_LISTENING = "the extender does not listen yet"
BACKOFF = Backoff()


@dataclass(frozen=True)
class ServeOptions:
    """Where to serve, with which certificates, and at which address the webhook is registered."""

    host: str
    port: int
    certificates: Path | None = None
    """A directory with `tls.crt`, `tls.key` and perhaps `ca.crt`."""
    secret: str = ""
    """Otherwise the Secret `namespace/name` in which we keep certificates that we issue."""
    names: Sequence[str] = ()
    """The host names and addresses in the serving certificate that we issue."""
    client_authority: Path | None = None
    """The CA that client certificates must be signed by."""
    bind_clients: Sequence[str] = KUBE_SCHEDULERS
    """The names in the certificates of schedulers. Only they may bind pods, and only what they ask
    reserves or writes anything."""
    webhook: WebhookAddress | None = None
    """None leaves the webhook unregistered."""


class ExtenderServer:
    """Answers kube-scheduler and the API server. `run` it until it is cancelled."""

    def __init__(
        self,
        server: ApiServer,
        watching: MigrationWatches,
        policy: Policy,
        options: ServeOptions,
        *,
        on_overload: OnOverload | None = None,
        clock: Callable[[], datetime] = WALL_CLOCK.now,
        observer: ServingObserver = NO_SERVING_OBSERVER,
    ) -> None:
        self._server = server
        self._watching = watching
        self._options = options
        self._clock = clock
        self._observer = observer
        self.why_restart: Callable[[], str] = str
        """What only a restart of the program mends, for `/healthz`; empty if there is nothing."""
        self._why_not_serving = NO_CERTIFICATES
        self._chance = Random()
        self._marker = ReplacementMarker(server, clock)
        self._retries = SchedulingRetries(server, clock)
        self._recorder = EventRecorder(server, clock)
        migrations = WaitingMigrations(watching.tables, watching, self._marker.mark)
        self._migrations = migrations
        self._extender = ExtenderHandlers(
            server, watching.tables, policy, migrations, self._recorder, on_overload=on_overload
        )
        self._admission = AdmissionHandler(migrations, clock, self.why_not_ready)

    @property
    def policy(self) -> Policy:
        """The policy with the limits and weights to answer by."""
        return self._extender.policy

    @policy.setter
    def policy(self, policy: Policy) -> None:
        self._extender.policy = policy

    async def run(self) -> None:
        """Serve, and keep certificates and the webhook's registration up to date."""
        source = self._certificate_source()
        credentials = await self._first_credentials(source)
        tls = ServingContext(credentials)
        self._observer.certificate_loaded(credentials.serving.certificate)
        endpoints = Endpoints(
            self._extender,
            self._admission,
            self.why_not_ready,
            self._observer,
            lambda: self.why_restart(),
        )
        options = self._options
        clients = ClientAuthorization(tls, options.bind_clients)
        async with serving(endpoints, tls, clients, options.host, options.port):
            self._why_not_serving = ""
            tasks = [
                asyncio.create_task(self._keep_registered(source, tls, credentials)),
                asyncio.create_task(self._marker.run()),
                asyncio.create_task(
                    self._retries.run(self._extender.take_accepted, self._extender.put_back)
                ),
                asyncio.create_task(self._recorder.run()),
            ]
            try:
                await asyncio.gather(*tasks)
            finally:
                await cancel(tasks)

    async def _first_credentials(self, source: CertificateSource) -> ServingCredentials:
        """Load certificates, however long the API server does not answer.

        What a person must mend ends the program. To end because of a server that is away would
        gain nothing: the next process would have to wait as well.
        """
        failures = 0
        while True:
            try:
                credentials = await source.load()
            except (Unavailable, OutcomeUnknown) as error:
                failures += 1
                self._why_not_serving = f"{NO_CERTIFICATES} ({error})"
                seconds = BACKOFF.seconds(failures, self._chance)
                extra = {"error": str(error), "retry_seconds": round(seconds, 2)}
                logger.warning("Failed to load certificates", extra=extra)
                await asyncio.sleep(seconds)
            else:
                self._why_not_serving = NOT_LISTENING
                return credentials

    def _certificate_source(self) -> CertificateSource:
        options = self._options
        if options.certificates is not None:
            return CertificateFiles(options.certificates, options.client_authority)
        # Imported only here: issuing certificates takes a big library.
        from rescheduler.extender.tls.certificate_secret import CertificateSecret

        return CertificateSecret(
            self._server, options.secret, options.names, self._clock, options.client_authority
        )

    async def _keep_registered(
        self, source: CertificateSource, tls: ServingContext, credentials: ServingCredentials
    ) -> None:
        """Register the webhook when the cluster is loaded; then keep it and certificates current.

        A program that cannot read the cluster ends, and must leave no webhook behind.
        """
        await self._watching.synced()
        await self._register(credentials)
        await keep_certificates_current(source, tls, self._register)

    async def _register(self, credentials: ServingCredentials) -> None:
        """Register the webhook, if wanted. A failure is only logged: the extender still works."""
        self._observer.certificate_loaded(credentials.serving.certificate)
        if self._options.webhook is None:
            return
        excluded = self.policy.excluded_namespaces
        try:
            await register(self._server, self._options.webhook, credentials, excluded)
        except ReschedulerError as error:
            logger.error("Failed to register the webhook", extra={"error": str(error)})

    @property
    def reservations(self) -> int:
        """For how many migrations under way room is held on their targets."""
        return self._migrations.reservations()

    def kept_for_replacements(self) -> int:
        """For how many of these kube-scheduler keeps no room itself."""
        return self._migrations.kept_for_replacements()

    def why_not_ready(self) -> str:
        """Why kube-scheduler cannot be answered now; empty if it can. Called from any thread."""
        return self._why_not_serving or self._watching.why_not_loaded()
