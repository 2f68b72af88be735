"""An installation on real nodes, and what holds of every healthy one."""

import json
import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from testcluster import TestCluster
from testcluster.client import JsonObject
from testcluster.realnodes.installing import NAMESPACE
from testcluster.waiting import wait_until
from tests.install.audit_log import AuditLog, refused
from tests.install.installs import leftovers
from tests.install.real_nodes.connections import Connections
from tests.install.real_nodes.network_policies import Network
from tests.install.real_nodes.pod_watch import PodWatch
from tests.install.real_nodes.ways import Way
from tests.real_nodes.support import rescheduler

READY_SECONDS = 60
OURS = "app.kubernetes.io/name=rescheduler"
ACCOUNTS = f"system:serviceaccount:{NAMESPACE}:"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/rescheduler"
LINE_OF_A_SCHEDULER = re.compile(r"(?P<level>[EFIW])\d{4} ")
USUAL_WARNINGS = ("Using the inClusterConfig", "The manifest file is empty")
"""What every kube-scheduler in a pod writes when it starts."""


@dataclass(frozen=True)
class Installation:
    """What runs, while it does."""

    cluster: TestCluster
    pods: PodWatch

    def wait_until_ready(self) -> None:
        """Wait until all pods of the newest version are Ready, and no others are left."""
        options = ("--selector", OURS, f"--timeout={READY_SECONDS}s")
        self.cluster.kubectl("--namespace", NAMESPACE, "rollout", "status", "deployment", *options)

    def leader(self) -> str:
        """The name of the pod that leads; empty while none does."""
        client = self.cluster.client
        if not client.exists(LEASE):
            return ""
        # A replica holds it as its name and something random; nobody holds a new one.
        holder = client.get(LEASE).get("spec", {}).get("holderIdentity") or ""
        name, separator, _ = str(holder).partition("_")
        return name if separator else ""

    def delete_leader(self) -> None:
        """Delete the pod that leads, and wait until another one does."""
        leader = wait_until(self.leader, what="a replica leads")
        self.cluster.kubectl("--namespace", NAMESPACE, "delete", "pod", leader, "--wait=false")
        wait_until(lambda: self.leader() not in ("", leader), what=f"another one than {leader}")

    def wait_for_a_round(self) -> None:
        """Wait until its leader has planned once."""
        wait_until(lambda: self.lines("Finished a round"), what="a round")

    def answers_to_schedulers(self) -> int:
        """How many requests of kube-scheduler the extenders have answered."""
        asked = "rescheduler_extender_request_duration_seconds_count"
        return sum(
            int(float(line.split()[-1]))
            for name, port in self._monitoring_ports()
            for line in self._metrics(name, port).splitlines()
            if line.startswith(asked) and 'code="200"' in line
        )

    def _monitoring_ports(self) -> Iterator[tuple[str, int]]:
        for pod in self.pods.pods.values():
            for port in pod["spec"]["containers"][0]["ports"]:
                if port["name"] == "monitoring":
                    yield pod["metadata"]["name"], port["containerPort"]

    def _metrics(self, name: str, port: int) -> str:
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/{name}:{port}/proxy/metrics"
        return str(self.cluster.client.get(path)["message"])

    def lines(self, text: str) -> list[str]:
        """The lines of all logs until now that have a text."""
        return [line for log in self.pods.logs.values() for line in log if text in line]


@contextmanager
def installed(cluster: TestCluster, way: Way) -> Iterator[Installation]:
    """Install while the block runs, and look at what every install must be and leave.

    It gets Ready without a restart, `doctor` finds nothing, the API server refuses it nothing, no
    NetworkPolicy forbids a connection that it made, and nothing is left of it. It logs no problem
    until its rights are taken away from it.
    """
    audit_log = AuditLog(cluster)
    with PodWatch(cluster, NAMESPACE) as pods, Connections(cluster) as connections:
        way.install()
        try:
            installation = Installation(cluster, pods)
            installation.wait_until_ready()
            if way.moves:
                wait_until(installation.leader, what="a replica leads")
            expect_nothing(problems_of_doctor(cluster), "found by doctor")
            network = network_of(cluster)
            yield installation
            expect_nothing(refused(audit_log.requests(ACCOUNTS)), "refused by the API server")
            made = network.refused(connections.all(), pods.addresses)
            expect_nothing(made, "forbidden by NetworkPolicies")
            expect_nothing(problems_in(pods.logs), "logged")
        finally:
            way.remove()
    expect_nothing(pods.problems, "wrong with the watch")
    expect_nothing(pods.restarts, "restarted")
    expect_nothing(leftovers(cluster), "left")


def expect_nothing(found: Collection[object], what: str) -> None:
    assert not found, f"{what}: {json.dumps([*found], indent=1, default=str)}"


def problems_of_doctor(cluster: TestCluster) -> list[JsonObject]:
    """What `doctor` finds that is not as it should be."""
    found = json.loads(rescheduler(cluster, "doctor", "--output", "json", code=None))
    return [finding for finding in found["findings"] if finding["health"] != "good"]


def network_of(cluster: TestCluster) -> Network:
    """The shipped NetworkPolicies, and who has which address."""
    client = cluster.client
    policies = client.get(f"/apis/networking.k8s.io/v1/namespaces/{NAMESPACE}/networkpolicies")
    pods: list[JsonObject] = client.get("/api/v1/pods")["items"]
    namespaces = client.get("/api/v1/namespaces")["items"]
    return Network(
        policies["items"],
        {pod["status"]["podIP"]: pod for pod in pods if "podIP" in pod["status"]},
        {each["metadata"]["name"]: each for each in namespaces},
    )


def problems_in(logs: dict[str, list[str]]) -> list[str]:
    """The lines from which an operator would conclude that something is wrong."""
    assert logs, "the pods have logged something"
    return [f"{pod}: {line}" for pod, lines in logs.items() for line in lines if is_problem(line)]


def is_problem(line: str) -> bool:
    """Whether a line of ours or of kube-scheduler is a warning or worse, or of no known form."""
    if line.startswith("{"):
        return json.loads(line)["level"] not in ("debug", "info")
    found = LINE_OF_A_SCHEDULER.match(line)
    is_usual = any(text in line for text in USUAL_WARNINGS)
    return found is None or (found["level"] != "I" and not is_usual)
