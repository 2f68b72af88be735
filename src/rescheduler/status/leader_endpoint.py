"""Asks a replica for its status: at an address, or inside of its pod through the API server.

Whatever answers is not trusted: an answer is decoded strictly, not read beyond a limit, and never
followed to another address.
"""

import asyncio
import os
from http import HTTPStatus
from typing import NamedTuple
from urllib.parse import urlsplit

import aiohttp
import msgspec

from rescheduler.errors import ApiError, Forbidden, NotFound
from rescheduler.kube.api_server import ApiServer, collection_path, object_path
from rescheduler.kube.client import Client
from rescheduler.model.kinds import Kind
from rescheduler.model.names import is_object_name
from rescheduler.model.objects import Identity, Part
from rescheduler.status.port_forward import NoPage, page_inside
from rescheduler.status.reasons import ViewReason
from rescheduler.status.status_document import VERSION, Note, ReplicaStatus, cut

SECONDS = 5.0
# Far more than the largest status.
MOST_BYTES = 4 * 1024 * 1024
STATUS_PATH = "/status"
HEALTH_OPTION = "--health"
DEFAULT_PORT = 8080


class StartedContainer(Part, frozen=True):
    """How a container was started."""

    args: tuple[str, ...] = ()
    command: tuple[str, ...] = ()


class StartedPodSpec(Part, frozen=True):
    """The containers of a pod."""

    containers: tuple[StartedContainer, ...] = ()


class StartedPod(Part, frozen=True):
    """A pod of ours, as far as it says how to reach it."""

    metadata: Identity
    spec: StartedPodSpec = StartedPodSpec()


class StartedPods(Part, frozen=True):
    """Pods of ours."""

    items: tuple[StartedPod, ...] = ()


STARTED_POD = Kind("Pod", "v1", "pods", True, StartedPod)


class _Version(msgspec.Struct, frozen=True):
    version: int = 0


class PodOfReplica(NamedTuple):
    """The pod that a replica is in, by its name in the Lease: the pod's, and random letters."""

    namespace: str
    name: str

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"

    def port_forward(self, port: int) -> str:
        """The command that makes its status available on this machine."""
        return f"kubectl -n {self.namespace} port-forward pod/{self.name} {DEFAULT_PORT}:{port}"


def pod_of(holder: str, lease: str) -> PodOfReplica | None:
    """Where the holder of a Lease runs, if it runs in the namespace of the Lease."""
    name = holder.rpartition("_")[0]
    return PodOfReplica(lease.partition("/")[0], name) if is_object_name(name) else None


class StatusAddress(NamedTuple):
    """What a replica listens on for probes, metrics and status."""

    host: str
    port: int


def health_address(pod: StartedPod) -> StatusAddress | None:
    """The address after `--health`, if the pod was started with one."""
    for container in pod.spec.containers:
        words = [*container.command, *container.args]
        for number, word in enumerate(words):
            option, is_joined, value = word.partition("=")
            if option != HEALTH_OPTION:
                continue
            if not is_joined:
                value = words[number + 1] if number + 1 < len(words) else ""
            host, _, port = value.rpartition(":")
            if port.isdecimal():
                return StatusAddress(host, int(port))
    return None


def decoded_status(body: bytes, source: str) -> ReplicaStatus | Note:
    """The status in an answer, or why there is none."""
    if len(body) > MOST_BYTES:
        return Note(
            ViewReason.NOT_A_STATUS, f"{source} answers, but with more than {MOST_BYTES:,} bytes"
        )
    try:
        found = msgspec.json.decode(body, type=_Version).version
        if found > VERSION:
            return Note(
                ViewReason.OTHER_VERSION,
                f"{source} answers with version {found} of the status, and this command knows "
                f"{VERSION}. Upgrade this command.",
            )
        return msgspec.json.decode(body, type=ReplicaStatus)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return Note(ViewReason.NOT_A_STATUS, f"{source} answers, but with no status: {error}")


# ---------------------------------------------------------------- at an address


def is_url(text: str) -> bool:
    """Whether this is an address that can be asked."""
    try:
        parts = urlsplit(text)
        _ = parts.port
        # What looks up a host does this first, and its error is none that a lookup may have.
        (parts.hostname or "").encode("idna")
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and not parts.query


async def ask_address(url: str) -> ReplicaStatus | Note:
    """Ask whoever listens at an address, such as the end of a `kubectl port-forward`."""
    address = f"{url.rstrip('/').removesuffix('/status')}/status"
    timeout = aiohttp.ClientTimeout(total=SECONDS)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()) as session,
            session.get(address, allow_redirects=False) as answer,
        ):
            body = await answer.content.read(1)
            while len(body) <= MOST_BYTES and (more := await answer.content.read(65536)):
                body += more
            status = answer.status
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        return Note(ViewReason.NOT_REACHED, cut(f"{address} is not reached: {in_words(error)}."))
    return status_in(status, body, address)


def in_words(error: Exception) -> str:
    """Why nobody answered."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, (aiohttp.ClientConnectorDNSError, aiohttp.ClientSSLError)):
        # Their numbers are none of the operating system's.
        return error.os_error.strerror or str(error)
    if isinstance(error, aiohttp.ClientConnectorError):
        # A list of what was tried, if a name has several addresses.
        return os.strerror(error.errno) if error.errno else "no connection"
    return str(error)


# ---------------------------------------------------------------- through the API server


class PodEndpoint(NamedTuple):
    """The status page of a pod."""

    pod: PodOfReplica
    address: StatusAddress

    @property
    def path(self) -> str:
        """Through what it is asked, in the API."""
        return object_path(STARTED_POD, self.pod.key, "portforward")

    @property
    def by_port_forward(self) -> str:
        """How a person reaches it."""
        command = self.pod.port_forward(self.address.port)
        return f"Run: {command}, and then: rescheduler status --url http://127.0.0.1:{DEFAULT_PORT}"


async def find_endpoint(server: ApiServer, pod: PodOfReplica) -> PodEndpoint | Note:
    """Where a pod serves its status, or why that is not known."""
    try:
        found = await server.get(object_path(STARTED_POD, pod.key), StartedPod)
    except NotFound:
        return Note(
            ViewReason.LEADER_IS_NO_POD,
            f"The leader is no pod in namespace {pod.namespace}. If you can reach it, "
            "give its address with --url.",
        )
    except Forbidden as error:
        return Note(
            ViewReason.RIGHT_MISSING,
            f"The leader's pod cannot be read ({error.answer}). "
            f"Run: {pod.port_forward(DEFAULT_PORT)}, and then: rescheduler status "
            f"--url http://127.0.0.1:{DEFAULT_PORT}",
        )
    except ApiError as error:
        return Note(ViewReason.NOT_REACHED, f"The leader's pod cannot be read: {error.answer}")
    address = health_address(found)
    if address is None:
        return Note(
            ViewReason.NO_HEALTH_PORT,
            f"Pod {pod.key} was started without --health, so it serves no status.",
        )
    return PodEndpoint(pod, address)


async def find_any_endpoint(server: ApiServer, namespace: str, labels: str) -> PodEndpoint | None:
    """Where one of the running pods with these labels serves its status; None if none does."""
    query = {"labelSelector": labels, "fieldSelector": "status.phase=Running"}
    try:
        found = await server.get(collection_path(STARTED_POD, namespace), StartedPods, query)
    except ApiError:
        # Why the API server does not answer, or refuses, is said about what it is asked next.
        return None
    for pod in found.items:
        address = health_address(pod)
        if address is not None:
            return PodEndpoint(PodOfReplica(namespace, pod.metadata.name), address)
    return None


async def ask_pod(server: Client, endpoint: PodEndpoint) -> ReplicaStatus | Note:
    """Ask a pod through the API server, with the rights of whoever asks."""
    pod = endpoint.pod
    try:
        async with asyncio.timeout(SECONDS):
            page = await page_inside(
                server, endpoint.path, endpoint.address.port, STATUS_PATH, MOST_BYTES
            )
    except Forbidden:
        return Note(
            ViewReason.PORT_FORWARD_FORBIDDEN,
            f"You may not forward ports of pods in namespace {pod.namespace}, which takes get and "
            f"create of pods/portforward. Whoever may runs: "
            f"{pod.port_forward(endpoint.address.port)}",
        )
    except (ApiError, NoPage, TimeoutError) as error:
        why = "no answer in time" if isinstance(error, TimeoutError) else str(error)
        why = error.answer if isinstance(error, ApiError) else why
        return Note(
            ViewReason.NOT_REACHED,
            cut(f"The API server does not reach pod {pod.key}: {why}")
            + f". {endpoint.by_port_forward}",
        )
    return status_in(page.status, page.body, f"Pod {pod.key}")


def status_in(code: int, body: bytes, source: str) -> ReplicaStatus | Note:
    """The status in an answer with this code, or why there is none."""
    if code == HTTPStatus.NOT_FOUND:
        return Note(
            ViewReason.NO_STATUS_PAGE, f"{source} has no {STATUS_PATH}: it may be an older version."
        )
    if code == HTTPStatus.FORBIDDEN:
        return Note(
            ViewReason.NOT_REACHED,
            f"{source} answers only those who ask inside its pod. Forward its port.",
        )
    if code != HTTPStatus.OK:
        return Note(ViewReason.NOT_A_STATUS, f"{source} answers with code {code}, and no status")
    return decoded_status(body, source)
