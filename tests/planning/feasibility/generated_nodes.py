"""Nodes of generated clusters: labels, taints, room, and the features they declare."""

from testcluster.client import JsonObject
from tests.planning.feasibility.cluster_focus import Focus
from tests.planning.feasibility.draw import Draw

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
DRIVER_ZONES = ("topology.ebs.csi.aws.com/zone", "topology.gke.io/zone")
RACK = "example.com/rack"
POOL = "pool"
SIZE = "size"
CORDONED = "node.kubernetes.io/unschedulable"

ZONES = ("a", "b", "c", "d", "e")
RACKS = ("r0", "r1", "r2", "r3", "r4", "r5", "r6")
POOLS = ("general", "batch", "")
SIZES = ("3", "8", "12", "-4", "007", "big", "1.5", "9223372036854775808", "")

TAINTS: tuple[JsonObject, ...] = (
    {"key": "dedicated", "value": "db", "effect": "NoSchedule"},
    {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"},
    {"key": "dedicated", "effect": "NoExecute"},
    {"key": "maintenance", "effect": "NoExecute"},
    {"key": "maintenance", "value": "soon", "effect": "PreferNoSchedule"},
    {"key": "level", "value": "5", "effect": "NoSchedule"},
    {"key": "level", "value": "1", "effect": "NoExecute"},
)
FEATURES = (
    "RestartAllContainersOnContainerExits",
    "UserNamespacesHostNetworkSupport",
    "ExtendWebSocketsToKubelet",
)

GPU = "nvidia.com/gpu"
FPGA = "example.com/fpga"
HUGEPAGES = "hugepages-2Mi"


def node_names(count: int) -> list[str]:
    """Names in order."""
    return [f"node-{number:02}" for number in range(count)]


def make_nodes(draw: Draw, focus: Focus, count: int) -> list[JsonObject]:
    """Nodes as the API server shows them."""
    return [_node(draw, focus, name) for name in node_names(count)]


def _node(draw: Draw, focus: Focus, name: str) -> JsonObject:
    spec: JsonObject = {}
    taints = _taints(draw, focus)
    if draw.chance(focus.taints * 0.3):
        spec["unschedulable"] = True
        if draw.chance(0.6):
            taints.append({"key": CORDONED, "effect": "NoSchedule"})
    elif draw.chance(focus.taints * 0.1):
        taints.append({"key": CORDONED, "effect": "NoSchedule"})
    if taints:
        spec["taints"] = taints
    status: JsonObject = {"allocatable": _allocatable(draw, focus)}
    features = [each for each in FEATURES if draw.chance(0.6)]
    if features:
        status["declaredFeatures"] = features
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": _labels(draw, name)},
        "spec": spec,
        "status": status,
    }


def _labels(draw: Draw, name: str) -> dict[str, str]:
    labels = {}
    if draw.chance(0.95):
        labels[HOSTNAME] = name
    if draw.chance(0.85):
        zone = draw.one(ZONES)
        labels[ZONE] = zone
        if draw.chance(0.3):
            labels[OLD_ZONE] = zone
        labels.update({key: zone for key in DRIVER_ZONES if draw.chance(0.7)})
        if draw.chance(0.8):
            labels[REGION] = "west" if zone in "ab" else "east"
    elif draw.chance(0.3):
        labels[OLD_ZONE] = draw.one(ZONES)
    if draw.chance(0.8):
        labels[RACK] = draw.one(RACKS)
    if draw.chance(0.9):
        labels[POOL] = draw.one(POOLS)
    if draw.chance(0.8):
        labels[SIZE] = draw.one(SIZES)
    return labels


def _taints(draw: Draw, focus: Focus) -> list[JsonObject]:
    if not draw.chance(focus.taints * 0.7):
        return []
    return [dict(taint) for taint in draw.some(TAINTS, 1, 3)]


def _allocatable(draw: Draw, focus: Focus) -> JsonObject:
    if draw.chance(focus.tight):
        return _small(draw)
    return {
        "cpu": draw.one(("64", "63900m", "1e2", 96)),
        "memory": draw.one(("256Gi", "263921168Ki", "3e11", "270G")),
        "ephemeral-storage": draw.one(("900Gi", "966367641600")),
        "pods": draw.one(("110", 250)),
        GPU: draw.one(("0", "8")),
        HUGEPAGES: "2Gi",
        FPGA: "16",
    }


def _small(draw: Draw) -> JsonObject:
    allocatable: JsonObject = {
        "cpu": draw.one(("2", "3.5", "3920m", "7", "0.75e1", "4000000u", 5, "1")),
        "memory": draw.one(("2Gi", "3.5Gi", "7e9", "4000000Ki", "6442450944", "800M", "12G")),
        "pods": draw.one(("3", "4", "6", "7", "8", "9", "110")),
    }
    if draw.chance(0.03):
        # A kubelet that has only just registered its node.
        return {}
    if draw.chance(0.7):
        allocatable["ephemeral-storage"] = draw.one(("1Gi", "2500M", "8e9", "20Gi"))
    if draw.chance(0.5):
        allocatable[GPU] = draw.one(("0", "1", "2", "4"))
    if draw.chance(0.5):
        allocatable[HUGEPAGES] = draw.one(("64Mi", "256Mi", "1Gi"))
    if draw.chance(0.4):
        allocatable[FPGA] = draw.one(("2", "1k", "0.5"))
    return allocatable
