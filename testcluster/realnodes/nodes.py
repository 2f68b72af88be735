"""The real nodes of a cluster, as its owner sees them."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from functools import partial
from pathlib import Path

import psutil

from testcluster.build import ensure_program, node_program, traffic_program
from testcluster.client import JsonObject
from testcluster.components import ADMIN_USER, Layout, kubeconfig_text
from testcluster.directories import NODES
from testcluster.realnodes import cgroups
from testcluster.realnodes.addresses import APISERVER_PORT, FABRIC_ADDRESS, addresses_of
from testcluster.realnodes.configuration import CONTAINERD_SOCKET, STATIC_PODS, NodeFiles
from testcluster.realnodes.images import write_traffic_archive
from testcluster.realnodes.inotify import shortage
from testcluster.realnodes.load import Load
from testcluster.realnodes.order import KEEP_LOGS, Order
from testcluster.realnodes.requirements import snapshotter
from testcluster.realnodes.tools import ensure_tools
from testcluster.waiting import wait_until

ROOT = Path(__file__).parent.parent.parent
STOP_SECONDS = 60.0
INOTIFY_SECONDS = 300.0


class NodeError(Exception):
    """A real node does not work; the message has the end of its log."""


class RealNodes:
    """Nodes with the names node-1, node-2, ..."""

    def __init__(self, layout: Layout, count: int, admin_token: str) -> None:
        self.layout = layout
        self.addresses = addresses_of(count)
        self.names = [addresses.name for addresses in self.addresses]
        self.admin_token = admin_token
        self.traffic_binary = ensure_program(traffic_program())
        self.node_binary = ensure_program(node_program())
        self.tools = ensure_tools()
        self.supervisor: subprocess.Popen[str] | None = None
        self.first_pids: dict[str, int] = {}

    @property
    def cgroup(self) -> str:
        """The name of the cgroup with all its pods; no other cluster has it."""
        return self.layout.directory.name

    @property
    def directory(self) -> Path:
        """The files of the nodes, except their logs."""
        return self.layout.directory / NODES

    def start(self) -> None:
        """Start them; they are not Ready yet."""
        self._wait_for_inotify_instances()
        order_file = self._write_files()
        with (self.layout.logs / "nodes.log").open("ab") as log:
            # A session of its own: Ctrl-C in the terminal must not reach who cleans up.
            self.supervisor = subprocess.Popen(
                [sys.executable, "-m", "testcluster.realnodes.supervisor", str(order_file)],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        assert self.supervisor.stdout is not None
        answer = json.loads(self.supervisor.stdout.readline() or "{}")
        if "pids" not in answer:
            raise NodeError(answer.get("error") or (self.layout.logs / "nodes.log").read_text())
        self.first_pids = dict(zip(self.names, answer["pids"], strict=True))

    def stop(self, keep_logs: bool) -> None:
        """End them all, and remove the directory of the cluster; without its logs if they are kept.

        If it is interrupted, it can be called again.
        """
        if self.supervisor is None:
            return
        assert self.supervisor.stdin is not None
        assert self.supervisor.stdout is not None
        # If the supervisor was killed, nobody reads.
        with contextlib.suppress(BrokenPipeError):
            if keep_logs and not self.supervisor.stdin.closed:
                self.supervisor.stdin.write(KEEP_LOGS)
            self.supervisor.stdin.close()
        self.supervisor.wait(STOP_SECONDS)
        self.supervisor.stdout.close()
        # They are still there if the supervisor was killed; the nodes ended with it.
        cgroups.remove(self.cgroup)
        self.supervisor = None

    @property
    def pids(self) -> list[int]:
        """The ids of all processes of all nodes, as this machine numbers them."""
        if self.supervisor is None:
            return []
        supervisor = psutil.Process(self.supervisor.pid)
        return [process.pid for process in [supervisor, *supervisor.children(recursive=True)]]

    def raise_if_one_ended(self) -> None:
        """Raise with the end of its log if a node or its kubelet has ended by itself."""
        for name in self.names:
            kubelet_log = self.layout.logs / f"{name}-kubelet.log"
            if not is_running(self.first_pids[name]):
                raise NodeError(f"{name} ended by itself\n{self.log_tail(name)}")
            if kubelet_log.exists() and kubelet_log.stat().st_size and not self.kubelet(name):
                raise NodeError(f"the kubelet of {name} ended\n{self.log_tail(name)}")

    def log_tail(self, name: str, lines: int = 10) -> str:
        """The end of each of its logs."""
        parts = []
        for log in sorted(self.layout.logs.glob(f"{name}*.log")):
            end = "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
            parts.append(f"{log.name}:\n{end}")
        return "\n".join(parts)

    def kubelet(self, name: str) -> psutil.Process | None:
        """The kubelet of a node, if it runs."""
        for process in psutil.Process(self.first_pids[name]).children():
            try:
                if process.cmdline()[1:2] == ["kubelet"]:
                    return process
            except psutil.Error:
                # It ended meanwhile.
                continue
        return None

    def stop_kubelet(self, name: str) -> None:
        """Halt the kubelet: its pods go on, but nobody starts, stops or reports them."""
        self._signal_kubelet(name, signal.SIGSTOP)

    def continue_kubelet(self, name: str) -> None:
        """Let a kubelet go on that was halted."""
        self._signal_kubelet(name, signal.SIGCONT)

    def kill(self, name: str) -> None:
        """End the node with all its pods, as a power failure does; it does not come back."""
        process = psutil.Process(self.first_pids[name])
        process.kill()
        psutil.wait_procs([process], timeout=STOP_SECONDS)

    def command_in(self, name: str, *command: str | Path) -> list[str]:
        """The command line that runs a command of this machine in the network of a node."""
        network = f"--net=/proc/{self.first_pids[name]}/ns/net"
        return [str(self.tools.find("nsenter")), network, "--", *map(str, command)]

    @property
    def kubeconfig(self) -> Path:
        """For the administrator, from the network of a node."""
        return self.directory / "kubeconfig"

    def command_of(self, name: str, *command: str | Path) -> list[str]:
        """Like `command_in`, but as a process of the node: the system kills it with the node."""
        # nsenter waits for it; if nsenter is ended, so is the command.
        bound = ("setpriv", "--pdeathsig", "TERM", *command)
        nsenter, *rest = self.command_in(name, *bound)
        return [nsenter, f"--pid=/proc/{self.first_pids[name]}/ns/pid", *rest]

    def run_in(self, name: str, *command: str | Path) -> str:
        """The output of a command, run in the network of a node; raises if it fails."""
        done = subprocess.run(
            self.command_in(name, *command),
            env={**os.environ, **self.tools.env},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise NodeError(f"{' '.join(map(str, command))} on {name}: {done.stderr.strip()}")
        return done.stdout

    def root(self, name: str) -> Path:
        """The root directory of a node, as its kubelet sees it."""
        return Path(f"/proc/{self.first_pids[name]}/root")

    def run_static_pod(self, name: str, manifest: JsonObject) -> Path:
        """Have the kubelet of a node run a pod from a file, until that is deleted."""
        directory = self.root(name) / STATIC_PODS.removeprefix("/")
        file = directory / f"{manifest['metadata']['name']}.json"
        file.write_text(json.dumps(manifest))
        return file

    def import_images(self, archive: Path) -> None:
        """Give all nodes the images of an archive, as `docker save` writes it."""
        for name in self.names:
            self._images(name, "import", "--snapshotter", snapshotter(), archive)

    def tag_image(self, name: str, image: str, tag: str) -> None:
        """Give an image of a node a second name, by which no other node has it."""
        self._images(name, "tag", "--force", image, tag)

    def load(self, name: str, *options: str) -> Load:
        """Start to send requests from a node; the options are those of testcluster/go/traffic."""
        return Load(self.command_in(name, self.traffic_binary, "load", "-with-owner", *options))

    def wait_until_all_reach(self, url: str, hosts: set[str]) -> None:
        """Wait until every node gets answers from these pods, and from no other.

        Proxies learn of a change a second after the API server, or later.
        """
        # What is sent before the proxy knows the Service gets no answer at all.
        patience = ("-for", "200ms", "-timeout", "2s")
        options = ("-urls", url, "-rate", str(50 * len(hosts)), *patience)

        def is_reached(name: str) -> bool:
            report = self.load(name, *options).report()
            return report.failed == 0 and set(report.answers_by_host) == hosts

        for name in self.names:
            wait_until(partial(is_reached, name), what=f"{name} reaches {sorted(hosts)} at {url}")

    def _wait_for_inotify_instances(self) -> None:
        """Another cluster may be about to end."""
        deadline = time.monotonic() + INOTIFY_SECONDS
        while lacking := shortage(len(self.names)):
            if time.monotonic() > deadline:
                raise NodeError(lacking)
            time.sleep(0.5)

    def _images(self, name: str, *command: str | Path) -> None:
        socket = self.root(name) / CONTAINERD_SOCKET.removeprefix("/")
        options = ("--address", socket, "--namespace", "k8s.io")
        self.run_in(name, "ctr", *options, "images", *command)

    def _signal_kubelet(self, name: str, number: signal.Signals) -> None:
        kubelet = self.kubelet(name)
        if kubelet is None:
            raise NodeError(f"{name} has no running kubelet")
        kubelet.send_signal(number)

    def _write_files(self) -> Path:
        """Write what the nodes read; returns the file for the supervisor."""
        self.directory.mkdir()
        kubeconfig = self.kubeconfig
        kubeconfig.touch(mode=0o600)
        server = f"https://{FABRIC_ADDRESS}:{APISERVER_PORT}"
        ca_file = self.layout.certificates.ca_file
        kubeconfig.write_text(kubeconfig_text(server, ca_file, ADMIN_USER, self.admin_token))
        archive = self.directory / "images.tar"
        write_traffic_archive(archive, self.traffic_binary)
        nodes = [
            NodeFiles(
                addresses,
                directory=self.directory / addresses.name,
                logs=self.layout.logs,
                cgroup=self.cgroup,
                kubeconfig=kubeconfig,
                node_binary=self.node_binary,
                image_archive=archive,
                tools=self.tools,
                snapshotter=snapshotter(),
            )
            for addresses in self.addresses
        ]
        for node in nodes:
            node.write(self.addresses)
        order = Order(
            directory=str(self.layout.directory),
            cgroup=self.cgroup,
            apiserver_port=self.layout.ports.apiserver,
            nodes_socket=str(self.layout.nodes_socket),
            inits=[str(node.init) for node in nodes],
            logs=[str(node.log("init")) for node in nodes],
            env=self.tools.env,
        )
        file = self.directory / "order.json"
        file.write_text(json.dumps(asdict(order)))
        return file


def is_running(pid: int) -> bool:
    """Whether the process is there and has not ended."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
