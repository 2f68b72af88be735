"""What the generated clusters cover: how often each feature is used, and with which outcomes.

A proof by examples is worth as much as the examples. Every feature of every rule must occur, and a
feature that can both let a pod in and keep it out must have been seen to do both.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from tests.planning.feasibility.generated_clusters import GeneratedCluster, key_of
from tests.planning.feasibility.oracle import Verdict
from tests.planning.feasibility.used_features import UsedFeatures

Outcomes = Literal["both", "refuses", "accepts", "used"]


@dataclass
class Coverage:
    """Counts by feature: objects that use it, and pairs of pod and node by what the oracle said."""

    used: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    """Pairs that the feature's own plugin refused."""
    accepted: Counter[str] = field(default_factory=Counter)
    """Pairs that no plugin refused."""
    refusals_by: Counter[str] = field(default_factory=Counter)

    def add(self, cluster: GeneratedCluster, verdicts: Mapping[str, Verdict]) -> None:
        """Count one cluster, as the oracle answered."""
        features = UsedFeatures(cluster)
        self.used.update(features.of_cluster())
        for verdict in verdicts.values():
            self.refusals_by.update(verdict.refused_by.values())
        for pod in features.placed:
            verdict = verdicts[key_of(pod)]
            by_plugin = Counter(verdict.refused_by.values())
            for feature in set(features.of_pod(pod)):
                self._count(feature, by_plugin[_plugin(feature)], len(verdict.fits))
        for node in cluster.nodes:
            name = node["metadata"]["name"]
            by_plugin = Counter(verdict.refused_by.get(name, "") for verdict in verdicts.values())
            for feature in set(features.of_node(node)):
                self._count(feature, by_plugin[_plugin(feature)], by_plugin[""])

    def merge(self, other: "Coverage") -> None:
        """Add what was counted elsewhere."""
        self.used += other.used
        self.refused += other.refused
        self.accepted += other.accepted
        self.refusals_by += other.refusals_by

    def gaps(self) -> list[str]:
        """What should have occurred and did not."""
        found = [f"{feature}: never used" for feature in EXPECTED if not self.used[feature]]
        found += [f"{feature}: not expected" for feature in self.used if feature not in EXPECTED]
        for feature, outcomes in EXPECTED.items():
            if outcomes in ("both", "refuses") and not self.refused[feature]:
                found.append(f"{feature}: never refused by its plugin")
            if outcomes in ("both", "accepts") and not self.accepted[feature]:
                found.append(f"{feature}: never accepted")
        return found

    def report(self) -> str:
        """A table for people."""
        lines = [f"{'feature':72} {'used':>8} {'refused':>9} {'accepted':>9}"]
        for feature in EXPECTED:
            counts = (self.used[feature], self.refused[feature], self.accepted[feature])
            lines.append(f"{feature:72} {counts[0]:8} {counts[1]:9} {counts[2]:9}")
        return "\n".join(lines)

    def shares(self) -> str:
        """How much of all refusing each plugin did."""
        total = max(self.refusals_by.total(), 1)
        counts = self.refusals_by.most_common()
        return ", ".join(f"{count / total:.1%} by {plugin}" for plugin, count in counts)

    def _count(self, feature: str, refused: int, accepted: int) -> None:
        self.used[feature] += 1
        self.refused[feature] += refused
        self.accepted[feature] += accepted


def _plugin(feature: str) -> str:
    return feature.partition(":")[0]


def _expected() -> dict[str, Outcomes]:
    return {
        f"{plugin}: {feature}": outcomes
        for (plugin, outcomes), features in _WORDS.items()
        for feature in features
    }


_NEIGHBOUR_WORDS = (
    "one term",
    "several terms",
    "the same term twice",
    "over kubernetes.io/hostname",
    "over topology.kubernetes.io/zone",
    "over topology.kubernetes.io/region",
    "over example.com/rack",
    "over pool",
    "over nowhere",
    "some selector",
    "empty selector",
    "no selector",
    "selector with In",
    "selector with NotIn",
    "selector with Exists",
    "selector with DoesNotExist",
    "namespaces",
    "namespaces that are not listed",
    "namespaceSelector",
    "empty namespaceSelector",
    "namespaceSelector that matches what has no labels",
    "matchLabelKeys merged",
    "matchLabelKeys not merged",
    "mismatchLabelKeys merged",
    "mismatchLabelKeys not merged",
)
# Without company there is no place for a pod that asks for it: no node has the label `nowhere`,
# and no pod is selected by no selector.
_NEVER_NEAR = ("over nowhere", "no selector")

_WORDS: dict[tuple[str, Outcomes], tuple[str, ...]] = {
    # A replacement names no node, so that this plugin has nothing to refuse.
    ("NodeName", "used"): (
        "pod that names its node",
        "pending pod",
        "pod on an unknown node",
    ),
    ("NodeUnschedulable", "both"): (
        "cordoned with the taint",
        "cordoned without the taint",
        "toleration of a cordon, effect NoExecute",
    ),
    ("NodeUnschedulable", "accepts"): (
        "toleration of a cordon, effect NoSchedule",
        "toleration of a cordon, effect empty",
    ),
    ("TaintToleration", "both"): (
        "operator Exists",
        "operator Equal",
        "operator empty",
        "operator Gt",
        "operator Lt",
        "empty key",
        "effect NoSchedule",
        "effect NoExecute",
        "effect PreferNoSchedule",
        "effect empty",
        "taint NoSchedule",
        "taint NoExecute",
        "taint PreferNoSchedule",
        "taint of a cordon without the cordon",
    ),
    ("NodeAffinity", "both"): (
        "nodeSelector",
        "one term",
        "several terms",
        "several expressions",
        "empty term",
        "In",
        "NotIn",
        "Exists",
        "DoesNotExist",
        "Gt",
        "Lt",
        "Gt or Lt of what is no integer",
        "matchFields In",
        "matchFields NotIn",
        "preferred terms",
        "label that is no integer",
        "label with an empty value",
    ),
    ("NodeAffinity", "refuses"): ("no terms",),
    ("NodeAffinity", "accepts"): ("empty nodeSelector",),
    ("NodePorts", "both"): (
        "protocol TCP",
        "protocol UDP",
        "protocol SCTP",
        "protocol by default",
        "no address",
        "wildcard address",
        "one address",
        "no host port",
        "port of a sidecar",
        "port of an init container",
    ),
    ("NodeResourcesFit", "both"): (
        "cpu",
        "memory",
        "ephemeral-storage",
        "nvidia.com/gpu",
        "hugepages-2Mi",
        "example.com/fpga",
        "unheard-of",
        "no requests",
        "init container",
        "init container bigger than the main ones",
        "sidecar",
        "overhead",
        "pod-level requests",
        "pod-level limits",
        "quantity with an exponent",
        "quantity with a fraction",
        "quantity in millis",
        "quantity in micros",
        "quantity in nanos",
        "quantity in binary units",
        "quantity in decimal units",
        "quantity of zero",
        "quantity as a bare number",
        "resize, containerStatuses resources",
        "resize, containerStatuses allocatedResources",
        "resize, initContainerStatuses resources",
        "resize, initContainerStatuses allocatedResources",
        "resize, whole pod",
        "resize, infeasible",
        "resize, deferred",
        "few pod slots",
    ),
    ("NodeResourcesFit", "refuses"): ("more pods than slots", "node that has nothing"),
    ("NodeResourcesFit", "used"): ("succeeded pod", "failed pod"),
    ("VolumeRestrictions", "both"): (
        "ReadWriteOncePod",
        "read-only gcePersistentDisk",
        "writable gcePersistentDisk",
        "read-only awsElasticBlockStore",
        "writable awsElasticBlockStore",
        "read-only iscsi",
        "writable iscsi",
        "read-only rbd",
        "writable rbd",
    ),
    ("VolumeRestrictions", "refuses"): ("missing claim",),
    ("NodeVolumeLimits", "both"): (
        "CSI volume",
        "migrated volume",
        "migrated disk",
        "driver with a limit",
        "driver without a limit",
        "node without drivers",
        "driver without a CSIDriver",
        "driver that does not say whether pods may miss it",
        "driver that pods may miss",
        "driver that pods must not miss",
    ),
    ("VolumeBinding", "both"): (
        "bound volume with node affinity",
        "unbound, static volumes",
        "unbound, allowed topologies",
        "unbound, node already selected",
    ),
    ("VolumeBinding", "accepts"): ("unbound, provisioned anywhere",),
    ("VolumeBinding", "refuses"): (
        "unbound, immediate",
        "unbound, storage capacity",
        "claim not bound to its volume yet",
        "claim being deleted",
        "lost claim",
        "ephemeral volume",
    ),
    # Other volume plugins look for these first, and refuse.
    ("VolumeBinding", "used"): (
        "bound to a missing volume",
        "missing class",
        "claim without class",
    ),
    ("VolumeZone", "both"): ("zone label", "old zone label", "one zone", "several zones"),
    ("PodTopologySpread", "both"): (
        "several constraints",
        "over kubernetes.io/hostname",
        "over topology.kubernetes.io/zone",
        "over topology.kubernetes.io/region",
        "over example.com/rack",
        "over pool",
        "maxSkew 1",
        "maxSkew > 1",
        "some selector",
        "empty selector",
        "no selector",
        "minDomains",
        "matchLabelKeys",
        "nodeAffinityPolicy Honor",
        "nodeAffinityPolicy Ignore",
        "nodeAffinityPolicy by default",
        "node affinity that is ignored",
        "nodeTaintsPolicy Honor",
        "nodeTaintsPolicy Ignore",
        "nodeTaintsPolicy by default",
        "ScheduleAnyway",
        "terminating pod",
        "node without zone",
        "node without hostname",
    ),
    ("PodTopologySpread", "refuses"): ("over nowhere",),
    ("InterPodAffinity", "both"): (
        *(f"affinity, {feature}" for feature in _NEIGHBOUR_WORDS if feature not in _NEVER_NEAR),
        *(f"anti-affinity, {feature}" for feature in _NEIGHBOUR_WORDS),
        "others' anti-affinity alone",
        "preferred term",
        "first of its group",
        "node without zone",
        "node without hostname",
    ),
    ("InterPodAffinity", "refuses"): tuple(f"affinity, {feature}" for feature in _NEVER_NEAR),
    ("NodeDeclaredFeatures", "both"): (
        "own users on the host's network",
        "RestartAllContainers in containers",
        "RestartAllContainers in initContainers",
        "Restart in containers",
        "Restart in initContainers",
        "node with some features",
        "node with no features",
    ),
}

EXPECTED = _expected()
"""Every feature that the clusters are to use, and what is to come of it."""
