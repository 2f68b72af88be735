"""The whole scheduler side, on a cluster that somebody else watches."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from rescheduler.errors import ReschedulerError
from rescheduler.extender.handlers import Extender, TooHot
from rescheduler.extender.http_server import Answers, serving
from rescheduler.extender.steered_marks import SteeredMarks
from rescheduler.extender.tls.serving_tls import (
    CertificateFiles,
    ServingContext,
    ServingCredentials,
    Source,
    keep_fresh,
)
from rescheduler.extender.waiting_migrations import WaitingMigrations
from rescheduler.extender.webhook.admission import Admission
from rescheduler.extender.webhook.registration import Address, register
from rescheduler.kube.api_server import ApiServer
from rescheduler.kube.clock import WALL_CLOCK
from rescheduler.kube.event_recorder import EventRecorder
from rescheduler.kube.live_store import MAX_STORE_AGE_SECONDS, LiveStore, cancel
from rescheduler.migration.migration_watches import MigrationWatches
from rescheduler.settings import Policy

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ServeOptions:
    """Where to serve, with which certificates, and under which address others find us."""

    host: str
    port: int
    certificates: Path | None = None
    """A directory with `tls.crt`, `tls.key` and perhaps `ca.crt`."""
    secret: str = ""
    """Otherwise the Secret `namespace/name` that we keep certificates of our own in."""
    names: Sequence[str] = ()
    """What these are made for: names and addresses under which we are asked."""
    client_authority: Path | None = None
    webhook: Address | None = None


class ExtenderServer:
    """Answers kube-scheduler and the API server. `run` it until it is cancelled."""

    def __init__(
        self,
        server: ApiServer,
        store: LiveStore,
        watching: MigrationWatches,
        policy: Policy,
        options: ServeOptions,
        hot: TooHot | None = None,
        clock: Callable[[], datetime] = WALL_CLOCK.now,
    ) -> None:
        self._server = server
        self._store = store
        self._watching = watching
        self._options = options
        self._clock = clock
        self._marking = SteeredMarks(server, clock)
        self._waiting = WaitingMigrations(watching.tables, watching, self._marking.mark)
        self._recorder = EventRecorder(server, clock)
        self._extender = Extender(
            server, watching.tables, policy, self._waiting, self._recorder, hot
        )
        self._admission = Admission(self._waiting, clock, self._why_not_ready)
        self.port = asyncio.get_running_loop().create_future()
        """Where it listens, once it does."""

    @property
    def policy(self) -> Policy:
        """When a node is too hot, and what counts."""
        return self._extender.policy

    @policy.setter
    def policy(self, policy: Policy) -> None:
        self._extender.policy = policy

    async def run(self) -> None:
        """Serve, and keep certificates and registration as they should be."""
        source = self._source()
        credentials = await source.load()
        tls = ServingContext(credentials)
        answers = Answers(self._extender, self._admission, self._why_not_ready)
        async with serving(answers, tls, self._options.host, self._options.port) as port:
            if not self.port.done():
                self.port.set_result(port)
            await self._register(credentials)
            tasks = [
                asyncio.create_task(keep_fresh(source, tls, self._register)),
                asyncio.create_task(self._marking.run()),
                asyncio.create_task(self._recorder.run()),
            ]
            try:
                await asyncio.gather(*tasks)
            finally:
                await cancel(tasks)

    def _source(self) -> Source:
        options = self._options
        if options.certificates is not None:
            return CertificateFiles(options.certificates, options.client_authority)
        # Making certificates takes a big library, which those who bring their own do without.
        from rescheduler.extender.tls.certificate_secret import CertificateSecret

        return CertificateSecret(
            self._server, options.secret, options.names, self._clock, options.client_authority
        )

    async def _register(self, credentials: ServingCredentials) -> None:
        """Have the API server ask us, if that is wanted. Without it we are still of use."""
        if self._options.webhook is None:
            return
        excluded = self.policy.excluded_namespaces
        try:
            await register(self._server, self._options.webhook, credentials.authority, excluded)
        except ReschedulerError as error:
            logger.error("Failed to register the webhook", extra={"error": str(error)})

    def _why_not_ready(self) -> str:
        age = self._store.age()
        if age is None or not self._watching.has_synced:
            return "the cluster is not known yet"
        if age > MAX_STORE_AGE_SECONDS:
            return f"what is known of the cluster is {age:.0f}s old"
        return ""
