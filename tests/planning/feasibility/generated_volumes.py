"""Volumes of generated pods, and all that lies behind them: claims, volumes, classes, drivers.

Volumes that are still to be bound all differ in size, and so do claims: of equally large ones
the scheduler takes whichever its cache lists first, which is a matter of luck.
"""

from testcluster.client import JsonObject
from tests.planning.feasibility.cluster_focus import Focus
from tests.planning.feasibility.draw import Draw
from tests.planning.feasibility.generated_nodes import HOSTNAME, OLD_ZONE, RACK, RACKS, ZONE, ZONES

DRIVER = "csi.example.com"
OTHER_DRIVER = "other.csi.example.com"
EBS, EBS_DRIVER = "kubernetes.io/aws-ebs", "ebs.csi.aws.com"
GCE, GCE_DRIVER = "kubernetes.io/gce-pd", "pd.csi.storage.gke.io"
MUST_BE_INSTALLED = "preventPodSchedulingIfMissing"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
WAIT, IMMEDIATE = "WaitForFirstConsumer", "Immediate"

LOCAL, ANYWHERE, ZONAL, AT_ONCE = "local", "anywhere", "zonal", "at-once"
COUNTED, OLD_EBS, MISSING = "counted", "old-ebs", "no-such-class"

CLAIM_STATES = (
    *("bound",) * 8,
    *("wait-static",) * 4,
    *("wait-provisioned",) * 4,
    "wait-selected-node",
    "wait-capacity",
    "immediate",
    "prebound",
    "lost",
    "deleting",
    "without-class",
    "missing-class",
    "missing-volume",
    "missing",
)


class Storage:
    """Makes volumes for pods, and remembers the objects that they need."""

    def __init__(self, draw: Draw, focus: Focus, nodes: list[str]) -> None:
        self._draw = draw
        self._focus = focus
        self._nodes = nodes
        self._number = 0
        self.objects: list[JsonObject] = []

    def cluster_objects(self) -> list[JsonObject]:
        """What there is whether pods use it or not: classes, CSI nodes and volumes to be had."""
        return [
            *_classes(),
            *self._csi_nodes(),
            *(self._available_volume() for _ in range(len(self._nodes))),
        ]

    def drivers(self) -> list[JsonObject]:
        """CSI drivers. Some want their pods to stay off nodes that do not have them."""
        specs: dict[str, JsonObject] = {
            "counted.csi.example.com": {"storageCapacity": True},
            DRIVER: {"storageCapacity": False},
            OTHER_DRIVER: {},
            EBS_DRIVER: {},
        }
        for spec in specs.values():
            if self._draw.chance(0.6):
                spec[MUST_BE_INSTALLED] = self._draw.chance(0.6)
        if self._draw.chance(0.3):
            del specs[OTHER_DRIVER]
        return [_csi_driver(name, spec) for name, spec in specs.items()]

    def _csi_nodes(self) -> list[JsonObject]:
        """At least one: without any, we take it that they may not be listed."""
        made = [_csi_node(self._draw, name) for name in self._nodes if self._draw.chance(0.85)]
        return made or [_csi_node(self._draw, self._nodes[0])]

    def uses_volumes(self) -> bool:
        """Whether the next workload has volumes at all."""
        return self._draw.chance(self._focus.volumes)

    def shared(self, namespace: str) -> list[JsonObject]:
        """Volumes that all replicas of a workload name alike."""
        return [self._shared(namespace, f"v{n}") for n in range(self._draw.one((1, 1, 2)))]

    def own(self, namespace: str) -> list[JsonObject]:
        """Volumes of one replica alone, as a StatefulSet gives them."""
        return [
            _claim_volume(f"own{n}", self._claim(namespace))
            for n in range(self._draw.one((1, 1, 2)))
        ]

    def claims_of_ephemeral(self, pod: JsonObject) -> None:
        """Make the claims that the controller would have made for a pod's ephemeral volumes."""
        for volume in pod["spec"].get("volumes", ()):
            if "ephemeral" in volume and self._draw.chance(0.9):
                meta = pod["metadata"]
                name = f"{meta['name']}-{volume['name']}"
                claim = self._bound_claim(meta["namespace"], name, self._csi_volume())
                claim["metadata"]["ownerReferences"] = [
                    {
                        "apiVersion": "v1",
                        "kind": "Pod",
                        "name": meta["name"],
                        "uid": meta["uid"],
                        "controller": True,
                    }
                ]

    def _shared(self, namespace: str, name: str) -> JsonObject:
        kind = self._draw.random()
        if kind < 0.55:
            return _claim_volume(name, self._claim(namespace))
        if kind < 0.87:
            return {"name": name, **_inline_disk(self._draw)}
        if kind < 0.93:
            return {"name": name, "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}
        return {"name": name, **self._draw.one(({"emptyDir": {}}, {"hostPath": {"path": "/"}}))}

    # ------------------------------------------------------------ claims

    def _claim(self, namespace: str) -> str:
        """A claim in some state; its name."""
        draw = self._draw
        name = f"claim-{self._next()}"
        state = draw.one(CLAIM_STATES)
        if state == "bound":
            self._bound_claim(namespace, name, self._bound_volume())
        elif state == "missing-volume":
            self._bound_claim(namespace, name, "no-such-volume")
        elif state == "wait-static":
            claim = self._add_claim(namespace, name, LOCAL)
            if draw.chance(0.2):
                claim["spec"]["selector"] = {"matchLabels": {"disk": draw.one(("ssd", "hdd"))}}
            if draw.chance(0.1):
                self._reserve_volume(claim)
        elif state == "wait-provisioned":
            self._add_claim(namespace, name, draw.one((ANYWHERE, ZONAL, ZONAL, OLD_EBS)))
        elif state == "wait-selected-node":
            claim = self._add_claim(namespace, name, ANYWHERE)
            chosen = {"volume.kubernetes.io/selected-node": draw.one(self._nodes)}
            claim["metadata"]["annotations"] = chosen
        elif state == "wait-capacity":
            self._add_claim(namespace, name, COUNTED)
        elif state == "immediate":
            self._add_claim(namespace, name, AT_ONCE)
        elif state == "prebound":
            claim = self._add_claim(namespace, name, draw.one((ANYWHERE, AT_ONCE)))
            claim["spec"]["volumeName"] = self._bound_volume()
        elif state == "lost":
            self._bound_claim(namespace, name, "gone")["status"]["phase"] = "Lost"
        elif state == "deleting":
            claim = self._bound_claim(namespace, name, self._bound_volume())
            claim["metadata"]["deletionTimestamp"] = "2025-01-01T00:00:00Z"
        elif state == "without-class":
            self._add_claim(namespace, name, None)
        elif state == "missing-class":
            self._add_claim(namespace, name, MISSING)
        return name

    def _bound_claim(self, namespace: str, name: str, volume: str) -> JsonObject:
        claim = self._add_claim(namespace, name, ANYWHERE)
        claim["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
        claim["spec"]["volumeName"] = volume
        claim["status"] = {"phase": "Bound"}
        if self._draw.chance(0.2):
            claim["spec"]["accessModes"] = ["ReadWriteOncePod"]
        return claim

    def _add_claim(self, namespace: str, name: str, storage_class: str | None) -> JsonObject:
        claim: JsonObject = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{namespace}-{name}"},
            "spec": {
                "accessModes": [self._draw.one(("ReadWriteOnce", "ReadWriteOnce", "ReadOnlyMany"))],
                "resources": {"requests": {"storage": self._size(1, 12)}},
            },
            "status": {"phase": "Pending"},
        }
        if storage_class is not None:
            claim["spec"]["storageClassName"] = storage_class
        if self._draw.chance(0.05):
            claim["spec"]["volumeMode"] = "Block"
        self.objects.append(claim)
        return claim

    # ------------------------------------------------------------ volumes

    def _bound_volume(self) -> str:
        """A volume that a claim is bound to, reachable from some nodes or from all; its name."""
        draw = self._draw
        name = self._csi_volume()
        volume = self.objects[-1]
        reach = draw.random()
        if reach < 0.3:
            volume["spec"]["nodeAffinity"] = _reachable(ZONE, draw.some(ZONES, 1, 3))
        elif reach < 0.4:
            volume["spec"]["nodeAffinity"] = _reachable(HOSTNAME, draw.some(self._nodes, 1, 3))
        elif reach < 0.6:
            zones = "__".join(draw.some(ZONES, 1, 2))
            volume["metadata"]["labels"] = {draw.one((ZONE, ZONE, OLD_ZONE)): zones}
        elif reach < 0.8:
            del volume["spec"]["csi"]
            volume["spec"].update(_in_tree_source(draw, self._next()))
            if draw.chance(0.7):
                volume["metadata"]["labels"] = {ZONE: draw.one(ZONES)}
            if draw.chance(0.3):
                volume["spec"]["nodeAffinity"] = _reachable(ZONE, draw.some(ZONES, 1, 3))
        return name

    def _csi_volume(self) -> str:
        number = self._next()
        handle = f"handle-{number if self._draw.chance(0.9) else 0}"
        driver = self._draw.one((DRIVER, DRIVER, OTHER_DRIVER, EBS_DRIVER))
        self._add_volume(f"pv-{number}", ANYWHERE, {"driver": driver, "volumeHandle": handle})
        return f"pv-{number}"

    def _available_volume(self) -> JsonObject:
        draw = self._draw
        number = self._next()
        volume = self._add_volume(
            f"pv-{number}",
            draw.one((LOCAL, LOCAL, LOCAL, ANYWHERE)),
            {"driver": OTHER_DRIVER, "volumeHandle": f"free-{number}"},
        )
        self.objects.pop()
        volume["status"]["phase"] = "Available" if draw.chance(0.9) else "Released"
        volume["metadata"]["labels"] = {"disk": draw.one(("ssd", "hdd"))}
        if draw.chance(0.5):
            volume["spec"]["nodeAffinity"] = _reachable(HOSTNAME, draw.some(self._nodes, 1, 6))
        elif draw.chance(0.7):
            volume["spec"]["nodeAffinity"] = _reachable(RACK, draw.some(RACKS, 1, 3))
        if draw.chance(0.05):
            volume["metadata"]["deletionTimestamp"] = "2025-01-01T00:00:00Z"
        if draw.chance(0.05):
            volume["spec"]["volumeMode"] = "Block"
        return volume

    def _reserve_volume(self, claim: JsonObject) -> None:
        """A volume that someone set aside for this claim."""
        meta = claim["metadata"]
        volume = self._available_volume()
        volume["spec"]["claimRef"] = {
            "namespace": meta["namespace"],
            "name": meta["name"],
            "uid": self._draw.one((meta["uid"], "", "uid-of-an-older-claim")),
        }
        self.objects.append(volume)

    def _add_volume(self, name: str, storage_class: str, csi: JsonObject) -> JsonObject:
        volume: JsonObject = {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": name, "uid": f"uid-{name}"},
            "spec": {
                "accessModes": self._draw.one(
                    (["ReadWriteOnce"], ["ReadWriteOnce", "ReadOnlyMany"])
                ),
                "capacity": {"storage": self._size(2, 20)},
                "storageClassName": storage_class,
                "csi": csi,
            },
            "status": {"phase": "Bound"},
        }
        self.objects.append(volume)
        return volume

    def _size(self, least_gib: int, most_gib: int) -> str:
        return f"{self._draw.randint(least_gib, most_gib) * 1024 * 1024 + self._next()}Ki"

    def _next(self) -> int:
        self._number += 1
        return self._number


def _claim_volume(name: str, claim: str) -> JsonObject:
    return {"name": name, "persistentVolumeClaim": {"claimName": claim}}


def _reachable(label: str, values: list[str]) -> JsonObject:
    expression = {"key": label, "operator": "In", "values": values}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}


def _in_tree_source(draw: Draw, number: int) -> JsonObject:
    return draw.one(
        (
            {"awsElasticBlockStore": {"volumeID": f"vol-{number}"}},
            {"awsElasticBlockStore": {"volumeID": f"aws://zone/vol-{number}"}},
            {"gcePersistentDisk": {"pdName": f"disk-{number}"}},
            {"cinder": {"volumeID": f"cinder-{number}"}},
        )
    )


def _inline_disk(draw: Draw) -> JsonObject:
    number = draw.randint(1, 4)
    read_only = {"readOnly": True} if draw.chance(0.5) else {}
    return draw.one(
        (
            {"gcePersistentDisk": {"pdName": f"disk-{number}", **read_only}},
            {"awsElasticBlockStore": {"volumeID": f"vol-{number}", **read_only}},
            {
                "iscsi": {
                    "targetPortal": "10.0.0.2",
                    "iqn": f"iqn.2025.example:{number}",
                    "lun": number,
                    **read_only,
                }
            },
            {
                "rbd": {
                    "monitors": draw.some(("m1", "m2", "m3"), 1, 2),
                    "pool": draw.one(("fast", "slow")),
                    "image": f"image-{draw.randint(1, 2)}",
                    **read_only,
                }
            },
        )
    )


def _classes() -> list[JsonObject]:
    zonal = {"matchLabelExpressions": [{"key": ZONE, "values": ["a", "b"]}]}
    racks = {"matchLabelExpressions": [{"key": RACK, "values": ["r1"]}]}
    return [
        _class(LOCAL, NO_PROVISIONER, WAIT),
        _class(ANYWHERE, DRIVER, WAIT),
        {**_class(ZONAL, OTHER_DRIVER, WAIT), "allowedTopologies": [zonal, racks]},
        _class(AT_ONCE, DRIVER, IMMEDIATE),
        _class(COUNTED, "counted.csi.example.com", WAIT),
        _class(OLD_EBS, EBS, WAIT),
    ]


def _class(name: str, provisioner: str, binding: str) -> JsonObject:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": binding,
    }


def _csi_driver(name: str, spec: JsonObject) -> JsonObject:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIDriver",
        "metadata": {"name": name},
        "spec": spec,
    }


def _csi_node(draw: Draw, node: str) -> JsonObject:
    names = draw.some((DRIVER, OTHER_DRIVER, EBS_DRIVER, GCE_DRIVER), 1, 4)
    drivers = []
    for name in names:
        driver: JsonObject = {"name": name, "nodeID": node, "topologyKeys": []}
        if draw.chance(0.75):
            driver["allocatable"] = {"count": draw.randint(0, 4)} if draw.chance(0.95) else {}
        drivers.append(driver)
    metadata: JsonObject = {"name": node}
    if draw.chance(0.7):
        migrated = ",".join(draw.some((EBS, GCE, "kubernetes.io/cinder"), 1, 3))
        metadata["annotations"] = {"storage.alpha.kubernetes.io/migrated-plugins": migrated}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": metadata,
        "spec": {"drivers": drivers},
    }
