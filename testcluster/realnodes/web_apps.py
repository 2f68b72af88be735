"""Web applications on real nodes, under load, while something happens to their pods."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from testcluster.applying import apply
from testcluster.builders import budget, deployment, service
from testcluster.client import JsonObject
from testcluster.cluster import TestCluster
from testcluster.namespace_watch import NamespaceWatch
from testcluster.realnodes.load import Load, LoadReport, write_addresses
from testcluster.realnodes.workloads import web_server
from testcluster.waiting import wait_until

PORTS = {80: 8080, 81: 8081}
WARM_UP = "2s"
# A request that is lost may fail as late as this: proxies and connection tracking catch up.
AFTERMATH_SECONDS = 3.0
# A request to a pod that is gone never gets an answer. One to a pod that gets little of a busy
# machine may take very long.
REQUEST_TIMEOUT = "60s"


@dataclass(frozen=True)
class WebApp:
    """A Deployment with a Service, and what is asked of it."""

    name: str
    replicas: int = 4
    on_one_node: bool = False
    """Whether all its pods begin on the first node, not on the first two."""
    pre_stop_seconds: int = 0
    abrupt: bool = False
    """Whether it exits at SIGTERM at once, or ends its requests first."""
    keep_alive: bool = False
    """Whether clients keep their connections, or open one for each request."""
    ports: int = 1
    headless: bool = False
    has_budget: bool = True
    """Whether a disruption budget forbids every eviction."""
    server_options: tuple[str, ...] = ()
    """More options of testcluster/go/traffic's `serve`."""
    container: Mapping[str, Any] = field(default_factory=dict)
    """More fields of its container, in camelCase."""

    def objects(self, namespace: str) -> list[JsonObject]:
        """What is created for it."""
        key, ports = f"{namespace}/{self.name}", dict(list(PORTS.items())[: self.ports])
        template = web_server(
            *["-ports", ",".join(map(str, ports.values())), "-warm-up", WARM_UP, "-work", "5ms"],
            *(["-abrupt"] if self.abrupt else []),
            *self.server_options,
            **{"lifecycle": self._lifecycle, **self.container},
        )
        protection = [budget(key, min_available=self.replicas)] if self.has_budget else []
        return [
            deployment(key, replicas=self.replicas, template=template),
            service(key, ports, headless=self.headless),
            *protection,
        ]

    @property
    def _lifecycle(self) -> JsonObject:
        sleep = {"sleep": {"seconds": self.pre_stop_seconds}}
        return {"preStop": sleep} if self.pre_stop_seconds else {}


@dataclass(frozen=True)
class Traffic:
    """What became of the requests to an application, and of its pods meanwhile."""

    app: WebApp
    load: LoadReport
    fewest_ready: int
    """The least number of Ready pods at any time."""
    fewest_endpoints: int
    """The least number of ready endpoints of its Service at any time."""


class WebAppWatch(NamespaceWatch):
    """Counts the Ready pods and the ready endpoints of every application after each change."""

    def __init__(self, cluster: TestCluster, namespace: str, directory: Path) -> None:
        slices = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
        pods = f"/api/v1/namespaces/{namespace}/pods"
        super().__init__(cluster, {pods: self._take_pod, slices: self._take_slice})
        self.fewest_ready: dict[str, int] = {}
        self.fewest_endpoints: dict[str, int] = {}
        self._directory = directory
        self._ready: defaultdict[str, set[str]] = defaultdict(set)
        self._endpoints: defaultdict[str, dict[str, list[str]]] = defaultdict(dict)

    def address_file(self, app: str) -> Path:
        """A file with the URLs of its pods, as a headless Service's DNS name would resolve."""
        return self._directory / f"{app}.urls"

    def _listed(self) -> None:
        self.fewest_ready = {app: len(found) for app, found in self._ready.items()}
        self.fewest_endpoints = {app: len(self._addresses(app)) for app in self._endpoints}

    def _take_pod(self, type: str, pod: JsonObject) -> None:
        app = pod["metadata"]["labels"]["app"]
        ready = self._ready[app]
        ready.discard(pod["metadata"]["uid"])
        if type != "DELETED" and is_ready(pod):
            ready.add(pod["metadata"]["uid"])
        self.fewest_ready[app] = min(self.fewest_ready.get(app, len(ready)), len(ready))

    def _take_slice(self, type: str, found: JsonObject) -> None:
        app = found["metadata"]["labels"]["kubernetes.io/service-name"]
        self._endpoints[app][found["metadata"]["name"]] = [
            endpoint["addresses"][0]
            for endpoint in found.get("endpoints") or []
            if endpoint["conditions"]["ready"] and type != "DELETED"
        ]
        addresses = self._addresses(app)
        write_addresses(self.address_file(app), [f"http://{found}:8080/" for found in addresses])
        fewest = self.fewest_endpoints.get(app, len(addresses))
        self.fewest_endpoints[app] = min(fewest, len(addresses))

    def _addresses(self, app: str) -> list[str]:
        return [address for found in self._endpoints[app].values() for address in found]


def is_ready(pod: JsonObject) -> bool:
    """Whether a pod is Ready and not terminating."""
    conditions = pod.get("status", {}).get("conditions") or []
    is_true = any(found["type"] == "Ready" and found["status"] == "True" for found in conditions)
    return is_true and "deletionTimestamp" not in pod["metadata"]


def traffic_during(
    action: Callable[[], object],
    cluster: TestCluster,
    namespace: str,
    apps: Sequence[WebApp],
    rate: float,
) -> list[Traffic]:
    """What becomes of so many requests a second to each application while something happens.

    They are sent from the last node, which has none of the pods at first.
    """
    directory = cluster.layout.directory / namespace
    directory.mkdir(exist_ok=True)
    with running(cluster, namespace, apps), ExitStack() as stack:
        watch = stack.enter_context(WebAppWatch(cluster, namespace, directory))
        loads = [
            stack.enter_context(start_load(cluster, namespace, app, watch, rate)) for app in apps
        ]
        action()
        time.sleep(AFTERMATH_SECONDS)
        reports = [load.stop() for load in loads]
    assert watch.problems == [], watch.problems
    return [
        Traffic(app, report, watch.fewest_ready[app.name], watch.fewest_endpoints[app.name])
        for app, report in zip(apps, reports, strict=True)
    ]


@contextmanager
def running(cluster: TestCluster, namespace: str, apps: Sequence[WebApp]) -> Iterator[None]:
    """Applications whose pods are all Ready, on the first node or on the first two."""
    _first, second, *free = cluster.nodes.names
    try:
        with cordoned(cluster, free):
            with cordoned(cluster, [second]):
                start(cluster, namespace, [app for app in apps if app.on_one_node])
            start(cluster, namespace, [app for app in apps if not app.on_one_node])
        yield
    finally:
        cluster.kubectl("delete", "namespace", namespace, "--ignore-not-found", "--wait=true")
        set_cordoned(cluster, cluster.nodes.names, False)


def start(cluster: TestCluster, namespace: str, apps: Sequence[WebApp]) -> None:
    """Create applications, and wait until all nodes reach all their pods."""
    for app in apps:
        apply(cluster, *app.objects(namespace))
    for app in apps:
        pods = wait_until(partial(ready_pods, cluster, namespace, app), what=app.name)
        if not app.headless:
            for url in urls_of(cluster, namespace, app):
                cluster.nodes.wait_until_all_reach(url, {pod["metadata"]["name"] for pod in pods})


def ready_pods(cluster: TestCluster, namespace: str, app: WebApp) -> list[JsonObject]:
    """Its pods, if all are Ready."""
    path = f"/api/v1/namespaces/{namespace}/pods?labelSelector=app={app.name}"
    ready = [pod for pod in cluster.client.get(path)["items"] if is_ready(pod)]
    return ready if len(ready) == app.replicas else []


def urls_of(cluster: TestCluster, namespace: str, app: WebApp) -> list[str]:
    """Where its Service is reached."""
    found = cluster.client.get(f"/api/v1/namespaces/{namespace}/services/{app.name}")["spec"]
    return [f"http://{found['clusterIP']}:{port['port']}/" for port in found["ports"]]


def start_load(
    cluster: TestCluster, namespace: str, app: WebApp, watch: WebAppWatch, rate: float
) -> Load:
    """Send requests to an application, from the last node."""
    options = ["-rate", f"{rate:g}", "-for", "10m", "-timeout", REQUEST_TIMEOUT]
    if app.headless:
        options += ["-addresses", str(watch.address_file(app.name))]
    else:
        options += ["-urls", ",".join(urls_of(cluster, namespace, app))]
    if app.keep_alive:
        options.append("-keep-alive")
    return cluster.nodes.load(cluster.nodes.names[-1], *options)


@contextmanager
def cordoned(cluster: TestCluster, nodes: Sequence[str]) -> Iterator[None]:
    """Keep new pods off some nodes."""
    set_cordoned(cluster, nodes, True)
    try:
        yield
    finally:
        set_cordoned(cluster, nodes, False)


def set_cordoned(cluster: TestCluster, nodes: Sequence[str], is_cordoned: bool) -> None:
    """Keep new pods off some nodes, or let them in again."""
    for name in nodes:
        cluster.client.patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": is_cordoned}})
