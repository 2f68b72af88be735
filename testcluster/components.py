"""The command line of each component, with the reasons for its options.

Everything listens on 127.0.0.1 only. Whatever could slow down a test is off: fsync, leader
election, rate limits.
"""

from dataclasses import dataclass
from pathlib import Path

from testcluster.certificates import Certificates
from testcluster.client import JsonObject
from testcluster.directories import LOGS

ADMIN_USER, POWERLESS_USER = "admin", "powerless"
# kwok simulates the nodes that have this annotation, and leaves the others alone.
FAKE_NODE_ANNOTATION = ("kwok.x-k8s.io/node", "fake")


@dataclass(frozen=True)
class Ports:
    """A port for each server of a cluster."""

    etcd: int
    etcd_peer: int
    apiserver: int
    controller_manager: int
    scheduler: int
    kwok: int


@dataclass(frozen=True)
class Layout:
    """The files of one cluster, and the ports of its servers."""

    directory: Path
    ports: Ports
    certificates: Certificates

    @property
    def logs(self) -> Path:
        """A log for each component."""
        return self.directory / LOGS

    @property
    def kubeconfig(self) -> Path:
        """For the administrator, who may do everything."""
        return self.directory / "kubeconfig"

    @property
    def audit_policy_file(self) -> Path:
        """Which requests the API server writes to its audit log."""
        return self.directory / "audit-policy.json"

    @property
    def audit_log(self) -> Path:
        """A line of JSON per request, if the cluster was asked to write them."""
        return self.logs / "audit.log"

    @property
    def egress_file(self) -> Path:
        """How the API server reaches real nodes."""
        return self.directory / "egress.json"

    @property
    def nodes_socket(self) -> Path:
        """A proxy into the network of real nodes."""
        return self.directory / "nodes.sock"

    @property
    def token_file(self) -> Path:
        """The users of the API server, with their tokens."""
        return self.directory / "tokens.csv"


def etcd(layout: Layout) -> list[str]:
    """A single member without fsync: its data is thrown away."""
    client_url = f"http://127.0.0.1:{layout.ports.etcd}"
    peer_url = f"http://127.0.0.1:{layout.ports.etcd_peer}"
    return [
        "--name=testcluster",
        f"--data-dir={layout.directory / 'etcd'}",
        f"--listen-client-urls={client_url}",
        f"--advertise-client-urls={client_url}",
        f"--listen-peer-urls={peer_url}",
        f"--initial-advertise-peer-urls={peer_url}",
        f"--initial-cluster=testcluster={peer_url}",
        "--unsafe-no-fsync",
        # Room for 150,000 pods and their history; batches of many objects in a transaction.
        "--quota-backend-bytes=8589934592",
        "--max-txn-ops=1024",
        "--max-request-bytes=33554432",
        "--log-level=warn",
    ]


def apiserver(layout: Layout, controllers: bool) -> list[str]:
    """The API server; without `controllers`, admission does not wait for them."""
    certificates = layout.certificates
    arguments = [
        f"--etcd-servers=http://127.0.0.1:{layout.ports.etcd}",
        "--bind-address=127.0.0.1",
        f"--secure-port={layout.ports.apiserver}",
        "--advertise-address=127.0.0.1",
        # No loopback address is allowed as an endpoint. Pods on real nodes get another one.
        "--endpoint-reconciler-type=none",
        f"--tls-cert-file={certificates.server_file}",
        f"--tls-private-key-file={certificates.server_key_file}",
        f"--client-ca-file={certificates.ca_file}",
        f"--token-auth-file={layout.token_file}",
        "--authorization-mode=RBAC",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={certificates.token_key_file}",
        f"--service-account-signing-key-file={certificates.token_key_file}",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--enable-priority-and-fairness=false",
        "--max-requests-inflight=4000",
        "--max-mutating-requests-inflight=2000",
        "--allow-privileged=true",
        "--profiling=false",
    ]
    if not controllers:
        # Pods would wait for service accounts, and nodes for the removal of a taint.
        arguments.append("--disable-admission-plugins=ServiceAccount,TaintNodesByCondition")
    return arguments


def audit(layout: Layout) -> list[str]:
    """Options of the API server, so that it logs who asked for which path before it answers."""
    return [
        f"--audit-policy-file={layout.audit_policy_file}",
        f"--audit-log-path={layout.audit_log}",
        "--audit-log-mode=blocking",
    ]


def egress(layout: Layout) -> list[str]:
    """Options of the API server, so that it reaches real nodes and pods, and no others.

    Nobody has the addresses of those that kwok plays. They must not be looked for outside.
    """
    return [
        f"--egress-selector-config-file={layout.egress_file}",
        "--kubelet-preferred-address-types=InternalIP",
        # A Service's webhook is called at the address of a pod: no kube-proxy translates its own.
        "--enable-aggregator-routing=true",
    ]


def egress_configuration(layout: Layout) -> JsonObject:
    """Connections to nodes go through a proxy, which runs if the nodes are real.

    Those to webhooks that have a URL do not.
    """
    transport = {"uds": {"udsName": str(layout.nodes_socket)}}
    connection = {"proxyProtocol": "HTTPConnect", "transport": transport}
    return {
        "apiVersion": "apiserver.k8s.io/v1beta1",
        "kind": "EgressSelectorConfiguration",
        "egressSelections": [{"name": "cluster", "connection": connection}],
    }


AUDIT_POLICY: JsonObject = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    # Who holds a lease is in what was written.
    "rules": [
        {
            "level": "Request",
            "resources": [{"group": "coordination.k8s.io", "resources": ["leases"]}],
        },
        {"level": "Metadata"},
    ],
}


def controller_manager(layout: Layout, node_grace_seconds: int) -> list[str]:
    """The controllers that run by default, as the administrator, except the signer.

    Nobody requests certificates here. The signer watches its files with four inotify instances of
    the few that a machine has, and kubelets need those.
    """
    certificates = layout.certificates
    return [
        *client_of_apiserver(layout),
        *serving(layout, layout.ports.controller_manager),
        "--controllers=*,-certificatesigningrequest-signing-controller",
        f"--root-ca-file={certificates.ca_file}",
        f"--service-account-private-key-file={certificates.token_key_file}",
        f"--node-monitor-grace-period={node_grace_seconds}s",
        "--concurrent-replicaset-syncs=20",
        "--concurrent-deployment-syncs=20",
        "--concurrent-serviceaccount-token-syncs=20",
        "--concurrent-namespace-syncs=20",
    ]


def scheduler(layout: Layout) -> list[str]:
    """The scheduler with its default profile."""
    return [*client_of_apiserver(layout), *serving(layout, layout.ports.scheduler)]


def configured_scheduler(layout: Layout, configuration_file: Path, port: int) -> list[str]:
    """A scheduler with a configuration file, which has everything but the serving options."""
    return [f"--config={configuration_file}", *serving(layout, port)]


def connected(layout: Layout, configuration: JsonObject) -> JsonObject:
    """A KubeSchedulerConfiguration with the connection to this cluster.

    With a configuration file, the flags for that are ignored.
    """
    return {
        **configuration,
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(layout.kubeconfig), "qps": 5000, "burst": 10000},
    }


def kwok(layout: Layout, stages_file: Path) -> list[str]:
    """kwok acts as the kubelet of all fake nodes; `stages_file` describes how they behave."""
    return [
        f"--kubeconfig={layout.kubeconfig}",
        f"--config={stages_file}",
        f"--manage-nodes-with-annotation-selector={'='.join(FAKE_NODE_ANNOTATION)}",
        f"--server-address=127.0.0.1:{layout.ports.kwok}",
        "--node-lease-duration-seconds=40",
    ]


def client_of_apiserver(layout: Layout) -> list[str]:
    """How the controller manager and the scheduler reach the API server."""
    return [
        f"--kubeconfig={layout.kubeconfig}",
        "--leader-elect=false",
        "--kube-api-qps=5000",
        "--kube-api-burst=10000",
    ]


def serving(layout: Layout, port: int) -> list[str]:
    """How the controller manager and the scheduler serve their health checks."""
    return [
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--tls-cert-file={layout.certificates.server_file}",
        f"--tls-private-key-file={layout.certificates.server_key_file}",
        "--profiling=false",
    ]


def token_lines(admin_token: str, powerless_token: str) -> str:
    """The API server's token file: token, user, uid, groups."""
    return (
        f'{admin_token},{ADMIN_USER},{ADMIN_USER},"system:masters"\n'
        f"{powerless_token},{POWERLESS_USER},{POWERLESS_USER}\n"
    )


def kubeconfig_text(server: str, ca_file: Path, user: str, token: str) -> str:
    """A kubeconfig with one cluster and one user."""
    return f"""\
apiVersion: v1
kind: Config
current-context: testcluster
clusters:
- name: testcluster
  cluster:
    server: {server}
    certificate-authority: {ca_file}
users:
- name: {user}
  user:
    token: {token}
contexts:
- name: testcluster
  context:
    cluster: testcluster
    user: {user}
"""
