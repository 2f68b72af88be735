"""Start and stop a real Kubernetes control plane on this machine.

A cluster is ready when `start` returns. After `stop`, no process and no file is left, except the
logs if `keep_logs` is set. Several clusters can run at the same time.
"""

import atexit
import json
import os
import secrets
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from functools import partial
from http.client import HTTPException
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from testcluster import components, directories
from testcluster.build import STAGES_NAME, ensure_binary, ensure_program, servers_program
from testcluster.cache import report
from testcluster.certificates import write_certificates
from testcluster.client import ApiError, Client, JsonObject
from testcluster.components import Layout, Ports
from testcluster.ports import pick_ports
from testcluster.processes import Component
from testcluster.realnodes.addresses import FABRIC_ADDRESS, MAX_NODES
from testcluster.realnodes.configuration import MONITOR_GRACE_SECONDS
from testcluster.realnodes.inotify import SHORTAGE_MESSAGE
from testcluster.realnodes.nodes import NodeError, RealNodes

START_TIMEOUT_SECONDS = 180.0
MANAGER = "kube-controller-manager"
START_ATTEMPTS = 3
# A server that waits for another server may accept a request and not answer it.
HEALTH_TIMEOUT_SECONDS = 1.0
# The API server takes long to stop while watches are open.
APISERVER_GRACE_SECONDS = 2.0
# On a busy machine a lease may be renewed late, and some tests create nodes without one: only its
# conditions decide whether a node is Ready.
FAKE_NODE_GRACE_SECONDS = 24 * 3600


class ClusterError(Exception):
    """A test cluster does not work; the message has the end of the log."""


class PortTakenError(ClusterError):
    """Another process bound a port after it was picked here."""


class InstancesTakenError(ClusterError):
    """Another cluster took inotify instances that a kubelet needed."""


class TestCluster:
    """One cluster: its address, its users, and its processes."""

    __test__ = False  # pytest would collect a class of this name

    def __init__(
        self,
        controllers: bool = True,
        scheduler: bool = True,
        kwok: bool = True,
        audit: bool = False,
        real_nodes: int = 0,
    ) -> None:
        if not 0 <= real_nodes <= MAX_NODES:
            raise ClusterError(f"{real_nodes} real nodes: expected 0 to {MAX_NODES}")
        self.controllers = controllers
        self.scheduler = scheduler
        self.kwok = kwok
        self.audit = audit
        """Whether the API server writes an audit log."""
        self.real_node_count = real_nodes
        """How many real nodes it has, besides the fake ones that tests create.

        With any, nodes whose kubelet does not report become NotReady within seconds.
        """
        self.binary = ensure_binary()
        """kwok, kubectl and other tools."""
        self.servers = ensure_program(servers_program())
        """The control plane: the same file, or an older version of Kubernetes."""
        self.admin_token = secrets.token_hex(16)
        self.powerless_token = secrets.token_hex(16)
        self.components: dict[str, Component] = {}
        self._layout: Layout | None = None
        self._lock: BinaryIO | None = None
        self._scheduler_ports: dict[str, int] = {}
        self._nodes: RealNodes | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop(keep_logs=isinstance(error, Exception))

    def start(self) -> None:
        """Start everything and wait until all of it is healthy.

        What clusters left whose owners were killed is removed first.
        """
        directories.remove_leftovers()
        for attempt in range(1, START_ATTEMPTS + 1):
            try:
                self._start_once()
            except (PortTakenError, InstancesTakenError):
                self.stop()
                if attempt == START_ATTEMPTS:
                    raise
            except BaseException as error:
                self.stop(keep_logs=isinstance(error, Exception))
                raise
            else:
                return

    def stop(self, keep_logs: bool = False) -> None:
        """End all processes and remove all files; reports where the logs are if they are kept.

        If it is interrupted, it can be called again, and is called when Python ends.
        """
        if self._layout is None:
            return
        # No data is worth an orderly shutdown.
        for component in self.components.values():
            component.stop()
        self.components = {}
        # Only now: with its nodes goes the directory to which all of them wrote.
        if self._nodes is not None:
            self._nodes.stop(keep_logs)
            self._nodes = None
        if keep_logs:
            directories.keep_logs(self._layout.directory)
            report(f"The logs of the test cluster were kept in {self._layout.logs}")
        else:
            directories.remove(self._layout.directory)
        self._release_directory()
        atexit.unregister(self.stop)
        self._layout = None

    def restart_apiserver(self) -> None:
        """Stop the API server and start it again, with the same address and the same data.

        Watches break, as they do when a real one is updated.
        """
        server = self.components["kube-apiserver"]
        server.stop(APISERVER_GRACE_SECONDS)
        server.start()
        self._wait_until_ready()

    @contextmanager
    def without_controllers(self) -> Iterator[None]:
        """Stop the controller manager while the block runs, if there is one.

        To its controllers, objects created meanwhile look as if they had always existed.
        """
        manager = self.components.get(MANAGER)
        if manager is None:
            yield
            return
        manager.stop()
        try:
            yield
        finally:
            manager.start()
        self._wait_until_ready()

    @contextmanager
    def extra_scheduler(self, configuration: JsonObject) -> Iterator[Component]:
        """Another kube-scheduler, with its own KubeSchedulerConfiguration.

        Its profiles need names that no other scheduler has, or both would schedule the same
        pods. The connection to the API server is added to the configuration.
        """
        name = f"kube-scheduler-{len(self._scheduler_ports) + 2}"
        file = self.layout.directory / f"{name}.json"
        file.write_text(json.dumps(components.connected(self.layout, configuration)))
        (port,) = pick_ports(1)
        arguments = components.configured_scheduler(self.layout, file, port)
        log = self.layout.logs / f"{name}.log"
        scheduler = Component("kube-scheduler", self.servers, arguments, log, {})
        self.components[name], self._scheduler_ports[name] = scheduler, port
        try:
            scheduler.start()
            self._wait_until_ready()
            yield scheduler
        finally:
            scheduler.stop()
            self.components.pop(name, None)

    def kubectl(self, *arguments: str, input: str | None = None) -> str:
        """The output of `kubectl`, run as the administrator; raises with its error if it fails."""
        done = subprocess.run(
            [self.binary, "kubectl", f"--kubeconfig={self.kubeconfig}", *arguments],
            input=input,
            capture_output=True,
            text=True,
            check=False,
            env=self.kubectl_env,
        )
        if done.returncode != 0:
            raise ClusterError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    @property
    def kubectl_env(self) -> dict[str, str]:
        """An environment in which kubectl neither reads nor writes the user's own files.

        Its cache is keyed by address, and another cluster may have used this one before.
        """
        cache = str(self.layout.directory / "kubectl-cache")
        return {**os.environ, "KUBECACHEDIR": cache, "KUBERC": "off"}

    @property
    def layout(self) -> Layout:
        """Its files and ports; raises while the cluster is stopped."""
        if self._layout is None:
            raise ClusterError("the test cluster is not running")
        return self._layout

    @property
    def nodes(self) -> RealNodes:
        """Its real nodes; raises if it has none."""
        if self._nodes is None:
            raise ClusterError("the test cluster has no real nodes")
        return self._nodes

    @property
    def server(self) -> str:
        """The API server's URL."""
        return f"https://127.0.0.1:{self.layout.ports.apiserver}"

    @property
    def etcd_url(self) -> str:
        """The URL of etcd, which needs no authentication."""
        return f"http://127.0.0.1:{self.layout.ports.etcd}"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig file."""
        return self.layout.kubeconfig

    @property
    def powerless_kubeconfig(self) -> Path:
        """The kubeconfig of a user without any permissions."""
        return self.layout.directory / "powerless-kubeconfig"

    @property
    def ca_file(self) -> Path:
        """The CA certificate of the API server."""
        return self.layout.certificates.ca_file

    @property
    def logs(self) -> Path:
        """The directory with a log for each component."""
        return self.layout.logs

    def audited(self, user_agent: str) -> list[JsonObject]:
        """The requests of clients whose user agent begins like this, from the audit log."""
        lines = self.layout.audit_log.read_text().splitlines()
        events = [json.loads(line) for line in lines]
        return [event for event in events if event.get("userAgent", "").startswith(user_agent)]

    @property
    def client(self) -> Client:
        """A small HTTP client, as the administrator."""
        return Client(self.server, self.admin_token, self.ca_file)

    @property
    def pids(self) -> list[int]:
        """The ids of all its processes."""
        components = [component.pid for component in self.components.values() if component.pid]
        return components + (self._nodes.pids if self._nodes else [])

    def _start_once(self) -> None:
        created, self._lock = directories.create()
        self._layout = prepare_files(self, created)
        atexit.register(self.stop)
        write_kubeconfigs(self)
        self.components = build_components(self)
        for name, component in self.components.items():
            if name != MANAGER:
                component.start()
        if self.controllers:
            # It gives up after ten seconds without an API server, which is short on a busy machine.
            self._wait_until_ready("kube-apiserver")
            self.components[MANAGER].start()
        self._wait_until_ready()
        if self.real_node_count:
            self._nodes = RealNodes(self.layout, self.real_node_count, self.admin_token)
            self._start_nodes(self._nodes)

    def _release_directory(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _start_nodes(self, nodes: RealNodes) -> None:
        """Start the real nodes and wait until all of them accept pods."""
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        try:
            nodes.start()
            while waiting := [name for name in nodes.names if not self._accepts_pods(name)]:
                nodes.raise_if_one_ended()
                if time.monotonic() > deadline:
                    logs = "\n".join(nodes.log_tail(name) for name in waiting)
                    raise NodeError(f"not Ready in time: {', '.join(waiting)}\n{logs}")
                time.sleep(0.1)
        except NodeError as error:
            is_taken = SHORTAGE_MESSAGE in str(error)
            kind = InstancesTakenError if is_taken else ClusterError
            raise kind(str(error)) from error

    def _accepts_pods(self, name: str) -> bool:
        """Whether a node is Ready, and the taint that every new node has is gone."""
        client = self.client
        try:
            node = client.get(f"/api/v1/nodes/{name}")
        except ApiError:
            # Its kubelet has not registered it yet.
            return False
        finally:
            client.close()
        conditions = {found["type"]: found["status"] for found in node["status"]["conditions"]}
        return conditions.get("Ready") == "True" and not node["spec"].get("taints")

    def _wait_until_ready(self, *names: str) -> None:
        """Wait until components are healthy, by default all; give up as soon as one has ended."""
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        checks = self._health_checks()
        waiting = {name: checks[name] for name in names or checks}
        while waiting:
            self._raise_if_one_ended()
            waiting = {name: check for name, check in waiting.items() if not check()}
            if waiting and time.monotonic() > deadline:
                raise ClusterError(
                    f"not ready after {START_TIMEOUT_SECONDS:.0f} s: {', '.join(waiting)}\n"
                    + "\n".join(c.log_tail() for n, c in self.components.items() if n in waiting)
                )
            time.sleep(0.05)

    def _health_checks(self) -> dict[str, Callable[[], bool]]:
        """A health check per component."""
        ports, local = self.layout.ports, "https://127.0.0.1"
        checks: dict[str, Callable[[], bool]] = {
            "kube-apiserver": lambda: self._answers(self.server, "/readyz")
        }
        schedulers = {"kube-scheduler": ports.scheduler, **self._scheduler_ports}
        for name in schedulers.keys() & self.components.keys():
            checks[name] = partial(self._answers, f"{local}:{schedulers[name]}", "/readyz")
        if self.controllers:
            # It is healthy before its controllers run; without this account no pod can be created.
            account = "/api/v1/namespaces/default/serviceaccounts/default"
            manager = f"{local}:{ports.controller_manager}"
            checks[MANAGER] = lambda: (
                self._answers(manager, "/healthz") and self._answers(self.server, account)
            )
        if self.kwok:
            checks["kwok"] = lambda: is_listening(ports.kwok)
        return checks

    def _answers(self, server: str, path: str) -> bool:
        client = Client(server, self.admin_token, self.ca_file, HEALTH_TIMEOUT_SECONDS)
        try:
            client.get(path)
        except (OSError, HTTPException, ApiError):
            return False
        finally:
            client.close()
        return True

    def _raise_if_one_ended(self) -> None:
        for component in self.components.values():
            if not component.has_ended():
                continue
            log = component.log_tail()
            kind = PortTakenError if "address already in use" in log else ClusterError
            raise kind(f"{component.name} ended by itself; the end of its log:\n{log}")


def prepare_files(cluster: TestCluster, directory: Path) -> Layout:
    """Write the files that the components read."""
    ports = Ports(*pick_ports(len(fields(Ports))))
    addresses = [FABRIC_ADDRESS] if cluster.real_node_count else []
    layout = Layout(directory, ports, write_certificates(directory, *addresses))
    layout.logs.mkdir()
    layout.audit_policy_file.write_text(json.dumps(components.AUDIT_POLICY))
    layout.egress_file.write_text(json.dumps(components.egress_configuration(layout)))
    tokens = components.token_lines(cluster.admin_token, cluster.powerless_token)
    layout.token_file.write_text(tokens)
    return layout


def write_kubeconfigs(cluster: TestCluster) -> None:
    """Write a kubeconfig for each of the two users."""
    for path, user, token in (
        (cluster.kubeconfig, components.ADMIN_USER, cluster.admin_token),
        (cluster.powerless_kubeconfig, components.POWERLESS_USER, cluster.powerless_token),
    ):
        path.touch(mode=0o600)
        path.write_text(components.kubeconfig_text(cluster.server, cluster.ca_file, user, token))


def build_components(cluster: TestCluster) -> dict[str, Component]:
    """The components of this cluster, in the order in which they depend on each other."""
    layout = cluster.layout
    commands = {
        "etcd": components.etcd(layout),
        "kube-apiserver": [
            *components.apiserver(layout, cluster.controllers),
            *components.egress(layout),
        ],
    }
    if cluster.audit:
        commands["kube-apiserver"] += components.audit(layout)
    if cluster.controllers:
        is_real = cluster.real_node_count > 0
        grace = MONITOR_GRACE_SECONDS if is_real else FAKE_NODE_GRACE_SECONDS
        commands[MANAGER] = components.controller_manager(layout, grace)
    if cluster.scheduler:
        commands["kube-scheduler"] = components.scheduler(layout)
    if cluster.kwok:
        commands["kwok"] = components.kwok(layout, cluster.binary.with_name(STAGES_NAME))
    # Otherwise kwok would read a configuration from the user's home directory.
    env = {"KWOK_WORKDIR": str(layout.directory / "kwok")}
    binaries = {"kwok": cluster.binary}
    return {
        name: Component(
            name, binaries.get(name, cluster.servers), arguments, layout.logs / f"{name}.log", env
        )
        for name, arguments in commands.items()
    }


def is_listening(port: int) -> bool:
    """Whether something accepts connections on the port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
