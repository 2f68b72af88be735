"""The DNS of a cluster with real nodes: CoreDNS as pods, at the address that kubelets give to pods.

A pod on each node, so that DNS stays while any of them is drained.
"""

from testcluster.applying import apply
from testcluster.build import coredns_program, ensure_program
from testcluster.builders import daemonset, service
from testcluster.client import JsonObject
from testcluster.cluster import TestCluster
from testcluster.realnodes.addresses import CLUSTER_DOMAIN, DNS_SERVICE_ADDRESS
from testcluster.realnodes.images import Image, write_archive

NAMESPACE, NAME, SERVICE_NAME = "kube-system", "coredns", "kube-dns"
LABELS = {"k8s-app": "kube-dns"}
"""By which NetworkPolicies of all kinds of clusters select it."""
IMAGE = Image("testcluster.local/coredns:1", ("/coredns",))
# Names outside of the cluster are refused: nothing is asked of the machine's own DNS.
COREFILE = f"""\
.:53 {{
    errors
    health
    ready
    kubernetes {CLUSTER_DOMAIN} in-addr.arpa
    cache 5
}}
"""
READ = [
    {
        "apiGroups": [""],
        "resources": ["namespaces", "pods", "services"],
        "verbs": ["list", "watch"],
    },
    {
        "apiGroups": ["discovery.k8s.io"],
        "resources": ["endpointslices"],
        "verbs": ["list", "watch"],
    },
]
POD: JsonObject = {
    "serviceAccountName": NAME,
    # Not its own address.
    "dnsPolicy": "Default",
    "tolerations": [{"operator": "Exists"}],
    "containers": [
        {
            "name": NAME,
            "image": IMAGE.name,
            "imagePullPolicy": "Never",
            "args": ["-conf", "/etc/coredns/Corefile"],
            "readinessProbe": {"httpGet": {"path": "/ready", "port": 8181}, "periodSeconds": 1},
            "volumeMounts": [{"name": "config", "mountPath": "/etc/coredns"}],
        }
    ],
    "volumes": [{"name": "config", "configMap": {"name": NAME}}],
}


def start_dns(cluster: TestCluster) -> None:
    """Start it on every node, and wait until it answers."""
    archive = cluster.layout.directory / "coredns.tar"
    write_archive(archive, {"/coredns": ensure_program(coredns_program())}, IMAGE)
    cluster.nodes.import_images(archive)
    archive.unlink()
    apply(cluster, *dns_objects())
    rollout = ("rollout", "status", f"daemonset/{NAME}", "--timeout=120s")
    cluster.kubectl("--namespace", NAMESPACE, *rollout)


def dns_objects() -> list[JsonObject]:
    """What is created for it."""
    own = {"name": NAME, "namespace": NAMESPACE}
    dns = service(f"{NAMESPACE}/{SERVICE_NAME}", selector=LABELS)
    dns["spec"]["clusterIP"] = DNS_SERVICE_ADDRESS
    dns["spec"]["ports"] = [
        {"name": protocol, "port": 53, "protocol": protocol.upper()} for protocol in ("udp", "tcp")
    ]
    group = "rbac.authorization.k8s.io"
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": own},
        {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": NAME},
            "rules": READ,
        },
        {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": NAME},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": NAME},
            "subjects": [{"kind": "ServiceAccount", **own}],
        },
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": own,
            "data": {"Corefile": COREFILE},
        },
        daemonset(f"{NAMESPACE}/{NAME}", labels=LABELS, template=POD),
        dns,
    ]
