"""The files that a node reads, with the reasons for what is in them."""

import json
import shlex
from dataclasses import dataclass
from pathlib import Path

from testcluster.client import JsonObject
from testcluster.realnodes.addresses import (
    CLUSTER_DOMAIN,
    DNS_SERVICE_ADDRESS,
    FABRIC_ADDRESS,
    POD_NETWORK,
    NodeAddresses,
)
from testcluster.realnodes.images import PAUSE_IMAGE
from testcluster.realnodes.tools import Tools

# A node is NotReady when its lease was not renewed for the grace period. The kubelet renews it four
# times as often as it ends; on a busy machine a renewal may come late.
LEASE_SECONDS = 12
MONITOR_GRACE_SECONDS = 20
CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
STATIC_PODS = "/var/lib/kubelet/static-pods"
"""Where the kubelet finds the manifests of its static pods."""


@dataclass(frozen=True)
class NodeFiles:
    """One node: its network, its directory, and what it is started from."""

    addresses: NodeAddresses
    directory: Path
    logs: Path
    cgroup: str
    kubeconfig: Path
    node_binary: Path
    image_archive: Path
    tools: Tools
    snapshotter: str

    @property
    def name(self) -> str:
        """The node's name."""
        return self.addresses.name

    @property
    def init(self) -> Path:
        """The script that runs as the first process of the node."""
        return self.directory / "init"

    def log(self, program: str) -> Path:
        """The log of one of its programs."""
        return self.logs / f"{self.name}-{program}.log"

    def write(self, others: list[NodeAddresses]) -> None:
        """Write all of them; `others` are the nodes that pods here can reach."""
        self.directory.mkdir(parents=True)
        network = self.directory / "cni" / "10-pods.conflist"
        network.parent.mkdir()
        network.write_text(json.dumps(pod_network(self.addresses)))
        (self.directory / "containerd.toml").write_text(containerd(self, network.parent))
        (self.directory / "kubelet.json").write_text(json.dumps(kubelet(self)))
        (self.directory / "kube-proxy.json").write_text(json.dumps(kube_proxy(self)))
        self.init.write_text(init_script(self, others))
        self.init.chmod(0o755)


def pod_network(addresses: NodeAddresses) -> JsonObject:
    """The CNI configuration: a bridge for the pods of the node, which is their gateway."""
    address_range = {
        "type": "host-local",
        "ranges": [[{"subnet": addresses.pod_network}]],
        "routes": [{"dst": "0.0.0.0/0"}],
        "dataDir": "/run/pod-addresses",
    }
    bridge = {
        "type": "bridge",
        "bridge": "pods",
        "isGateway": True,
        # A pod may reach itself through a Service.
        "hairpinMode": True,
        "ipam": address_range,
    }
    return {"cniVersion": "0.4.0", "name": "pods", "plugins": [bridge]}


def containerd(files: NodeFiles, network: Path) -> str:
    """The configuration of containerd, in a version that 1.6 and 2.x read."""
    runc = files.tools.find("runc")
    cri = 'plugins."io.containerd.grpc.v1.cri"'
    return f"""\
version = 2
root = "/var/lib/containerd"
state = "/run/containerd"

[grpc]
address = "{CONTAINERD_SOCKET}"

[{cri}]
sandbox_image = "{PAUSE_IMAGE}"
disable_apparmor = true
# Where root lacks CAP_SYS_RESOURCE, runc could not lower the score.
restrict_oom_score_adj = true

[{cri}.cni]
bin_dir = "{files.tools.cni_directory}"
conf_dir = "{network}"

[{cri}.containerd]
snapshotter = "{files.snapshotter}"

[{cri}.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[{cri}.containerd.runtimes.runc.options]
BinaryName = "{runc}"
SystemdCgroup = false
"""


def kubelet(files: NodeFiles) -> JsonObject:
    """The kubelet as it is by default, except where it would touch the host or another node."""
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        # Nothing but this node can reach its port.
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{files.cgroup}/{files.name}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "makeIPTablesUtilChains": False,
        "localStorageCapacityIsolation": False,
        "nodeLeaseDurationSeconds": LEASE_SECONDS,
        # A kubelet that goes on after a halt is Ready again this soon.
        "nodeStatusUpdateFrequency": "2s",
        "staticPodPath": STATIC_PODS,
        # Answers where a test starts it (dns.py). The host's own DNS is not for pods.
        "clusterDNS": [DNS_SERVICE_ADDRESS],
        "clusterDomain": CLUSTER_DOMAIN,
        "resolvConf": "",
        # The node believes that it has the whole machine. What others use must evict nobody here.
        "evictionHard": {"memory.available": "0%"},
        "imageGCHighThresholdPercent": 100,
    }


def kube_proxy(files: NodeFiles) -> JsonObject:
    """kube-proxy as it is by default, without sysctls that belong to the whole machine."""
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "clusterCIDR": POD_NETWORK,
        "hostnameOverride": files.name,
        "clientConnection": {"kubeconfig": str(files.kubeconfig)},
        "conntrack": {"maxPerCore": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
        # Pods on one bridge would answer each other past the node that translated the address.
        "iptables": {"masqueradeAll": True},
    }


def init_script(files: NodeFiles, others: list[NodeAddresses]) -> str:
    """The first process of the node: sets up its network and directories, and starts the rest.

    It runs in namespaces of its own. Default paths are empty directories in memory there, so nodes
    do not meet each other and leave nothing on disk. First it reports that the namespaces are
    there, and waits until its cable is plugged in.
    """
    own = files.addresses
    routes = "\n".join(
        f"ip route add {other.pod_network} via {other.address}" for other in others if other != own
    )
    variables = "\n".join(
        f"export {name}={shlex.quote(value)}" for name, value in files.tools.env.items()
    )
    kubelet_options = [
        f"--config={files.directory / 'kubelet.json'}",
        f"--kubeconfig={files.kubeconfig}",
        f"--hostname-override={files.name}",
        f"--node-ip={own.address}",
    ]
    return f"""\
#!/bin/sh
set -e
{variables}
echo up
read plugged_in

hostname {files.name}
ip link set lo up
ip addr add {own.address}/24 dev eth0
ip link set eth0 up
ip route add default via {FABRIC_ADDRESS}
{routes}
echo 1 > /proc/sys/net/ipv4/ip_forward

for directory in /run /var/lib /var/log; do mount -t tmpfs node $directory; done
mkdir -p /run/containerd /run/lock {STATIC_PODS} /var/log/pods /var/log/containers
# Volumes are mounted by the kubelet and have to be seen by containers.
mount --make-rshared /

containerd --config {files.directory}/containerd.toml > {files.log("containerd")} 2>&1 &
ctr="ctr --address {CONTAINERD_SOCKET} --namespace k8s.io"
for attempt in $(seq 300); do
  if $ctr version > /dev/null 2>&1; then break; fi
  sleep 0.1
done
$ctr images import --snapshotter {files.snapshotter} {files.image_archive} > /dev/null
{files.node_binary} kubelet {" ".join(kubelet_options)} > {files.log("kubelet")} 2>&1 &
{files.node_binary} kube-proxy --config={files.directory}/kube-proxy.json \\
  > {files.log("kube-proxy")} 2>&1 &
wait
"""
