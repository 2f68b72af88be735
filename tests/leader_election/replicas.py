"""Replicas of `rescheduler run` as processes, each with a user of its own in the audit log."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from rescheduler.controller.leader_election.lease_object import UNKNOWN_HOLDER
from testcluster import TestCluster
from testcluster.applying import apply
from testcluster.builders import namespace
from testcluster.client import ApiError, JsonObject
from testcluster.components import kubeconfig_text
from testcluster.waiting import wait_until

NAMESPACE = "replicas"
USER = f"system:serviceaccount:{NAMESPACE}:"
LEASE_SECONDS = 6
# Short, so that tests do not wait for long; but a busy machine must be able to renew in time.
DURATIONS = (
    f"--leader-election-lease-duration={LEASE_SECONDS}s",
    "--leader-election-renew-deadline=4s",
    "--leader-election-retry-period=500ms",
)
MUTATING = {"create", "update", "patch", "delete", "deletecollection"}
POLICY = """\
enabledStrategies: [NodeMaintenance]
migration: {maxPerNode: 10, maxRetries: 10, retryDelay: 100ms}
"""


class Replica:
    """One process, and the service account that it is for the API server."""

    def __init__(self, name: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
        self.name = name
        self.process = process
        self._log = log

    @property
    def log(self) -> str:
        return self._log.read_text()

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait_for(self, text: str, times: int = 1) -> None:
        wait_until(lambda: self.log.count(text) >= times, what=f"{self.name} logs {text!r}")


class Replicas:
    """Starts replicas that compete for one Lease, and says who holds it."""

    def __init__(self, cluster: TestCluster, directory: Path, lease: str) -> None:
        self.cluster = cluster
        self.lease = lease
        self.running: dict[str, Replica] = {}
        self._client = cluster.client
        self._directory = directory
        self._numbers = count()
        self._policy = directory / "policy.yaml"
        self._policy.write_text(POLICY)

    def new_account(self, name: str = "", namespace: str = NAMESPACE) -> tuple[str, str]:
        """Create a service account, by default one with all rights; its name and a token."""
        name = name or f"{self.lease.partition('/')[2]}-{next(self._numbers)}"
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts"
        self._client.create(path, {"metadata": {"name": name}})
        answer = self._client.create(f"{path}/{name}/token", {"spec": {"expirationSeconds": 7200}})
        return name, answer["status"]["token"]

    def start(
        self, *arguments: str | Path, server: str = "", account: str = "", token: str = "unused"
    ) -> Replica:
        """Start a replica; at another address, whoever listens there knows its token."""
        if not account:
            account, token = self.new_account()
        lease = ("--leader-election-lease", self.lease, *DURATIONS)
        identity = f"--leader-election-identity={account}"
        return self._start(account, token, server, [*lease, identity, *arguments])

    def start_alone(self, account: str, token: str) -> Replica:
        """Start a replica that competes for nothing."""
        return self._start(account, token, "", ["--no-leader-election"])

    def _start(self, account: str, token: str, server: str, arguments: list[str | Path]) -> Replica:
        kubeconfig = self._directory / f"{account}.kubeconfig"
        address = server or self.cluster.server
        kubeconfig.write_text(kubeconfig_text(address, self.cluster.ca_file, account, token))
        log = self._directory / f"{account}.log"
        options = ("--policy", self._policy, f"--kubeconfig={kubeconfig}")
        program = Path(sys.executable).with_name("rescheduler")
        with log.open("ab") as output:
            process = subprocess.Popen(
                [program, "run", *options, *arguments],
                stdout=output,
                stderr=output,
            )
        self.running[account] = Replica(account, process, log)
        return self.running[account]

    def create_lease(self, **spec: Any) -> None:
        """Create the Lease; by default as it is left by a replica that has released it."""
        space, _, name = self.lease.partition("/")
        metadata = {"name": name, "namespace": space}
        body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}
        self._client.create(lease_path(f"{space}/").rstrip("/"), {**body, "spec": spec})

    def delete_lease(self) -> None:
        """Delete the Lease, whoever holds it."""
        self._client.delete(lease_path(self.lease))

    def holder(self) -> str:
        """The name of the replica in the Lease; empty if there is none."""
        try:
            spec = self._client.get(lease_path(self.lease))["spec"]
        except ApiError:
            return ""
        name: str = spec.get("holderIdentity", "")
        return name.rpartition("_")[0]

    def leader(self) -> Replica:
        """The replica that leads, when one does."""
        name = wait_until(lambda: self.holder() in self.running and self.holder())
        return self.running[str(name)]

    def wait_for_another_leader(self, former: Replica) -> None:
        """Return when the Lease names another replica that runs."""
        others = self.running.keys() - {former.name}
        wait_until(lambda: self.holder() in others, what=f"another than {former.name} leads")

    def wait_for_end(self, replica: Replica) -> None:
        """Return when a replica that was killed or told to stop has ended."""
        replica.process.wait(60)
        del self.running[replica.name]

    def stop(self) -> None:
        for replica in self.running.values():
            replica.signal(signal.SIGCONT)
            replica.process.kill()
            replica.process.wait()
        self._client.close()


def lease_path(key: str) -> str:
    space, _, name = key.partition("/")
    return f"/apis/coordination.k8s.io/v1/namespaces/{space}/leases/{name}"


@contextmanager
def replicas_on(cluster: TestCluster, directory: Path, name: str) -> Iterator[Replicas]:
    """Replicas that compete for a Lease of this name; all end with the block."""
    if not cluster.client.exists(f"/api/v1/namespaces/{NAMESPACE}"):
        binding = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": NAMESPACE},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "cluster-admin",
            },
            "subjects": [{"kind": "Group", "name": USER.replace("account", "accounts")[:-1]}],
        }
        apply(cluster, namespace(NAMESPACE), binding)
    found = Replicas(cluster, directory, f"{NAMESPACE}/{name}")
    found.create_lease()
    try:
        yield found
    finally:
        found.stop()


# ---------------------------------------------------------------- what the audit log shows


class AuditedWrite(NamedTuple):
    """A write of a replica, by the clock of the API server."""

    user: str
    what: str
    received: datetime
    answered: datetime


class LeaseWrite(NamedTuple):
    """A change of the Lease: from `at` on, `holder` may write."""

    holder: str
    at: datetime


def writes_outside_of_terms(replicas: Replicas) -> list[str]:
    """Every write of a replica that was not the leader from its arrival to its answer."""
    name = replicas.lease.partition("/")[2]
    events = [
        event
        for event in replicas.cluster.audited("")
        if event["verb"] in MUTATING and event["user"]["username"].startswith(f"{USER}{name}-")
    ]
    changes = sorted(lease_writes(events), key=lambda change: change.at)
    assert changes, "the audit log has no writes of the Lease"
    wrong = [problem(write, changes) for write in controller_writes(events)]
    return [text for text in wrong if text]


def problem(write: AuditedWrite, changes: list[LeaseWrite]) -> str:
    """What is wrong with a write; nothing if its sender led all the time."""
    before = [change for change in changes if change.at <= write.received]
    during = [change for change in changes if write.received < change.at <= write.answered]
    holders = {change.holder for change in [*before[-1:], *during]}
    if holders != {write.user}:
        return f"{write}: the Lease was held by {holders}"
    renewed_at = [*before, *during][-1].at
    if write.answered > renewed_at + timedelta(seconds=LEASE_SECONDS):
        return f"{write}: the Lease was renewed at {renewed_at} for {LEASE_SECONDS} s"
    return ""


def lease_writes(events: list[JsonObject]) -> list[LeaseWrite]:
    found = []
    for event in events:
        # The leader also writes which policy is in use.
        is_claim = is_lease(event) and "spec" in event.get("requestObject", {"spec": {}})
        if is_claim and event["responseStatus"]["code"] < 300:
            at = datetime.fromisoformat(event["requestReceivedTimestamp"])
            spec = event.get("requestObject", {}).get("spec", {})
            identity = spec.get("holderIdentity") or ""
            # Whoever led before a new Lease may write until its last renewal is too old.
            if identity != UNKNOWN_HOLDER:
                found.append(LeaseWrite(identity.rpartition("_")[0], at))
    return found


def controller_writes(events: list[JsonObject]) -> list[AuditedWrite]:
    return [
        AuditedWrite(
            event["user"]["username"].removeprefix(USER),
            f"{event['verb']} {event['requestURI']}",
            datetime.fromisoformat(event["requestReceivedTimestamp"]),
            datetime.fromisoformat(event["stageTimestamp"]),
        )
        for event in events
        if not is_lease(event)
    ]


def is_lease(event: JsonObject) -> bool:
    resource: str = event.get("objectRef", {}).get("resource", "")
    return resource == "leases"
