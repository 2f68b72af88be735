"""Names that say nothing about whose cluster it is, each of them whole.

A domain of Kubernetes says nothing about a key: people put keys of their own under it. What is not
listed here is renamed in an anonymized file, and plans are the same. Listed is what planning reads,
and what makes such a file readable.
"""

import re

from rescheduler import labels
from rescheduler.model.kinds import KIND_BY_NAME


def _constants() -> set[str]:
    """Every key that we read or write."""
    found: set[str] = set()
    for value in vars(labels).values():
        found.update([value] if isinstance(value, str) else value if _is_texts(value) else ())
    return {text for text in found if re.fullmatch(r"[\w.-]+/[\w.-]+", text)}


def _is_texts(value: object) -> bool:
    return isinstance(value, tuple) and all(isinstance(text, str) for text in value)


def _under(domain: str, *names: str) -> set[str]:
    return {f"{domain}/{name}" for name in names}


KEYS = frozenset(
    _constants()
    | _under("kubernetes.io", "arch", "os")
    | _under("beta.kubernetes.io", "arch", "instance-type", "os")
    | _under("node-role.kubernetes.io", "node", "worker")
    | _under("node.kubernetes.io", "network-unavailable", "out-of-service")
    | _under("node.cloudprovider.kubernetes.io", "shutdown", "uninitialized")
    | _under("app.kubernetes.io", "component", "instance", "managed-by", "name", "part-of")
    | _under("topology.ebs.csi.aws.com", "zone")
    | _under("topology.gke.io", "zone")
    | _under("topology.disk.csi.azure.com", "zone")
    | _under("topology.k8s.aws", "zone-id")
    | _under("eks.amazonaws.com", "capacityType", "nodegroup")
    | _under("cloud.google.com", "gke-accelerator", "gke-nodepool", "gke-preemptible", "gke-spot")
    | _under("kubernetes.azure.com", "agentpool", "mode", "scalesetpriority")
    | _under("karpenter.sh", "capacity-type", "disrupted", "initialized", "nodepool", "registered")
    | _under("nvidia.com", "gpu")
    # Provisioners of volumes, and what they are migrated from.
    | _under("kubernetes.io", "aws-ebs", "azure-disk", "azure-file", "cinder", "gce-pd")
    | _under("kubernetes.io", "no-provisioner", "portworx-volume", "vsphere-volume")
)

SIZE_KEYS = frozenset(
    _under("karpenter.k8s.aws", "instance-cpu", "instance-gpu-count", "instance-memory")
    | _under("karpenter.k8s.aws", "instance-ebs-bandwidth", "instance-network-bandwidth")
    | _under("karpenter.k8s.aws", "instance-generation", "instance-local-nvme")
    | _under("karpenter.azure.com", "sku-cpu", "sku-gpu-count", "sku-memory")
)
"""Labels that say how big a machine is, in numbers that selectors compare."""

NAMES = frozenset(
    (
        *("", "true", "false", "default", "kube-system", "kube-public", "kube-node-lease"),
        *("system-cluster-critical", "system-node-critical"),
        *("default-scheduler", "rescheduler-scheduler"),
        # How a required node affinity names a node.
        "metadata.name",
        # Not addresses of anyone.
        *("0.0.0.0", "::", "127.0.0.1", "::1"),
        # Drivers that volumes of built-in types are counted against.
        *("ebs.csi.aws.com", "pd.csi.storage.gke.io", "disk.csi.azure.com", "file.csi.azure.com"),
        *("cinder.csi.openstack.org", "csi.vsphere.vmware.com", "pxd.portworx.com"),
    )
)

RESOURCES = re.compile(
    r"cpu|memory|ephemeral-storage|pods|storage|count|hugepages-\d+[KMG]i"
    r"|(nvidia|amd)\.com/gpu|nvidia\.com/mig-\dg\.\d+gb|gpu\.intel\.com/(i915|xe)"
    r"|habana\.ai/gaudi|google\.com/tpu|aws\.amazon\.com/(neuron|neuroncore)|vpc\.amazonaws\.com/efa"
)
"""Resources. `count` is how many volumes a driver attaches to a node."""

KINDS = frozenset((*KIND_BY_NAME, "CronJob", "Migration", "MoveRecord"))
GROUPS = frozenset(kind.api_version.rpartition("/")[0] for kind in KIND_BY_NAME.values()) | {
    "rescheduler.dev"
}
VERSION = re.compile(r"v\d{1,2}((alpha|beta)\d{1,2})?")
"""Of an API group."""

WORDS = frozenset(
    (
        *("True", "False", "Unknown"),
        # Conditions of nodes, pods, workloads and budgets.
        *("Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"),
        *("PodScheduled", "Initialized", "ContainersReady", "PodReadyToStartContainers"),
        *("DisruptionTarget", "PodResizePending", "PodResizeInProgress", "DisruptionAllowed"),
        *("Available", "Progressing", "ReplicaFailure", "Complete", "Failed", "Suspended"),
        # Reasons.
        *("KubeletReady", "KubeletNotReady", "NodeStatusUnknown", "Unschedulable"),
        *("SchedulingGated", "PodCompleted", "ContainersNotReady", "Infeasible", "Deferred"),
        # How workloads replace pods, and what Services are.
        *("RollingUpdate", "Recreate", "OnDelete"),
        *("ClusterIP", "NodePort", "LoadBalancer", "ExternalName"),
        # Phases of pods, namespaces, volumes and claims.
        *("Pending", "Running", "Succeeded", "Active", "Terminating"),
        *("Bound", "Lost", "Released"),
        # Taints, tolerations, selectors and spread.
        *("NoSchedule", "PreferNoSchedule", "NoExecute", "Equal", "Exists"),
        *("In", "NotIn", "DoesNotExist", "Gt", "Lt"),
        *("DoNotSchedule", "ScheduleAnyway", "Honor", "Ignore"),
        # Pods, volumes and budgets.
        *("Always", "OnFailure", "Never", "TCP", "UDP", "SCTP", "Filesystem", "Block"),
        *("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"),
        *("Immediate", "WaitForFirstConsumer", "IfHealthyBudget", "AlwaysAllow"),
    )
)
"""What Kubernetes itself writes where a field has one of a few words."""
