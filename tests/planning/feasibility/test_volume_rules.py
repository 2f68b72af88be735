"""The four volume rules answer as kube-scheduler does, on clusters full of volumes.

Clusters are generated so that nothing but volumes can keep a pod from a node. Each one has many
odd volumes and claims; `seen` counts what pods really used, and a test asks that all of it did
occur, so that agreement means something.

Free volumes of one size are all alike here, for the scheduler takes any of them: it would not
always agree with itself.
"""

import json
import os
import random
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rescheduler.model.kinds import KIND_BY_NAME
from rescheduler.model.objects import GcePersistentDisk, PersistentVolumeSpec
from rescheduler.model.snapshot import Bools, Snapshot
from rescheduler.planning.feasibility.csi_translation import translated_handle
from rescheduler.planning.feasibility.filter_plugin import (
    FilterPlugin,
    PodCountingPlugin,
    SharedLister,
)
from rescheduler.planning.feasibility.plugins.node_volume_limits import NodeVolumeLimits
from rescheduler.planning.feasibility.plugins.volume_binding import VolumeBinding
from rescheduler.planning.feasibility.plugins.volume_restrictions import VolumeRestrictions
from rescheduler.planning.feasibility.plugins.volume_zone import VolumeZone
from testcluster.builders import node, owner_reference, pod, uid_of
from testcluster.client import JsonObject
from testcluster.snapshots import snapshot_of

pytestmark = pytest.mark.long

SEEDS = range(int(os.environ.get("VOLUME_CLUSTERS", "60")))
NODES = [f"n{number:02}" for number in range(12)]

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
OLD_REGION = "failure-domain.beta.kubernetes.io/region"
ZONES = {"us-east1-b": "us-east1", "us-east1-c": "us-east1", "eu-west1-d": "eu-west1"}
DRIVER_ZONES = (
    "topology.gke.io/zone",
    "topology.ebs.csi.aws.com/zone",
    "topology.cinder.csi.openstack.org/zone",
)
DRIVERS = (
    "pd.csi.storage.gke.io",
    "ebs.csi.aws.com",
    "cinder.csi.openstack.org",
    "disk.csi.azure.com",
    "pxd.portworx.com",
    "csi.example",
)
IN_TREE = (
    "kubernetes.io/gce-pd",
    "kubernetes.io/aws-ebs",
    "kubernetes.io/cinder",
    "kubernetes.io/azure-disk",
    "kubernetes.io/portworx-volume",
)
WAITING_CLASSES = {
    "static": "kubernetes.io/no-provisioner",
    "dynamic": "csi.example",
    "in-tree": "kubernetes.io/aws-ebs",
    "not-migrated": "kubernetes.io/azure-file",
    "zonal": "csi.example",
    "full": "full.example",
    "uncounted": "uncounted.example",
    "no-driver": "",
}
MODES = ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany")
SIZES = ("500M", "1Gi", "1536Mi", "2Gi", "3Gi", "5Gi")
LATER = "2030-01-01T00:00:00Z"


class Generator:
    """A cluster whose pods have all kinds of volumes."""

    def __init__(self, seed: int, pods: int = 40) -> None:
        self.draw = random.Random(seed)
        self.items: list[JsonObject] = []
        self.claims: dict[str, str] = {}
        """By key, what is notable about each claim."""
        self.claim_volumes: dict[str, str] = {}
        self.waiting: dict[str, list[str]] = {}
        """By namespace and storage class, claims that wait for their first pod."""
        self.placed: set[tuple[str | None, str]] = set()
        self.seen: Counter[str] = Counter()
        """What the cluster has, and how often."""
        self._number = 0
        for name in NODES:
            self._add_node(name)
        self._add_classes_and_drivers()
        for _ in range(60):
            self._add_claim(self.draw.choice(("shop", "bank")))
        for name in WAITING_CLASSES:
            self._add_free_volumes(name)
        for number in range(pods):
            self._add_pod(number)

    def chance(self, probability: float) -> bool:
        return self.draw.random() < probability

    def some(self, options: Any, most: int) -> list[Any]:
        options = list(options)
        return self.draw.sample(options, self.draw.randint(1, min(most, len(options))))

    def next(self, prefix: str) -> str:
        self._number += 1
        return f"{prefix}-{self._number}"

    def add(self, kind: str, name: str, **fields: Any) -> JsonObject:
        metadata = {"name": name, **fields.pop("metadata", {})}
        metadata.setdefault("uid", uid_of(kind, f"{metadata.get('namespace', '')}/{name}"))
        api_version = KIND_BY_NAME[kind].api_version
        item = {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}
        self.items.append(item)
        return item

    # ------------------------------------------------------------ nodes, classes, drivers

    def _add_node(self, name: str) -> None:
        zone = self.draw.choice(list(ZONES))
        today, old = {ZONE: zone, REGION: ZONES[zone]}, {OLD_ZONE: zone, OLD_REGION: ZONES[zone]}
        # One whose labels contradict each other: volumes then go by those of old.
        moved = {**today, OLD_ZONE: self.draw.choice(list(ZONES)), OLD_REGION: ZONES[zone]}
        labels = self.draw.choice(
            (today, today, today, old, {**today, **old}, {}, {REGION: ZONES[zone]}, moved)
        )
        labels = {**labels, "disk": self.draw.choice(("ssd", "hdd")), "rank": name[1:]}
        for key in DRIVER_ZONES:
            if self.chance(0.75):
                labels[key] = zone
        self.items.append(node(name, cpu="1000", pods=1000, labels=labels))
        if self.chance(0.85):
            self._add_csi_node(name)
        else:
            self.seen["node without CSINode"] += 1

    def _add_csi_node(self, name: str) -> None:
        drivers = []
        for driver in DRIVERS:
            if self.chance(0.2):
                self.seen["driver missing on a node"] += 1
                continue
            limited = self.chance(0.7)
            limit = {"count": self.draw.randint(0, 4)} if limited else {}
            drivers.append({"name": driver, "nodeID": name, "allocatable": limit})
            if not limited and self.chance(0.5):
                del drivers[-1]["allocatable"]
            self.seen["driver limited" if limited else "driver without limit"] += 1
        metadata = {}
        if self.chance(0.7):
            migrated = ",".join(self.draw.sample(IN_TREE, self.draw.randint(0, len(IN_TREE))))
            metadata["annotations"] = {"storage.alpha.kubernetes.io/migrated-plugins": migrated}
            self.seen["in-tree drivers replaced"] += bool(migrated)
        self.add("CSINode", name, metadata=metadata, spec={"drivers": drivers})

    def _add_classes_and_drivers(self) -> None:
        for name, provisioner in WAITING_CLASSES.items():
            fields: JsonObject = {}
            if name == "zonal":
                fields["allowedTopologies"] = [self._topology() for _ in range(2)]
            self.add(
                "StorageClass",
                name,
                provisioner=provisioner,
                volumeBindingMode="WaitForFirstConsumer",
                **fields,
            )
        at_once = {"provisioner": "csi.example", "volumeBindingMode": "Immediate"}
        self.add("StorageClass", "at-once", **at_once)
        self.add("StorageClass", "without-mode", provisioner="csi.example")
        self.add("CSIDriver", "full.example", spec={"storageCapacity": True})
        self.add("CSIDriver", "uncounted.example", spec={"storageCapacity": False})
        for name in DRIVERS:
            if self.chance(0.8):
                wanted = self.chance(0.5)
                self.seen["driver that wants to be on the node"] += wanted
                self.add("CSIDriver", name, spec={"preventPodSchedulingIfMissing": wanted})

    def _topology(self) -> JsonObject:
        kind = self.draw.choice(("zone", "zone", "disk", "both", "empty", "malformed"))
        zone = {"key": ZONE, "values": self.some(ZONES, 2)}
        disk = {"key": "disk", "values": ["ssd"]}
        return {
            "zone": {"matchLabelExpressions": [zone]},
            "disk": {"matchLabelExpressions": [disk]},
            "both": {"matchLabelExpressions": [zone, disk]},
            "empty": {},
            "malformed": {"matchLabelExpressions": [{"key": ZONE, "values": []}]},
        }[kind]

    # ------------------------------------------------------------ volumes

    def _affinity(self) -> tuple[str, JsonObject]:
        """A feature for it, and the spec's field for the node affinity of a volume."""
        zone_key = self.draw.choice((ZONE, ZONE, OLD_ZONE, OLD_ZONE, *DRIVER_ZONES))
        zone = {"key": zone_key, "operator": "In", "values": self.some(ZONES, 2)}
        hosts = {"operator": "In", "values": self.some(NODES, 4), "key": "kubernetes.io/hostname"}
        disk = {"key": "disk", "operator": "In", "values": ["ssd"]}
        region_key = OLD_REGION if zone_key == OLD_ZONE else REGION
        region = {"key": region_key, "operator": "In", "values": ["us-east1"]}
        field = {"key": "metadata.name", "operator": "In", "values": ["n00"]}
        terms: dict[str, list[JsonObject] | None] = {
            "unrestricted": None,
            "by zone": [{"matchExpressions": [zone]}],
            "by host": [{"matchExpressions": [hosts]}],
            "by zone and disk": [{"matchExpressions": [zone, disk]}],
            "by zone and region": [{"matchExpressions": [zone, region]}],
            "by zone or disk": [{"matchExpressions": [zone]}, {"matchExpressions": [disk]}],
            "by rank": [
                {"matchExpressions": [{"key": "rank", "operator": "Gt", "values": ["05"]}]}
            ],
            "by any zone": [{"matchExpressions": [{"key": zone_key, "operator": "Exists"}]}],
            "not by zone": [{"matchExpressions": [{**zone, "operator": "NotIn"}]}],
            "by field": [{"matchFields": [field]}],
            "by field and disk": [{"matchFields": [field], "matchExpressions": [disk]}],
            "by a malformed field": [
                {"matchFields": [{**field, "operator": "Exists"}], "matchExpressions": [disk]}
            ],
            "malformed": [{"matchExpressions": [{**zone, "values": []}]}],
            "an empty term": [{}],
            "an empty term or disk": [{}, {"matchExpressions": [disk]}],
            "no terms": [],
        }
        weights = [6, 6, 6, 2, 4, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]
        feature = self.draw.choices(list(terms), weights)[0]
        chosen = terms[feature]
        if chosen is None:
            return feature, self.draw.choice(({}, {"nodeAffinity": {}}))
        return feature, {"nodeAffinity": {"required": {"nodeSelectorTerms": chosen}}}

    def _place_labels(self) -> tuple[str, dict[str, str]]:
        """A feature for them, and labels of a volume that say where it is."""
        zones = self.some(ZONES, 2)
        places: dict[str, dict[str, str]] = {
            "nowhere": {},
            "in a zone": {ZONE: zones[0]},
            "in zones": {ZONE: "__".join(zones)},
            "in a zone of old": {OLD_ZONE: zones[0]},
            "in zones and a region of old": {
                OLD_ZONE: "__".join(zones),
                OLD_REGION: ZONES[zones[0]],
            },
            "in a region": {REGION: ZONES[zones[0]]},
            "in a zone with a hole": {ZONE: f"{zones[0]}__"},
            "in zones of one region": {ZONE: "us-east1-b__us-east1-c"},
            "in no zone": {ZONE: ""},
            "in a zone of both kinds": {ZONE: zones[0], OLD_ZONE: zones[-1]},
        }
        feature = self.draw.choices(list(places), [12, 2, 2, 1, 1, 1, 1, 1, 1, 1])[0]
        return feature, places[feature]

    def _source(self) -> tuple[str, JsonObject]:
        """A feature for it, and where the bytes of a persistent volume are."""
        disk = str(self.draw.randint(1, 5))
        sources: dict[str, JsonObject] = {
            "csi": {"csi": {"driver": self.draw.choice(DRIVERS), "volumeHandle": f"h{disk}"}},
            "csi without handle": {"csi": {"driver": "csi.example", "volumeHandle": ""}},
            "gce": {"gcePersistentDisk": {"pdName": f"pd{disk}"}},
            "ebs": {"awsElasticBlockStore": {"volumeID": f"vol-{disk}"}},
            "ebs with zone": {"awsElasticBlockStore": {"volumeID": f"aws://z/vol-{disk}"}},
            "ebs malformed": {"awsElasticBlockStore": {"volumeID": f"aws://z/disk-{disk}"}},
            "cinder": {"cinder": {"volumeID": f"cinder-{disk}"}},
            "azure": {"azureDisk": {"diskName": "d", "diskURI": f"azure-{disk}"}},
            "azure managed": {
                "azureDisk": {"diskName": "d", "diskURI": f"azure-{disk}", "kind": "Managed"}
            },
            "azure unmanaged": {
                "azureDisk": {"diskName": "d", "diskURI": f"azure-{disk}", "kind": "Shared"}
            },
            "portworx": {"portworxVolume": {"volumeID": f"px-{disk}"}},
            "azure file": {"azureFile": {"secretName": "s", "shareName": f"share-{disk}"}},
            "vsphere": {"vsphereVolume": {"volumePath": f"path-{disk}"}},
            "local": {"local": {"path": f"/disk{disk}"}},
        }
        feature = self.draw.choices(list(sources), [12, 1, 3, 2, 2, 1, 2, 1, 1, 1, 2, 1, 1, 3])[0]
        return feature, sources[feature]

    def _inline(self) -> tuple[str, JsonObject]:
        """A feature for it, and a volume that the pod itself describes."""
        disk, read_only = str(self.draw.randint(1, 9)), self.chance(0.6)
        how = "to read" if read_only else "to write"
        sources: dict[str, JsonObject] = {
            f"gce {how}": {"gcePersistentDisk": {"pdName": f"pd{disk}", "readOnly": read_only}},
            "ebs": {"awsElasticBlockStore": {"volumeID": f"vol-{disk}", "readOnly": read_only}},
            "ebs malformed": {"awsElasticBlockStore": {"volumeID": f"aws://vol-{disk}"}},
            f"iscsi {how}": {
                "iscsi": {
                    "targetPortal": "t",
                    "iqn": f"iqn{disk}",
                    "lun": self.draw.randint(0, 1),
                    "readOnly": read_only,
                }
            },
            f"rbd {how}": {
                "rbd": {
                    "monitors": self.some(("m1", "m2", "m3"), 2),
                    "pool": self.draw.choice(("p1", "p2")),
                    "image": f"image{self.draw.randint(1, 3)}",
                    "readOnly": read_only,
                }
            },
            "azure": {"azureDisk": {"diskName": "d", "diskURI": f"azure-{disk}"}},
            "azure unmanaged": {
                "azureDisk": {"diskName": "d", "diskURI": f"azure-{disk}", "kind": "Shared"}
            },
            "cinder": {"cinder": {"volumeID": f"cinder-{disk}"}},
            "portworx": {"portworxVolume": {"volumeID": f"px-{disk}"}},
            "empty": {"emptyDir": {}},
            "azure file": {"azureFile": {"secretName": "s", "shareName": f"share-{disk}"}},
        }
        feature = self.draw.choices(list(sources), [4, 3, 0.15, 4, 4, 1, 0.15, 2, 2, 2, 1])[0]
        return feature, sources[feature]

    def _add_volume(self, prefix: str, phase: str, metadata: JsonObject, spec: JsonObject) -> str:
        name = self.next(prefix)
        self.add("PersistentVolume", name, metadata=metadata, spec=spec, status={"phase": phase})
        return name

    def _with_class(self, name: str, metadata: JsonObject, spec: JsonObject) -> None:
        """Name a storage class, now and then by the old annotation, which comes first."""
        if self.chance(0.1):
            annotations = metadata.setdefault("annotations", {})
            annotations["volume.beta.kubernetes.io/storage-class"] = name
            spec["storageClassName"] = self.draw.choice(("at-once", "static", name))
            self.seen["class by annotation"] += 1
        else:
            spec["storageClassName"] = name

    def _add_free_volumes(self, storage_class: str) -> None:
        """Volumes for claims that wait. What a claim can want of them goes with their size."""
        for size in SIZES if storage_class == "static" else self.draw.sample(SIZES, 3):
            labels = {"tier": self.draw.choice(("gold", "silver"))}
            make: JsonObject = {
                "capacity": {"storage": size},
                "accessModes": list(MODES) if self.chance(0.6) else self.some(MODES, 2),
                "volumeMode": "Block" if self.chance(0.1) else "Filesystem",
            }
            if self.chance(0.1):
                make["volumeAttributesClassName"] = "fast"
            for _ in range(self.draw.randint(1, 4)):
                affinity = self._affinity()[1]
                phase = self.draw.choice(("Available",) * 5 + ("Released", "Pending"))
                metadata: JsonObject = {"labels": labels}
                spec = {**make, **affinity, **self._source()[1]}
                self._with_class(storage_class, metadata, spec)
                if self.chance(0.1):
                    metadata |= {"deletionTimestamp": LATER, "finalizers": ["in/use"]}
                self._add_volume("free", phase, metadata, spec)

    # ------------------------------------------------------------ claims

    def _add_claim(self, namespace: str, name: str = "", owner: JsonObject | None = None) -> None:
        name = name or self.next("claim")
        metadata: JsonObject = {"namespace": namespace}
        if owner is not None:
            metadata["ownerReferences"] = [owner_reference(owner)]
        spec: JsonObject = {"accessModes": self.some(MODES, 1)}
        claim = {"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}
        features = {
            "bound": 16,
            "waiting": 14,
            "lost": 0.9,
            "deleting": 0.9,
            "volume missing": 0.6,
            "volume wished for": 0.6,
            "volume wished for, waiting": 0.6,
            "at once": 0.4,
            "without class": 0.8,
            "class missing": 0.4,
            "class without mode": 0.4,
        }
        feature = self.draw.choices(list(features), list(features.values()))[0]
        key = f"{namespace}/{name}"
        self.claims[key] = feature
        if feature in ("bound", "lost", "deleting", "volume wished for"):
            self._bind(key, claim)
        if self.chance(0.05):
            spec["accessModes"] = ["ReadWriteOncePod"]
            self.claims[key] += ", for one pod"
        bound = {"pv.kubernetes.io/bind-completed": self.draw.choice(("yes", ""))}
        if feature in ("bound", "lost", "deleting", "volume missing"):
            metadata.setdefault("annotations", {}).update(bound)
        if feature == "lost":
            claim["status"]["phase"] = "Lost"
        elif feature == "deleting":
            metadata |= {"deletionTimestamp": LATER, "finalizers": ["in/use"]}
        elif feature == "volume missing":
            spec["volumeName"] = "gone"
            self._with_class(self.draw.choice(list(WAITING_CLASSES)), metadata, spec)
        elif feature == "volume wished for, waiting":
            spec |= {"volumeName": "gone", "storageClassName": "static"}
        elif feature == "waiting":
            self._wait(key, claim)
        elif feature in ("at once", "class missing", "class without mode"):
            spec["storageClassName"] = feature.replace("class without", "without").replace(" ", "-")
            if self.chance(0.3):
                # Without a volume, this says nothing.
                metadata["annotations"] = bound
        self.add("PersistentVolumeClaim", name, **claim)

    def _bind(self, key: str, claim: JsonObject) -> None:
        affinity_word, affinity = self._affinity()
        place_word, labels = self._place_labels()
        source_word, source = self._source()
        namespace, name = key.split("/")
        reference = {"kind": "PersistentVolumeClaim", "namespace": namespace, "name": name}
        spec = {"claimRef": reference, "capacity": {"storage": "1Gi"}, **affinity, **source}
        if self.chance(0.5):
            self._with_class(
                self.draw.choice(list(WAITING_CLASSES)), claim["metadata"], claim["spec"]
            )
        claim["spec"]["volumeName"] = self._add_volume("volume", "Bound", {"labels": labels}, spec)
        claim["status"]["phase"] = "Bound"
        features = (f"affinity {affinity_word}", f"volume {place_word}", f"source {source_word}")
        self.claim_volumes[key] = "; ".join(features)

    def _wait(self, key: str, claim: JsonObject) -> None:
        metadata, spec = claim["metadata"], claim["spec"]
        storage_class = self.draw.choices(list(WAITING_CLASSES), [8, 2, 2, 1, 5, 0.7, 0.7, 0.7])[0]
        self._with_class(storage_class, metadata, spec)
        features = [f"class {storage_class}"]
        if self.chance(0.9):
            spec["resources"] = {"requests": {"storage": self.draw.choice(SIZES)}}
        else:
            features.append("no size")
        if self.chance(0.1):
            spec["volumeMode"] = self.draw.choice(("Block", "Filesystem"))
            features.append("mode")
        if self.chance(0.05):
            spec["volumeAttributesClassName"] = "fast"
            features.append("attributes class")
        if self.chance(0.25):
            feature, spec["selector"] = self._selector()
            features.append(f"selector {feature}")
        if self.chance(0.05):
            selected = self.draw.choice((*NODES, "gone", ""))
            metadata.setdefault("annotations", {})["volume.kubernetes.io/selected-node"] = selected
            features.append("node selected")
        if self.chance(0.25):
            features.append(self._reserve(key, storage_class))
        self.claim_volumes[key] = "; ".join(features)
        self.waiting.setdefault(f"{key.split('/')[0]} {storage_class}", []).append(key)

    def _selector(self) -> tuple[str, JsonObject]:
        selectors: dict[str, JsonObject] = {
            "labels": {"matchLabels": {"tier": "gold"}},
            "in": {"matchExpressions": [{"key": "tier", "operator": "In", "values": ["silver"]}]},
            "not in": {
                "matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["gold"]}]
            },
            "exists": {"matchExpressions": [{"key": "tier", "operator": "Exists"}]},
            "empty": {},
            "malformed": {"matchExpressions": [{"key": "tier", "operator": "In", "values": []}]},
            "of nodes": {"matchExpressions": [{"key": "tier", "operator": "Gt", "values": ["1"]}]},
        }
        feature = self.draw.choices(list(selectors), [3, 2, 2, 2, 1, 0.5, 0.5])[0]
        return feature, selectors[feature]

    def _reserve(self, key: str, storage_class: str) -> str:
        """A volume that waits for this claim, or thinks it does."""
        namespace, name = key.split("/")
        reference = {"kind": "PersistentVolumeClaim", "namespace": namespace, "name": name}
        feature = self.draw.choice(
            ("by name", "by uid", "by another uid", "but too small", "deleting")
        )
        if feature == "by uid":
            reference["uid"] = uid_of("PersistentVolumeClaim", f"{namespace}/{name}")
        elif feature == "by another uid":
            reference["uid"] = "another"
        metadata: JsonObject = {}
        if feature == "deleting":
            metadata = {"deletionTimestamp": LATER, "finalizers": ["in/use"]}
        size = "1" if feature == "but too small" else "100Gi"
        spec = {"claimRef": reference, "capacity": {"storage": size}, **self._affinity()[1]}
        self._with_class(storage_class, metadata, spec)
        phase = self.draw.choice(("Available", "Released", ""))
        self._add_volume("reserved", phase, metadata, spec)
        return f"reserved {feature}"

    # ------------------------------------------------------------ pods

    def _add_pod(self, number: int) -> None:
        namespace = self.draw.choice(("shop", "bank"))
        key = f"{namespace}/pod-{number:02}"
        on = None if self.chance(0.04) else self.draw.choice(NODES)
        phase = "Succeeded" if on and self.chance(0.05) else None
        volumes = self._volumes(namespace)
        self.seen["pod ended"] += phase is not None
        self.seen["pod without node"] += on is None
        for volume in volumes if on else ():
            place = (on, volume.get("persistentVolumeClaim", {}).get("claimName", ""))
            self.seen["claim shared on a node"] += place[1] != "" and place in self.placed
            self.placed.add(place)
        item = pod(key, on=on, phase=phase, volumes=volumes)
        if self.chance(0.05):
            item["metadata"]["deletionTimestamp"] = LATER
            self.seen["pod deleting"] += 1
        if self.chance(0.06):
            volumes.append({"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}})
            feature = self.draw.choices(("owned", "missing", "of another"), [6, 2, 0.4])[0]
            self.seen[f"ephemeral claim {feature}"] += 1
            if feature != "missing":
                self._add_claim(
                    namespace, f"pod-{number:02}-scratch", item if feature == "owned" else None
                )
        self.items.append(item)

    def _volumes(self, namespace: str) -> list[JsonObject]:
        volumes: list[JsonObject] = []
        for key in self._claims_of_a_pod(namespace):
            volumes.append(self._claim_volume(f"v{len(volumes)}", key))
            if self.chance(0.06):
                volumes.append({**volumes[-1], "name": f"v{len(volumes)}"})
                self.seen["claim twice in a pod"] += 1
        while self.chance(0.35):
            feature, source = self._inline()
            volumes.append({"name": f"v{len(volumes)}", **source})
            self.seen[f"inline {feature}"] += 1
        if self.chance(0.01):
            volumes.append({"name": "x", "persistentVolumeClaim": {"claimName": "missing"}})
            self.seen["claim missing"] += 1
        self.draw.shuffle(volumes)
        return volumes

    def _claims_of_a_pod(self, namespace: str) -> list[str]:
        waiting = [keys for place, keys in self.waiting.items() if place.startswith(namespace)]
        if waiting and self.chance(0.25):
            self.seen["claims of a pod compete"] += 1
            return self.some(max(waiting, key=len), 4)
        mine = [key for key in self.claims if key.startswith(namespace)]
        good = [key for key in mine if self.claims[key].startswith(("bound", "waiting"))]
        bound = [key for key in mine if self.claims[key].startswith("bound")]
        pools = self.draw.choices((bound, good, mine), [6, 2, 2], k=self.draw.randint(0, 2))
        return [self.draw.choice(pool) for pool in pools if pool]

    def _claim_volume(self, name: str, key: str) -> JsonObject:
        self.seen[f"claim {self.claims[key]}"] += 1
        for feature in self.claim_volumes.get(key, "").split("; "):
            self.seen[feature] += 1
        return {"name": name, "persistentVolumeClaim": {"claimName": key.split("/")[1]}}


WORDS = [
    *("node without CSINode", "driver missing on a node", "driver without limit"),
    *("driver limited", "driver that wants to be on the node", "in-tree drivers replaced"),
    *("pod deleting", "pod ended", "pod without node", "claim shared on a node"),
    *("claim bound", "claim bound, for one pod", "claim waiting", "claim waiting, for one pod"),
    *("claim lost", "claim deleting", "claim missing", "claim at once", "claim twice in a pod"),
    *("claim volume missing", "claim volume wished for", "claim volume wished for, waiting"),
    *("claim without class", "claim class missing", "claim class without mode"),
    *("claims of a pod compete", "class by annotation", "no size", "mode", "attributes class"),
    *("node selected", "reserved by name", "reserved by uid", "reserved by another uid"),
    *("reserved but too small", "reserved deleting"),
    *("ephemeral claim owned", "ephemeral claim missing", "ephemeral claim of another"),
    *(f"class {name}" for name in WAITING_CLASSES),
    *(
        f"selector {feature}"
        for feature in ("labels", "in", "not in", "exists", "empty", "malformed")
    ),
    "selector of nodes",
    *("affinity unrestricted", "affinity by zone", "affinity by host", "affinity by rank"),
    *("affinity by zone and disk", "affinity by zone and region", "affinity by zone or disk"),
    *("affinity by any zone", "affinity not by zone", "affinity by field", "affinity no terms"),
    *("affinity by field and disk", "affinity by a malformed field", "affinity malformed"),
    *("affinity an empty term", "affinity an empty term or disk"),
    *("volume nowhere", "volume in a zone", "volume in zones", "volume in a zone of old"),
    *("volume in zones and a region of old", "volume in a region", "volume in a zone with a hole"),
    *("volume in zones of one region", "volume in no zone", "volume in a zone of both kinds"),
    *("source csi", "source csi without handle", "source gce", "source ebs", "source cinder"),
    *("source ebs with zone", "source ebs malformed", "source azure", "source azure managed"),
    *("source azure unmanaged", "source portworx", "source azure file", "source vsphere"),
    *("source local", "inline gce to read", "inline gce to write", "inline ebs"),
    *("inline ebs malformed", "inline iscsi to read", "inline iscsi to write"),
    *("inline rbd to read", "inline rbd to write", "inline azure", "inline azure unmanaged"),
    *("inline cinder", "inline portworx", "inline empty", "inline azure file"),
]


# ---------------------------------------------------------------- asking both


def asked_of_oracle(
    binary: Path, items: list[JsonObject], *arguments: str
) -> dict[str, JsonObject]:
    answer = subprocess.run(
        [binary, "oracle", *arguments],
        input=json.dumps({"items": items}),
        env={**os.environ, "GOMAXPROCS": "1", "GOGC": "400"},
        capture_output=True,
        text=True,
        check=True,
    )
    verdicts = [json.loads(line) for line in answer.stdout.splitlines()]
    return {verdict["pod"]: verdict for verdict in verdicts}


class Rules:
    """The four rules, with the pods of the snapshot where it has them unless said otherwise."""

    def __init__(self, snapshot: Snapshot, nodes: dict[int, int] | None = None) -> None:
        self.snapshot = snapshot
        view = SharedLister(snapshot)
        self.counting: list[PodCountingPlugin] = [VolumeRestrictions(view), NodeVolumeLimits(view)]
        self.all: list[FilterPlugin] = [*self.counting, VolumeBinding(view), VolumeZone(view)]
        for row in np.flatnonzero(snapshot.pods.placed).tolist():
            self.place(row, (nodes or {}).get(row, int(snapshot.pods.node[row])), 1)

    def place(self, row: int, node: int, count: int) -> None:
        pods = self.snapshot.pods
        for rule in self.counting:
            rule.count_pods(int(pods.template[row]), node, count, bool(pods.deleting[row]))

    def refusals(self, template: int) -> dict[str, Bools]:
        answers = {rule.name: rule.refused(template) for rule in self.all}
        return {name: refused for name, refused in answers.items() if refused is not None}

    def fitting(self, template: int) -> list[str]:
        refused = np.zeros(len(self.snapshot.nodes), bool)
        for nodes in self.refusals(template).values():
            refused |= nodes
        return [self.snapshot.nodes.names[row] for row in np.flatnonzero(~refused)]

    def reasons(self, template: int) -> list[str]:
        return [
            rule.reason(template, node)
            for rule in self.all
            if (refused := rule.refused(template)) is not None
            for node in np.flatnonzero(refused).tolist()
        ]

    def everything(self) -> list[list[str]]:
        return [self.fitting(template) for template in range(len(self.snapshot.templates))]


def schedulable(items: list[JsonObject]) -> list[JsonObject]:
    """The scheduler's cache holds no pods without a node."""
    return [each for each in items if each["kind"] != "Pod" or "nodeName" in each["spec"]]


# ---------------------------------------------------------------- the tests


@pytest.mark.parametrize("seed", SEEDS)
def test_the_volume_rules_agree_with_the_scheduler(seed: int, binary: Path) -> None:
    cluster = Generator(seed)
    snapshot = snapshot_of(cluster.items)
    rules = Rules(snapshot)
    verdicts = asked_of_oracle(binary, schedulable(cluster.items))
    with_old_pod = asked_of_oracle(binary, schedulable(cluster.items), "--with-old-pod")
    assert verdicts.keys() == with_old_pod.keys()
    assert len(verdicts) == snapshot.pods.placed.sum()
    for row, key in enumerate(snapshot.pods.keys):
        if key in verdicts:
            template, node_row = int(snapshot.pods.template[row]), int(snapshot.pods.node[row])
            assert rules.fitting(template) == with_old_pod[key]["fits"], (key, with_old_pod[key])
            assert all(rules.reasons(template))
            rules.place(row, node_row, -1)
            assert rules.fitting(template) == verdicts[key]["fits"], (key, verdicts[key])
            rules.place(row, node_row, 1)


@pytest.mark.parametrize("seed", range(10))
def test_a_rule_after_moves_answers_like_one_that_starts_there(seed: int) -> None:
    draw = random.Random(seed)
    snapshot = snapshot_of(Generator(seed).items)
    rules, before = Rules(snapshot), Rules(snapshot).everything()
    placed = np.flatnonzero(snapshot.pods.placed).tolist()
    now = {row: int(snapshot.pods.node[row]) for row in placed}
    moves = []
    for _ in range(60):
        row, target = draw.choice(list(now)), draw.randrange(len(NODES))
        moves.append((row, now[row], target))
        rules.place(row, now[row], -1)
        rules.place(row, target, 1)
        now[row] = target
    assert rules.everything() == Rules(snapshot, now).everything()
    for row, source, target in reversed(moves):
        rules.place(row, target, -1)
        rules.place(row, source, 1)
    assert rules.everything() == before


def test_generated_clusters_have_all_that_there_is_to_check() -> None:
    seen: Counter[str] = Counter()
    for seed in SEEDS:
        seen += Generator(seed).seen
    assert [feature for feature in WORDS if not seen[feature]] == []


def test_each_rule_is_at_times_the_only_one_to_refuse_a_node() -> None:
    alone: Counter[str] = Counter()
    for seed in range(10):
        rules = Rules(snapshot_of(Generator(seed).items))
        for template in range(len(rules.snapshot.templates)):
            refusals = rules.refusals(template)
            once = sum(nodes.astype(int) for nodes in refusals.values()) == 1
            alone.update(name for name, nodes in refusals.items() if (nodes & once).any())
    assert alone.keys() == {rule.name for rule in rules.all}


def test_a_gce_disk_is_known_by_the_zone_that_its_label_of_old_names() -> None:
    disk = PersistentVolumeSpec(gce_persistent_disk=GcePersistentDisk("pd1"))
    handle = translated_handle(disk, {ZONE: "us-east1-b", OLD_ZONE: "us-east1-c"})
    assert handle == "projects/UNSPECIFIED/zones/us-east1-c/disks/pd1"
