"""Which of the scheduler's features a generated object uses: operators, policies, spellings.

A feature is named `Plugin: feature`, after the plugin whose answer it can change.
"""

import re
from collections.abc import Iterator

from testcluster.client import JsonObject
from tests.planning.feasibility.generated_clusters import GeneratedCluster, is_placed
from tests.planning.feasibility.generated_needs import PREFERRED, REQUIRED, SIDECAR
from tests.planning.feasibility.generated_neighbours import NAMESPACES
from tests.planning.feasibility.generated_nodes import OLD_ZONE, SIZE, ZONE
from tests.planning.feasibility.generated_volumes import MUST_BE_INSTALLED

_INTEGER = re.compile(r"-?\d+")
_SPELLINGS = {
    "quantity with an exponent": re.compile(r".*\d[eE][-+]?\d+"),
    "quantity with a fraction": re.compile(r".*\..*"),
    "quantity in millis": re.compile(r".*m"),
    "quantity in micros": re.compile(r".*u"),
    "quantity in nanos": re.compile(r".*n"),
    "quantity in binary units": re.compile(r".*i"),
    "quantity in decimal units": re.compile(r".*[kMG]"),
    "quantity of zero": re.compile(r"0"),
}
_DISKS = ("gcePersistentDisk", "awsElasticBlockStore", "iscsi", "rbd")


class UsedFeatures:
    """The features that the nodes and the placed pods of one cluster use."""

    def __init__(self, cluster: GeneratedCluster) -> None:
        self._cluster = cluster
        names = {node["metadata"]["name"] for node in cluster.nodes}
        self.placed = [pod for pod in cluster.pods if is_placed(pod, names)]
        by_kind: dict[str, dict[str, JsonObject]] = {}
        for item in cluster.others:
            meta = item["metadata"]
            key = f"{meta.get('namespace', '')}/{meta['name']}"
            by_kind.setdefault(item["kind"], {})[key] = item
        self._claims = by_kind.get("PersistentVolumeClaim", {})
        self._volumes = by_kind.get("PersistentVolume", {})
        self._classes = by_kind.get("StorageClass", {})
        self._csi_nodes = by_kind.get("CSINode", {})
        self._drivers = by_kind.get("CSIDriver", {})

    # ------------------------------------------------------------ the cluster

    def of_cluster(self) -> Iterator[str]:
        """Features of pods that are not checked, but must not confuse other answers."""
        for pod in self._cluster.pods:
            if "nodeName" not in pod["spec"]:
                yield "NodeName: pending pod"
            elif pod["status"]["phase"] in ("Succeeded", "Failed"):
                yield f"NodeResourcesFit: {pod['status']['phase'].lower()} pod"
            elif pod not in self.placed:
                yield "NodeName: pod on an unknown node"
            else:
                yield "NodeName: pod that names its node"

    # ------------------------------------------------------------ nodes

    def of_node(self, node: JsonObject) -> Iterator[str]:
        """Words of a node: they matter for every pod."""
        labels, spec = node["metadata"]["labels"], node["spec"]
        taints = spec.get("taints", [])
        marked = any(taint["key"].endswith("/unschedulable") for taint in taints)
        if spec.get("unschedulable"):
            yield f"NodeUnschedulable: cordoned {'with' if marked else 'without'} the taint"
        elif marked:
            yield "TaintToleration: taint of a cordon without the cordon"
        for taint in taints:
            yield f"TaintToleration: taint {taint['effect']}"
        if SIZE in labels and _INTEGER.fullmatch(labels[SIZE]) is None:
            yield "NodeAffinity: label that is no integer"
        if "" in labels.values():
            yield "NodeAffinity: label with an empty value"
        yield from self._room_words(node)
        for key, name in ((ZONE, "zone"), ("kubernetes.io/hostname", "hostname")):
            if key not in labels:
                yield f"InterPodAffinity: node without {name}"
                yield f"PodTopologySpread: node without {name}"
        csi_node = self._csi_nodes.get(f"/{node['metadata']['name']}")
        if csi_node is None:
            yield "NodeVolumeLimits: node without drivers"
        else:
            limited = ["allocatable" in driver for driver in csi_node["spec"]["drivers"]]
            yield f"NodeVolumeLimits: driver {'with' if any(limited) else 'without'} a limit"
        count = len(node["status"].get("declaredFeatures", ()))
        yield f"NodeDeclaredFeatures: node with {'some' if count else 'no'} features"

    def _room_words(self, node: JsonObject) -> Iterator[str]:
        allocatable = node["status"]["allocatable"]
        here = [pod for pod in self.placed if pod["spec"]["nodeName"] == node["metadata"]["name"]]
        slots = int(allocatable.get("pods", 0))
        if slots < 10:
            yield "NodeResourcesFit: few pod slots"
        if slots and len(here) > slots:
            yield "NodeResourcesFit: more pods than slots"
        if not allocatable:
            yield "NodeResourcesFit: node that has nothing"

    # ------------------------------------------------------------ pods

    def of_pod(self, pod: JsonObject) -> Iterator[str]:
        """Words of a placed pod."""
        yield from _toleration_words(pod["spec"])
        yield from _node_affinity_words(pod["spec"])
        yield from _port_words(pod["spec"])
        yield from _resource_words(pod)
        yield from self._volume_words(pod)
        yield from _spread_words(pod)
        yield from self._neighbour_words(pod)
        yield from _feature_words(pod["spec"])

    def _volume_words(self, pod: JsonObject) -> Iterator[str]:
        for volume in pod["spec"].get("volumes", ()):
            for disk in _DISKS:
                if disk in volume:
                    mode = "read-only" if volume[disk].get("readOnly") else "writable"
                    yield f"VolumeRestrictions: {mode} {disk}"
                    if disk == "awsElasticBlockStore":
                        yield "NodeVolumeLimits: migrated disk"
            if "ephemeral" in volume:
                yield "VolumeBinding: ephemeral volume"
            if "persistentVolumeClaim" in volume:
                name = volume["persistentVolumeClaim"]["claimName"]
                yield from self._claim_words(f"{pod['metadata']['namespace']}/{name}")

    def _claim_words(self, key: str) -> Iterator[str]:
        claim = self._claims.get(key)
        if claim is None:
            yield "VolumeRestrictions: missing claim"
            return
        if "ReadWriteOncePod" in claim["spec"]["accessModes"]:
            yield "VolumeRestrictions: ReadWriteOncePod"
        annotations = claim["metadata"].get("annotations", {})
        if "deletionTimestamp" in claim["metadata"]:
            yield "VolumeBinding: claim being deleted"
        elif claim["status"]["phase"] == "Lost":
            yield "VolumeBinding: lost claim"
        elif "pv.kubernetes.io/bind-completed" in annotations:
            yield from self._bound_words(claim["spec"]["volumeName"])
        elif "volumeName" in claim["spec"]:
            yield "VolumeBinding: claim not bound to its volume yet"
        elif "volume.kubernetes.io/selected-node" in annotations:
            yield "VolumeBinding: unbound, node already selected"
        else:
            yield from self._unbound_words(claim["spec"].get("storageClassName"))

    def _bound_words(self, name: str) -> Iterator[str]:
        volume = self._volumes.get(f"/{name}")
        if volume is None:
            yield "VolumeBinding: bound to a missing volume"
            return
        if "nodeAffinity" in volume["spec"]:
            yield "VolumeBinding: bound volume with node affinity"
        if "csi" in volume["spec"]:
            yield "NodeVolumeLimits: CSI volume"
            driver = self._drivers.get(f"/{volume['spec']['csi']['driver']}")
            yield f"NodeVolumeLimits: {_driver_word(driver)}"
        else:
            yield "NodeVolumeLimits: migrated volume"
        for label, zones in volume["metadata"].get("labels", {}).items():
            if label in (ZONE, OLD_ZONE):
                yield f"VolumeZone: {'old zone label' if label == OLD_ZONE else 'zone label'}"
                yield f"VolumeZone: {'several zones' if '__' in zones else 'one zone'}"

    def _unbound_words(self, storage_class: str | None) -> Iterator[str]:
        found = self._classes.get(f"/{storage_class}")
        if found is None:
            yield f"VolumeBinding: {'missing class' if storage_class else 'claim without class'}"
        elif found["volumeBindingMode"] == "Immediate":
            yield "VolumeBinding: unbound, immediate"
        elif found["provisioner"].endswith("no-provisioner"):
            yield "VolumeBinding: unbound, static volumes"
        elif "allowedTopologies" in found:
            yield "VolumeBinding: unbound, allowed topologies"
        elif found["provisioner"].startswith("counted"):
            yield "VolumeBinding: unbound, storage capacity"
        else:
            yield "VolumeBinding: unbound, provisioned anywhere"

    def _neighbour_words(self, pod: JsonObject) -> Iterator[str]:
        affinity = pod["spec"].get("affinity", {})
        near = affinity.get("podAffinity", {}).get(REQUIRED, [])
        apart = affinity.get("podAntiAffinity", {}).get(REQUIRED, [])
        if not near and not apart:
            yield "InterPodAffinity: others' anti-affinity alone"
        for kind, terms in (("affinity", near), ("anti-affinity", apart)):
            if terms:
                yield f"InterPodAffinity: {kind}, {'several terms' if terms[1:] else 'one term'}"
            if any(term in terms[:number] for number, term in enumerate(terms)):
                yield f"InterPodAffinity: {kind}, the same term twice"
            for term in terms:
                for feature in _term_words(term, pod["metadata"]["labels"]):
                    yield f"InterPodAffinity: {kind}, {feature}"
        if len(near) == 1 and self._is_first_of_its_group(pod, near[0]):
            yield "InterPodAffinity: first of its group"
        for kind in ("podAffinity", "podAntiAffinity"):
            if PREFERRED in affinity.get(kind, {}):
                yield "InterPodAffinity: preferred term"

    def _is_first_of_its_group(self, pod: JsonObject, term: JsonObject) -> bool:
        meta = pod["metadata"]
        app = meta["labels"].get("app")
        if term.keys() != {"topologyKey", "labelSelector"}:
            return False
        if app is None or term["labelSelector"] != {"matchLabels": {"app": app}}:
            return False
        return not any(
            other["metadata"]["labels"].get("app") == app
            and other["metadata"]["namespace"] == meta["namespace"]
            for other in self.placed
            if other is not pod
        )


def _driver_word(driver: JsonObject | None) -> str:
    if driver is None:
        return "driver without a CSIDriver"
    required = driver["spec"].get(MUST_BE_INSTALLED)
    return {
        None: "driver that does not say whether pods may miss it",
        False: "driver that pods may miss",
        True: "driver that pods must not miss",
    }[required]


def _toleration_words(spec: JsonObject) -> Iterator[str]:
    for toleration in spec.get("tolerations", ()):
        if toleration.get("key", "").endswith("/unschedulable"):
            effect = toleration.get("effect", "empty")
            yield f"NodeUnschedulable: toleration of a cordon, effect {effect}"
            continue
        yield f"TaintToleration: operator {toleration.get('operator', 'empty')}"
        yield f"TaintToleration: effect {toleration.get('effect', 'empty')}"
        if "key" not in toleration:
            yield "TaintToleration: empty key"


def _node_affinity_words(spec: JsonObject) -> Iterator[str]:
    if "nodeSelector" in spec:
        yield f"NodeAffinity: {'nodeSelector' if spec['nodeSelector'] else 'empty nodeSelector'}"
    affinity = spec.get("affinity", {}).get("nodeAffinity")
    if affinity is None:
        return
    if PREFERRED in affinity:
        yield "NodeAffinity: preferred terms"
    if REQUIRED not in affinity:
        return
    terms = affinity[REQUIRED]["nodeSelectorTerms"]
    yield f"NodeAffinity: {('no terms', 'one term', 'several terms')[min(len(terms), 2)]}"
    for term in terms:
        expressions = term.get("matchExpressions", [])
        if not term:
            yield "NodeAffinity: empty term"
        if len(expressions) > 1:
            yield "NodeAffinity: several expressions"
        for expression in expressions:
            yield f"NodeAffinity: {expression['operator']}"
            if expression["operator"] in ("Gt", "Lt") and not _INTEGER.fullmatch(
                expression["values"][0]
            ):
                yield "NodeAffinity: Gt or Lt of what is no integer"
        for field in term.get("matchFields", ()):
            yield f"NodeAffinity: matchFields {field['operator']}"


def _port_words(spec: JsonObject) -> Iterator[str]:
    for container in (*spec["containers"], *spec.get("initContainers", ())):
        for port in container.get("ports", ()):
            if "hostPort" not in port:
                yield "NodePorts: no host port"
            elif container in spec["containers"]:
                yield f"NodePorts: protocol {port.get('protocol', 'by default')}"
                yield f"NodePorts: {_address(port)}"
            elif container.get("restartPolicy") == SIDECAR:
                yield "NodePorts: port of a sidecar"
            else:
                yield "NodePorts: port of an init container"


def _address(port: JsonObject) -> str:
    address = port.get("hostIP", "")
    return {"": "no address", "0.0.0.0": "wildcard address"}.get(address, "one address")


def _resource_words(pod: JsonObject) -> Iterator[str]:
    spec = pod["spec"]
    requests = [each.get("resources", {}).get("requests", {}) for each in spec["containers"]]
    if not any(requests):
        yield "NodeResourcesFit: no requests"
    for name, amount in (pair for each in requests for pair in each.items()):
        yield f"NodeResourcesFit: {name}"
        if not isinstance(amount, str):
            yield "NodeResourcesFit: quantity as a bare number"
        for feature, spelling in _SPELLINGS.items():
            if spelling.fullmatch(str(amount)):
                yield f"NodeResourcesFit: {feature}"
    for container in spec.get("initContainers", ()):
        is_sidecar = container.get("restartPolicy") == SIDECAR
        yield f"NodeResourcesFit: {'sidecar' if is_sidecar else 'init container'}"
        if container.get("resources", {}).get("requests", {}).get("cpu") in ("2", "2500m"):
            yield "NodeResourcesFit: init container bigger than the main ones"
    if "overhead" in spec:
        yield "NodeResourcesFit: overhead"
    for field in spec.get("resources", ()):
        yield f"NodeResourcesFit: pod-level {field}"
    yield from _resize_words(pod["status"])


def _resize_words(status: JsonObject) -> Iterator[str]:
    for field in ("containerStatuses", "initContainerStatuses"):
        for container in status.get(field, ()):
            for given in ("resources", "allocatedResources"):
                if given in container:
                    yield f"NodeResourcesFit: resize, {field} {given}"
    if "resources" in status:
        yield "NodeResourcesFit: resize, whole pod"
    for condition in status.get("conditions", ()):
        yield f"NodeResourcesFit: resize, {condition['reason'].lower()}"


def _selector_word(selector: JsonObject | None) -> str:
    if selector is None:
        return "no selector"
    return "some selector" if selector else "empty selector"


def _term_words(term: JsonObject, labels: dict[str, str]) -> Iterator[str]:
    yield f"over {term['topologyKey']}"
    selector = term.get("labelSelector")
    yield _selector_word(selector)
    for expression in (selector or {}).get("matchExpressions", ()):
        yield f"selector with {expression['operator']}"
    if "namespaces" in term:
        known = all(name in NAMESPACES for name in term["namespaces"])
        yield "namespaces" if known else "namespaces that are not listed"
    if "namespaceSelector" in term:
        yield from _namespace_selector_words(term["namespaceSelector"])
    for field in ("matchLabelKeys", "mismatchLabelKeys"):
        for key in term.get(field, ()):
            expressions = (selector or {}).get("matchExpressions", ())
            merged = any(
                each["key"] == key and each.get("values") == [labels.get(key)]
                for each in expressions
            )
            yield f"{field} {'merged' if merged else 'not merged'}"


def _namespace_selector_words(selector: JsonObject) -> Iterator[str]:
    expressions = selector.get("matchExpressions", [])
    if not selector:
        yield "empty namespaceSelector"
    elif expressions and all(each["operator"] in ("NotIn", "DoesNotExist") for each in expressions):
        yield "namespaceSelector that matches what has no labels"
    else:
        yield "namespaceSelector"


def _spread_words(pod: JsonObject) -> Iterator[str]:
    constraints = pod["spec"].get("topologySpreadConstraints", [])
    hard = [each for each in constraints if each["whenUnsatisfiable"] == "DoNotSchedule"]
    if len(hard) < len(constraints):
        yield "PodTopologySpread: ScheduleAnyway"
    if len(hard) > 1:
        yield "PodTopologySpread: several constraints"
    if hard and "deletionTimestamp" in pod["metadata"]:
        yield "PodTopologySpread: terminating pod"
    affinity = pod["spec"].get("affinity", {}).get("nodeAffinity", {})
    chooses_nodes = bool(pod["spec"].get("nodeSelector") or REQUIRED in affinity)
    for constraint in hard:
        if chooses_nodes and constraint.get("nodeAffinityPolicy") == "Ignore":
            yield "PodTopologySpread: node affinity that is ignored"
        yield f"PodTopologySpread: over {constraint['topologyKey']}"
        yield f"PodTopologySpread: {_selector_word(constraint.get('labelSelector'))}"
        yield f"PodTopologySpread: maxSkew {'> 1' if constraint['maxSkew'] > 1 else '1'}"
        for field in ("minDomains", "matchLabelKeys"):
            if field in constraint:
                yield f"PodTopologySpread: {field}"
        for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            yield f"PodTopologySpread: {field} {constraint.get(field, 'by default')}"


def _feature_words(spec: JsonObject) -> Iterator[str]:
    if spec.get("hostNetwork") and spec.get("hostUsers") is False:
        yield "NodeDeclaredFeatures: own users on the host's network"
    for field in ("containers", "initContainers"):
        for container in spec.get(field, ()):
            for rule in container.get("restartPolicyRules", ()):
                yield f"NodeDeclaredFeatures: {rule['action']} in {field}"
