"""The workloads of a generated large cluster, and their pods as they look in real ones."""

from dataclasses import dataclass, field
from random import Random
from typing import Self

from testcluster.builders import CREATED
from testcluster.client import JsonObject

MIB, GIB = 1 << 20, 1 << 30
# The letters that Kubernetes uses for random parts of names.
NAME_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
CPU_MILLIS = {50: 20, 100: 30, 200: 20, 250: 12, 500: 12, 1000: 5, 2000: 1}
MEMORY_MIB = {64: 10, 128: 20, 256: 22, 512: 20, 1024: 14, 2048: 9, 4096: 4, 8192: 1}
ENVIRONMENT = ("LOG_LEVEL", "HTTP_PORT", "DATABASE_HOST")
NOT_READY_TOLERATIONS = [
    {
        "key": f"node.kubernetes.io/{problem}",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 300,
    }
    for problem in ("not-ready", "unreachable")
]


@dataclass
class LargeNode:
    """A node while pods are being placed: its capacity, and how much is used."""

    name: str
    address: str
    zone: str
    instance_type: str
    cpu_millis: int
    memory_bytes: int
    pods: int
    target_fraction: float
    used_cpu_millis: int = 0
    used_memory_bytes: int = 0
    used_pods: int = 0

    def has_room(self, workload: "Workload", fraction: float) -> bool:
        """Whether one more pod fits into this fraction of the node."""
        return (
            self.used_cpu_millis + workload.cpu_millis <= self.cpu_millis * fraction
            and self.used_memory_bytes + workload.memory_bytes <= self.memory_bytes * fraction
            and self.used_pods < self.pods
        )

    def take(self, workload: "Workload") -> Self:
        """This node, with one more pod on it."""
        self.used_cpu_millis += workload.cpu_millis
        self.used_memory_bytes += workload.memory_bytes
        self.used_pods += 1
        return self


@dataclass(frozen=True)
class Workload:
    """A Deployment with its only ReplicaSet, and the parts that all its pods share."""

    namespace: str
    name: str
    template_hash: str
    replicas: int
    cpu_millis: int
    memory_bytes: int
    deployment_metadata: JsonObject
    replicaset_metadata: JsonObject
    labels: dict[str, str]
    template_spec: JsonObject
    pod_labels: dict[str, str] = field(init=False)
    owner_references: list[JsonObject] = field(init=False)
    managed_fields: list[JsonObject] = field(init=False)
    suffixes: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        # Once for all its pods, since there may be many thousands.
        hashed = {**self.labels, "pod-template-hash": self.template_hash}
        object.__setattr__(self, "pod_labels", hashed)
        reference = controller_reference("ReplicaSet", self.replicaset_metadata)
        object.__setattr__(self, "owner_references", [reference])
        fields = pod_managed_fields(hashed, self.replicaset_metadata["uid"], self.template_spec)
        object.__setattr__(self, "managed_fields", fields)

    @classmethod
    def random(cls, namespace: str, index: int, replicas: int, random: Random) -> Self:
        """A workload of random size and shape."""
        name = f"{random.choice(SERVICE_NAMES)}-{random.choice(SERVICE_ROLES)}-{index}"
        template_hash = random_letters(random, 10)
        labels = workload_labels(name, random)
        cpu_millis = pick(CPU_MILLIS, random)
        memory_bytes = pick(MEMORY_MIB, random) * MIB
        return cls(
            namespace=namespace,
            name=name,
            template_hash=template_hash,
            replicas=replicas,
            cpu_millis=cpu_millis,
            memory_bytes=memory_bytes,
            deployment_metadata=metadata(name, namespace, random, labels),
            replicaset_metadata=metadata(f"{name}-{template_hash}", namespace, random, labels),
            labels=labels,
            template_spec=pod_template_spec(name, labels, cpu_millis, memory_bytes, random),
        )

    def new_suffix(self, random: Random) -> str:
        """The end of a pod's name, which no other pod of the workload has."""
        while (suffix := random_letters(random, 5)) in self.suffixes:
            pass
        self.suffixes.add(suffix)
        return suffix

    def owners(self) -> list[JsonObject]:
        """The Deployment and the ReplicaSet, after a finished rollout."""
        revision = {"deployment.kubernetes.io/revision": "1"}
        return [
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {**self.deployment_metadata, "generation": 1, "annotations": revision},
                "spec": self.spec(self.labels),
                "status": {
                    **self.counts("replicas", "updatedReplicas", "readyReplicas"),
                    **self.counts("availableReplicas"),
                    "observedGeneration": 1,
                    "conditions": deployment_conditions(self.replicaset_metadata["name"]),
                },
            },
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "metadata": {
                    **self.replicaset_metadata,
                    "generation": 1,
                    "labels": self.pod_labels,
                    "annotations": {
                        **revision,
                        "deployment.kubernetes.io/desired-replicas": str(self.replicas),
                        "deployment.kubernetes.io/max-replicas": str(-(-self.replicas * 5 // 4)),
                    },
                    "ownerReferences": [
                        controller_reference("Deployment", self.deployment_metadata)
                    ],
                },
                "spec": self.spec(self.pod_labels),
                "status": {
                    **self.counts("replicas", "fullyLabeledReplicas", "readyReplicas"),
                    **self.counts("availableReplicas"),
                    "observedGeneration": 1,
                },
            },
        ]

    def spec(self, labels: dict[str, str]) -> JsonObject:
        """The spec of either owner; a ReplicaSet's labels have the template's hash."""
        return {
            "replicas": self.replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": self.template_spec},
        }

    def counts(self, *names: str) -> dict[str, int]:
        """These fields of a status, when all replicas are as they should be."""
        return dict.fromkeys(names, self.replicas)

    def pod(self, node: LargeNode, random: Random) -> JsonObject:
        """One of its pods, running and ready on the node."""
        suffix = self.new_suffix(random)
        name = f"{self.name}-{self.template_hash}-{suffix}"
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                **metadata(name, self.namespace, random, self.pod_labels),
                "generateName": f"{self.name}-{self.template_hash}-",
                "ownerReferences": self.owner_references,
                "managedFields": self.managed_fields,
            },
            "spec": self.pod_spec(node, suffix),
            "status": self.pod_status(node, random),
        }

    def pod_spec(self, node: LargeNode, suffix: str) -> JsonObject:
        """The template, with the fields that admission and the scheduler add to each pod."""
        volume = f"kube-api-access-{suffix}"
        mount = {
            "name": volume,
            "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
            "readOnly": True,
        }
        return {
            **self.template_spec,
            "nodeName": node.name,
            "containers": [
                {**container, "volumeMounts": [*container["volumeMounts"], mount]}
                for container in self.template_spec["containers"]
            ],
            "volumes": [*self.template_spec["volumes"], {"name": volume, **API_ACCESS_VOLUME}],
            "tolerations": NOT_READY_TOLERATIONS,
            "enableServiceLinks": True,
            "preemptionPolicy": "PreemptLowerPriority",
            "priority": 0,
            "serviceAccount": "default",
            "serviceAccountName": "default",
        }

    def pod_status(self, node: LargeNode, random: Random) -> JsonObject:
        """The status that the kubelet writes when the pod is ready."""
        address = f"100.{random.getrandbits(6)}.{random.getrandbits(8)}.{random.getrandbits(8)}"
        return {
            "phase": "Running",
            "qosClass": "Burstable",
            "observedGeneration": 1,
            "startTime": CREATED,
            "hostIP": node.address,
            "hostIPs": [{"ip": node.address}],
            "podIP": address,
            "podIPs": [{"ip": address}],
            "conditions": POD_CONDITIONS,
            "containerStatuses": [
                {
                    "name": container["name"],
                    "image": container["image"],
                    "imageID": f"{container['image']}@sha256:{self.replicaset_metadata['uid']}",
                    "containerID": f"containerd://{random.getrandbits(256):064x}",
                    "ready": True,
                    "started": True,
                    "restartCount": 0,
                    "lastState": {},
                    "state": {"running": {"startedAt": CREATED}},
                }
                for container in self.template_spec["containers"]
            ],
        }


SERVICE_NAMES = (
    "cart", "catalog", "checkout", "payment", "search", "profile", "billing", "invoice",
    "shipping", "pricing", "stock", "reviews", "media", "session", "ledger", "reports",
)  # fmt: skip
SERVICE_ROLES = ("api", "worker", "web", "consumer", "gateway", "cache")
API_ACCESS_VOLUME: JsonObject = {
    "projected": {
        "defaultMode": 420,
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {
                "configMap": {
                    "name": "kube-root-ca.crt",
                    "items": [{"key": "ca.crt", "path": "ca.crt"}],
                }
            },
            {
                "downwardAPI": {
                    "items": [
                        {
                            "path": "namespace",
                            "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
                        }
                    ]
                }
            },
        ],
    }
}
POD_CONDITIONS = [
    {
        "type": kind,
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": CREATED,
    }
    for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady",
                 "PodScheduled")
]  # fmt: skip


def metadata(
    name: str, namespace: str | None, random: Random, labels: dict[str, str]
) -> JsonObject:
    """The metadata of an object; cluster-scoped objects have no namespace."""
    built: JsonObject = {
        "name": name,
        "uid": new_uid(random),
        "creationTimestamp": CREATED,
        "labels": labels,
    }
    if namespace is not None:
        built["namespace"] = namespace
    return built


def new_uid(random: Random) -> str:
    """A uid of the usual form."""
    digits = f"{random.getrandbits(128):032x}"
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"


def random_letters(random: Random, count: int) -> str:
    """The random part of a name."""
    return "".join(random.choices(NAME_LETTERS, k=count))


def pick(weights: dict[int, int], random: Random) -> int:
    """One of the keys, as often as its weight says."""
    return random.choices(list(weights), list(weights.values()))[0]


def controller_reference(kind: str, owner: JsonObject) -> JsonObject:
    """A reference to the owner that manages an object."""
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "name": owner["name"],
        "uid": owner["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def workload_labels(name: str, random: Random) -> dict[str, str]:
    """The labels that common packaging tools put on a workload and its pods."""
    return {
        "app.kubernetes.io/name": name,
        "app.kubernetes.io/version": f"2.{random.randrange(90)}.{random.randrange(20)}",
        "app.kubernetes.io/component": random.choice(SERVICE_ROLES),
        "app.kubernetes.io/managed-by": "Helm",
        "example.com/cost-center": f"cc-{random.randrange(100, 999)}",
    }


def pod_template_spec(
    name: str, labels: dict[str, str], cpu_millis: int, memory_bytes: int, random: Random
) -> JsonObject:
    """A pod template's spec: the container, perhaps a sidecar, perhaps placement preferences."""
    proxy_millis, proxy_bytes = (
        (25, 32 * MIB) if random.random() < 0.1 and cpu_millis > 50 else (0, 0)
    )
    containers = [
        container(name, f"registry.example/{name}:2.1", cpu_millis - proxy_millis,
                  memory_bytes - proxy_bytes, random)
    ]  # fmt: skip
    if proxy_millis:
        image = "registry.example/mesh/proxy:1.27"
        containers.append(container("proxy", image, proxy_millis, proxy_bytes, random))
    spec: JsonObject = {
        "containers": containers,
        "volumes": [
            {"name": "config", "configMap": {"name": f"{name}-config", "defaultMode": 420}},
            {"name": "tmp"} | scratch_space(name, random),
        ],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "schedulerName": "default-scheduler",
        "securityContext": {"runAsNonRoot": True, "runAsUser": 10001, "fsGroup": 10001},
    }
    return spec | placement_preferences(
        {"app.kubernetes.io/name": labels["app.kubernetes.io/name"]}, random
    )


def scratch_space(name: str, random: Random) -> JsonObject:
    """The volume mounted at /tmp: sometimes an emptyDir, which would be lost with the pod."""
    if random.random() < 0.2:
        return {"emptyDir": {}}
    return {"configMap": {"name": f"{name}-scratch", "defaultMode": 420}}


def placement_preferences(selected: dict[str, str], random: Random) -> JsonObject:
    """Spread over zones or anti-affinity, both only preferred: any placement is allowed."""
    selector = {"matchLabels": selected}
    drawn = random.random()
    if drawn < 0.3:
        spread = {
            "maxSkew": 1,
            "topologyKey": "topology.kubernetes.io/zone",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": selector,
        }
        return {"topologySpreadConstraints": [spread]}
    if drawn < 0.4:
        term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}
        preferred = [{"weight": 100, "podAffinityTerm": term}]
        key = "preferredDuringSchedulingIgnoredDuringExecution"
        return {"affinity": {"podAntiAffinity": {key: preferred}}}
    return {}


def container(
    name: str, image: str, cpu_millis: int, memory_bytes: int, random: Random
) -> JsonObject:
    """A container with the usual probes, environment and mounts."""
    memory = f"{memory_bytes // MIB}Mi"
    return {
        "name": name,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "env": [
            {"name": key, "value": f"value-{random.getrandbits(40):010x}"} for key in ENVIRONMENT
        ],
        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
        "resources": {
            "requests": {"cpu": f"{cpu_millis}m", "memory": memory},
            "limits": {"memory": memory},
        },
        "livenessProbe": probe("/healthz", 10),
        "readinessProbe": probe("/readyz", 5),
        "volumeMounts": [
            {"name": "config", "mountPath": "/etc/app", "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp"},
        ],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    }


def probe(path: str, period_seconds: int) -> JsonObject:
    """An HTTP probe with all its defaults written out, as the server stores it."""
    return {
        "httpGet": {"path": path, "port": "http", "scheme": "HTTP"},
        "periodSeconds": period_seconds,
        "timeoutSeconds": 1,
        "successThreshold": 1,
        "failureThreshold": 3,
    }


def deployment_conditions(replicaset: str) -> list[JsonObject]:
    """The conditions of a Deployment whose rollout is over."""
    progress = f'ReplicaSet "{replicaset}" has successfully progressed.'
    return [
        {
            "type": kind,
            "status": "True",
            "reason": reason,
            "message": message,
            "lastTransitionTime": CREATED,
            "lastUpdateTime": CREATED,
        }
        for kind, reason, message in (
            ("Available", "MinimumReplicasAvailable", "Deployment has minimum availability."),
            ("Progressing", "NewReplicaSetAvailable", progress),
        )
    ]


def pod_managed_fields(
    labels: dict[str, str], owner_uid: str, spec: JsonObject
) -> list[JsonObject]:
    """The fields that the ReplicaSet controller and the kubelet manage; a fifth of the bytes."""
    created: JsonObject = {
        "f:metadata": {
            "f:generateName": {},
            "f:labels": {".": {}, **{f"f:{label}": {} for label in labels}},
            "f:ownerReferences": {".": {}, f'k:{{"uid":"{owner_uid}"}}': {}},
        },
        "f:spec": {
            "f:containers": {
                f'k:{{"name":"{item["name"]}"}}': {".": {}, **{f"f:{key}": {} for key in item}}
                for item in spec["containers"]
            },
        },
    }
    reported: JsonObject = {
        "f:status": {f"f:{key}": {} for key in ("conditions", "containerStatuses", "phase")}
    }
    return [
        managed_by("kube-controller-manager", created),
        {**managed_by("kubelet", reported), "subresource": "status"},
    ]


def managed_by(manager: str, fields: JsonObject) -> JsonObject:
    """An entry of managedFields."""
    return {
        "manager": manager,
        "operation": "Update",
        "apiVersion": "v1",
        "time": CREATED,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }
