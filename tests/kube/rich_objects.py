"""An object of every kind that we read, with most of the fields that we read of it."""

from typing import Any

from testcluster.client import JsonObject

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
CONTAINER: JsonObject = {
    "name": "main",
    "image": "none",
    "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"memory": "64Mi"}},
    "ports": [{"containerPort": 80, "hostPort": 18080, "protocol": "TCP", "hostIP": "127.0.0.1"}],
}


def rich_objects(namespace: str, node: str) -> list[JsonObject]:
    """Objects for a cluster with controllers; their names begin with that of the namespace.

    Their pods run on the node alone, and tolerate every taint.
    """
    template = pod_template(namespace, node)
    labels = {"app": "rich"}
    selector = {"matchLabels": labels, "matchExpressions": [expression("app", "In", "rich")]}
    common = {"selector": selector, "template": template}
    return [
        cluster_wide("scheduling.k8s.io/v1", "PriorityClass", namespace, value=7),
        storage_class(namespace),
        csi_driver(namespace),
        csi_node(namespace),
        volume(namespace),
        claim(namespace),
        of("apps/v1", "Deployment", namespace, replicas=1, minReadySeconds=1, **common),
        of(
            "apps/v1",
            "StatefulSet",
            namespace,
            replicas=1,
            serviceName="rich",
            selector=selector,
            template=without_host_port(template),
        ),
        of(
            "apps/v1",
            "DaemonSet",
            namespace,
            selector=selector,
            template=without_host_port(template),
        ),
        of("batch/v1", "Job", namespace, template=job_template(template)),
        of(
            "v1",
            "ReplicationController",
            namespace,
            replicas=1,
            selector=labels,
            template=without_host_port(template),
        ),
        of("policy/v1", "PodDisruptionBudget", namespace, selector=selector, minAvailable=1),
        of("v1", "Service", namespace, selector=labels, ports=[{"port": 80}]),
    ]


def of(api_version: str, kind: str, namespace: str, **spec: Any) -> JsonObject:
    """An object in the namespace."""
    metadata = {
        "name": "rich",
        "namespace": namespace,
        "labels": {"app": "rich"},
        "annotations": {"a": "b"},
    }
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


def cluster_wide(api_version: str, kind: str, namespace: str, **fields: Any) -> JsonObject:
    """An object outside namespaces."""
    metadata = {"name": f"{namespace}-rich", "labels": {"app": "rich"}, "annotations": {"a": "b"}}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}


def expression(key: str, operator: str, *values: str) -> JsonObject:
    """One expression of a selector."""
    return {"key": key, "operator": operator, "values": list(values)}


def pod_template(namespace: str, node: str) -> JsonObject:
    """Pods that say something about everything, and still can be placed."""
    elsewhere = {
        "topologyKey": ZONE,
        "labelSelector": {"matchLabels": {"app": "nobody"}},
        "namespaceSelector": {"matchLabels": {"no": "namespace"}},
        "namespaces": [namespace],
        "matchLabelKeys": ["part"],
    }
    required = {
        "nodeSelectorTerms": [
            {
                "matchExpressions": [expression(HOST, "In", node)],
                "matchFields": [expression("metadata.name", "In", node)],
            }
        ]
    }
    preference = {
        "weight": 3,
        "preference": {"matchExpressions": [expression(ZONE, "NotIn", "z")]},
    }
    spec = {
        "containers": [CONTAINER],
        "initContainers": [{**CONTAINER, "name": "before", "ports": []}],
        "priorityClassName": f"{namespace}-rich",
        "nodeSelector": {HOST: node},
        "tolerations": [{"operator": "Exists"}],
        "affinity": {
            "nodeAffinity": affinity([preference], required),
            "podAffinity": affinity([{"weight": 2, "podAffinityTerm": elsewhere}]),
            "podAntiAffinity": affinity([{"weight": 4, "podAffinityTerm": elsewhere}], [elsewhere]),
        },
        "topologySpreadConstraints": [
            {
                "maxSkew": 50,
                "topologyKey": HOST,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "rich"}},
                "minDomains": 1,
                "nodeAffinityPolicy": "Honor",
                "nodeTaintsPolicy": "Ignore",
                "matchLabelKeys": ["part"],
            }
        ],
        "volumes": [
            {"name": "claim", "persistentVolumeClaim": {"claimName": "rich", "readOnly": True}},
            {"name": "scratch", "emptyDir": {"sizeLimit": "1Mi"}},
            {"name": "host", "hostPath": {"path": "/var/empty"}},
            {"name": "texts", "configMap": {"name": "texts", "optional": True}},
            {"name": "files", "nfs": {"server": "127.0.0.1", "path": "/"}},
            {
                "name": "block",
                "iscsi": {
                    "targetPortal": "127.0.0.1",
                    "iqn": "iqn.2001-04.example:a",
                    "lun": 1,
                    "readOnly": True,
                },
            },
            {
                "name": "ceph",
                "rbd": {"monitors": ["127.0.0.1"], "image": "a", "pool": "b", "readOnly": True},
            },
        ],
    }
    return {
        "metadata": {"labels": {"app": "rich", "part": "p"}, "annotations": {"a": "b"}},
        "spec": spec,
    }


def affinity(preferred: list[JsonObject], required: Any = None) -> JsonObject:
    """What is preferred, and what is required if anything is."""
    wanted: JsonObject = {"preferredDuringSchedulingIgnoredDuringExecution": preferred}
    if required is not None:
        wanted["requiredDuringSchedulingIgnoredDuringExecution"] = required
    return wanted


def without_host_port(template: JsonObject) -> JsonObject:
    """The template for another workload: two pods on a node cannot have the same host port."""
    container = {key: value for key, value in CONTAINER.items() if key != "ports"}
    return {**template, "spec": {**template["spec"], "containers": [container]}}


def job_template(template: JsonObject) -> JsonObject:
    """The template for pods that end. A Job chooses the labels by which it knows them."""
    spec = {**without_host_port(template)["spec"], "restartPolicy": "Never"}
    return {"metadata": {"labels": {"job": "rich", "part": "p"}}, "spec": spec}


def storage_class(namespace: str) -> JsonObject:
    """A class whose volumes are in one zone."""
    return cluster_wide(
        "storage.k8s.io/v1",
        "StorageClass",
        namespace,
        provisioner="example.com/none",
        volumeBindingMode="WaitForFirstConsumer",
        allowedTopologies=[{"matchLabelExpressions": [{"key": ZONE, "values": ["a"]}]}],
    )


def csi_driver(namespace: str) -> JsonObject:
    """A driver that says how much room it has."""
    spec = {"storageCapacity": True, "attachRequired": True}
    return cluster_wide("storage.k8s.io/v1", "CSIDriver", namespace, spec=spec)


def csi_node(namespace: str) -> JsonObject:
    """What kubelet writes about a driver."""
    driver = {
        "name": f"{namespace}-rich",
        "nodeID": "n",
        "topologyKeys": [ZONE],
        "allocatable": {"count": 3},
    }
    return cluster_wide("storage.k8s.io/v1", "CSINode", namespace, spec={"drivers": [driver]})


def volume(namespace: str) -> JsonObject:
    """A volume for the claim below."""
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteMany"],
        "storageClassName": f"{namespace}-rich",
        "volumeMode": "Filesystem",
        "claimRef": {"namespace": namespace, "name": "rich"},
        "nodeAffinity": {
            "required": {
                "nodeSelectorTerms": [{"matchExpressions": [expression("no", "DoesNotExist")]}]
            }
        },
        "csi": {"driver": f"{namespace}-rich", "volumeHandle": "v"},
    }
    return cluster_wide("v1", "PersistentVolume", namespace, spec=spec)


def claim(namespace: str) -> JsonObject:
    """A claim that is bound to the volume above."""
    return of(
        "v1",
        "PersistentVolumeClaim",
        namespace,
        accessModes=["ReadWriteMany"],
        resources={"requests": {"storage": "1Gi"}},
        storageClassName=f"{namespace}-rich",
        volumeName=f"{namespace}-rich",
        volumeMode="Filesystem",
    )
