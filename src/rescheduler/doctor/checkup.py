"""The checks, in the order in which a person would look."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from importlib.metadata import version
from typing import Any

from rescheduler.controller.leader_election.lease_object import LEASE, Lease
from rescheduler.doctor.findings import Finding, Health, bad, doubtful, good, not_seen
from rescheduler.doctor.installation import Installation, find_installation
from rescheduler.doctor.lease_check import lease_finding, policy_finding
from rescheduler.doctor.rights_check import check_rights
from rescheduler.doctor.webhook_check import (
    REGISTRATION_PATH,
    Registration,
    certificate_finding,
    registration_finding,
)
from rescheduler.errors import ApiError, NotFound
from rescheduler.extender.tls.certificate_secret import SECRET, TlsSecret
from rescheduler.install.certificate_objects import SERVING_SECRET
from rescheduler.install.metadata import CONTROLLER, SCHEDULER
from rescheduler.install.rights import LEASE_NAME, SCHEDULER_LEASE_NAME, SECRET_NAME
from rescheduler.kube.api_server import object_path
from rescheduler.kube.client import Client
from rescheduler.kube.clock import WALL_CLOCK
from rescheduler.kube.server_features import VERSION_PATH, ServerFeatures, VersionAnswer
from rescheduler.migration.memory.move_record_crd import ALL_CRDS
from rescheduler.model.objects import Part

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
INSTALL_CRDS = "rescheduler crds | kubectl apply --server-side -f -"
# Answers carry whole seconds; below this, nobody is misled by a time in a message.
TOLERATED_CLOCK_DIFFERENCE = timedelta(seconds=30)


class InstalledDefinition(Part, frozen=True):
    """A CustomResourceDefinition, as far as it is compared."""

    spec: dict[str, Any] = {}


@dataclass
class Checkup:
    """Looks over what is installed in a namespace, if anything is."""

    server: Client
    namespace: str

    async def findings(self) -> AsyncIterator[Finding]:
        """Everything that is found, as it is found. Ends early without a server."""
        first = await self._server()
        yield first
        if first.health == Health.BAD:
            return
        yield self._clock()
        for crd in ALL_CRDS:
            yield await self._definition(crd)
        try:
            installation = await find_installation(self.server, self.namespace, CONTROLLER)
        except ApiError as error:
            yield not_seen("controller", error)
            return
        yield controller_finding(installation, self.namespace)
        async for finding in self._rights(installation):
            yield finding
        if installation is None:
            return
        if "moves" in installation.switches:
            yield await self._lease("leader", LEASE_NAME)
            if (policy := await self._policy()) is not None:
                yield policy
        if "extender" in installation.switches:
            yield await self._webhook()
            yield await self._certificate(issues=installation.issues_certificates)
            for check in (self._service, self._scheduler):
                yield await check()

    # ------------------------------------------------------------ the server

    async def _server(self) -> Finding:
        try:
            answer = await self.server.get(VERSION_PATH, VersionAnswer)
        except ApiError as error:
            todo = "check the address and the credentials: kubectl version uses the same"
            return bad("API server", str(error), todo)
        versions = (
            f"{answer.git_version or 'of unknown version'}, "
            f"rescheduler {version('kube-rescheduler')}"
        )
        if blocker := ServerFeatures(answer.version).placing_blocker:
            todo = "upgrade Kubernetes; until then, pods are evicted and never handed over"
            return doubtful("API server", f"{versions}: {blocker}", todo)
        return good("API server", versions)

    def _clock(self) -> Finding:
        ahead = self.server.server_clock.now() - WALL_CLOCK.now()
        seconds = round(abs(ahead).total_seconds())
        if abs(ahead) <= TOLERATED_CLOCK_DIFFERENCE:
            return good("clock", "as the API server's")
        direction = "behind" if ahead > timedelta(0) else "ahead of"
        return doubtful(
            "clock",
            f"{seconds} s {direction} the API server's",
            "set this machine's clock by NTP; moves do not depend on it, times in messages do",
        )

    async def _definition(self, crd: dict[str, Any]) -> Finding:
        """Whether a kind is installed, as this version defines it."""
        name = crd["metadata"]["name"]
        try:
            found = await self.server.get(f"{CRDS}/{name}", InstalledDefinition)
        except NotFound:
            return bad(name, "is not installed", f"install it: {INSTALL_CRDS}")
        except ApiError as error:
            return not_seen(name, error)
        if schemas_of(found.spec) != schemas_of(crd["spec"]):
            return bad(name, "is of another version than this program", f"apply it: {INSTALL_CRDS}")
        return good(name, "installed, as this version defines it")

    # ------------------------------------------------------------ the installation

    async def _rights(self, installation: Installation | None) -> AsyncIterator[Finding]:
        """The rights of the controller or, if there is none, of whoever asks."""
        switches = {"moves"} if installation is None else installation.switches
        account = "" if installation is None else installation.account
        try:
            for finding in await check_rights(self.server, switches, self.namespace, account):
                yield finding
        except ApiError as error:
            yield not_seen("rights", error)

    async def _lease(self, subject: str, name: str) -> Finding:
        path = object_path(LEASE, f"{self.namespace}/{name}")
        try:
            lease = await self.server.get(path, Lease)
        except NotFound:
            return bad(
                subject,
                f"there is no Lease {self.namespace}/{name}",
                "its replicas create it: look at their logs",
            )
        except ApiError as error:
            return not_seen(subject, error)
        return lease_finding(subject, lease.spec, self.server.server_clock.now())

    async def _policy(self) -> Finding | None:
        """What the leader has written about the policy; None if that is not seen."""
        try:
            lease = await self.server.get(
                object_path(LEASE, f"{self.namespace}/{LEASE_NAME}"), Lease
            )
        except ApiError:
            return None
        return policy_finding(lease.metadata.annotations)

    async def _webhook(self) -> Finding:
        try:
            registration = await self.server.get(REGISTRATION_PATH, Registration)
        except NotFound:
            registration = Registration()
        except ApiError as error:
            return not_seen("webhook", error)
        return registration_finding(registration, self.server.server_clock.now())

    async def _certificate(self, *, issues: bool) -> Finding:
        """For how long the certificate is good, which the controller or cert-manager issues."""
        path = object_path(SECRET, f"{self.namespace}/{SECRET_NAME if issues else SERVING_SECRET}")
        where_to_look = (
            "the controller writes it when it starts: look at its logs"
            if issues
            else f"cert-manager issues it: kubectl -n {self.namespace} describe certificates"
        )
        try:
            data = (await self.server.get(path, TlsSecret)).data
        except NotFound:
            data = {}
        except ApiError as error:
            return not_seen("certificate", error)
        return certificate_finding(data, self.server.server_clock.now(), where_to_look)

    async def _service(self) -> Finding:
        """Whether the API server reaches us, on the way that its calls of the webhook take."""
        path = f"/api/v1/namespaces/{self.namespace}/services/https:{CONTROLLER}:443/proxy/readyz"
        subject = "way to the webhook"
        try:
            await self.server.get_text(path)
        except ApiError as error:
            if error.status is not None and error.status < 500:
                return not_seen(subject, error)
            return bad(
                subject,
                f"the API server does not reach the Service: {error.answer}",
                "check that its pods are Ready, and that NetworkPolicies and the firewall between "
                "control plane and nodes let it through",
            )
        return good(subject, "the API server reaches a replica that is ready")

    async def _scheduler(self) -> Finding:
        """Whether the scheduler that asks the extender runs."""
        try:
            scheduler = await find_installation(self.server, self.namespace, SCHEDULER)
        except ApiError as error:
            return not_seen("second scheduler", error)
        if scheduler is None:
            return doubtful(
                "second scheduler",
                "is not installed: nobody asks the extender, unless your own scheduler does",
                "configure your scheduler as docs/extender.md shows, or install the second one",
            )
        if scheduler.ready == 0:
            return bad(
                "second scheduler",
                f"0 of {scheduler.replicas} replicas are ready",
                f"look at its pods: kubectl -n {self.namespace} describe pods",
            )
        return await self._lease("second scheduler", SCHEDULER_LEASE_NAME)


def controller_finding(installation: Installation | None, namespace: str) -> Finding:
    """Whether the controller runs."""
    subject = "controller"
    if installation is None:
        return doubtful(
            subject,
            f"is not installed in namespace {namespace}",
            "name its namespace with --namespace, or install it: rescheduler manifests --help; "
            "until then, move and drain need --here",
        )
    counts = f"{installation.ready} of {installation.replicas} replicas are ready"
    todo = f"look at its pods: kubectl -n {namespace} describe pods"
    if installation.ready == 0:
        return bad(subject, counts, todo)
    if installation.ready < installation.replicas:
        return doubtful(subject, counts, todo)
    return good(subject, counts)


def schemas_of(spec: dict[str, Any]) -> dict[str, Any]:
    """The schemas of a CustomResourceDefinition, by version."""
    return {found["name"]: found.get("schema") for found in spec.get("versions", ())}
