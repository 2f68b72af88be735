"""The second kube-scheduler, which calls the extender, and its configuration."""

from dataclasses import dataclass
from typing import Any

from rescheduler.install.certificate_objects import (
    CERTIFICATE_DIRECTORY,
    CLIENT_SECRET,
    certificate_mount,
    secret_volume,
)
from rescheduler.install.controller_objects import SERVICE_PORT
from rescheduler.install.metadata import CONTROLLER, SCHEDULER, metadata
from rescheduler.install.pods import (
    deployment,
    own_namespace,
    probe,
)
from rescheduler.install.rights import SCHEDULER_LEASE_NAME, SECRET_NAME
from rescheduler.install.tree import Comment, Items, Tree, Value, When, dumped

CONFIG_NAME = "rescheduler-scheduler-config"
CONFIG_DIRECTORY, CONFIG_FILE = "/etc/rescheduler-scheduler", "scheduler-configuration.yaml"
CERTIFICATE_FILES = ("ca.crt", "client.crt", "client.key")
HEALTH_PORT = 10259


@dataclass(frozen=True)
class SchedulerFiles:
    """Where a kube-scheduler finds the extender and its own files."""

    url: str
    certificates: str
    kubeconfig: str = ""
    """Empty for a scheduler in a pod, which uses its service account."""


IN_POD = SchedulerFiles(f"https://{CONTROLLER}:{SERVICE_PORT}/extender", CERTIFICATE_DIRECTORY)
ON_NODE = SchedulerFiles(
    f"https://{CONTROLLER}.{CONTROLLER}.svc/extender",
    "/etc/kubernetes/rescheduler",
    "/etc/kubernetes/scheduler.conf",
)


def scheduler_configuration(files: SchedulerFiles) -> dict[Any, Tree]:
    """The configuration that makes a kube-scheduler call the extender."""
    connection = {"clientConnection": {"kubeconfig": files.kubeconfig}} if files.kubeconfig else {}
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {
            "leaderElect": True,
            Comment(
                "Not that of the default scheduler, or only one of the two would be active."
            ): None,
            "resourceName": SCHEDULER_LEASE_NAME,
        },
        **connection,
        "profiles": [
            {
                "schedulerName": SCHEDULER,
                Comment(
                    "With more than 100 nodes, the scheduler looks only at some of them for each "
                    "pod, fewer the more there are. The best node is then the best of those. With "
                    "100 it looks at all, which takes longer."
                ): None,
                Comment("percentageOfNodesToScore: 100"): None,
            }
        ],
        "extenders": [extender(files)],
    }


def extender(files: SchedulerFiles) -> dict[Any, Tree]:
    """The entry for our extender."""
    return {
        "urlPrefix": files.url,
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        Comment(
            "How much our scores count: our highest score adds 100 times this. The scheduler's "
            "own scores for spreading, affinity and taints add at most 200 or 300 each."
        ): None,
        "weight": 5,
        Comment("The scheduler sends the names of nodes instead of whole nodes."): None,
        "nodeCacheCapable": True,
        Comment(
            "Whatever happens to us, pods are scheduled: without a useful response in time, the "
            "scheduler goes on alone. A pod waits for `httpTimeout` at most twice."
        ): None,
        "ignorable": True,
        "httpTimeout": "500ms",
        Comment(
            "Bind pods through us as well: we then know at once on which node each pod is, and "
            "not only when a watch shows it. If we fail, the scheduler binds the pod itself, after "
            "`httpTimeout` and because of `ignorable`; older schedulers ignore that for this verb, "
            "and leave the pod pending. At most one extender may bind."
        ): None,
        Comment("bindVerb: bind"): None,
        "enableHTTPS": True,
        "tlsConfig": {
            Comment(
                "From the Secret named with --certificates-secret, or signed by the CA named with "
                "--client-ca. The certificate and its key are read again when they change, the CA "
                "is not."
            ): None,
            "caFile": f"{files.certificates}/ca.crt",
            "certFile": f"{files.certificates}/client.crt",
            "keyFile": f"{files.certificates}/client.key",
        },
    }


def scheduler_config() -> dict[Any, Tree]:
    """The ConfigMap with the configuration of the second scheduler."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(CONFIG_NAME, SCHEDULER),
        "data": {CONFIG_FILE: dumped(scheduler_configuration(IN_POD))},
    }


def scheduler_deployment() -> dict[Any, Tree]:
    """The Deployment of the second scheduler. It starts when there are certificates."""
    own = secret_volume(SECRET_NAME, dict(zip(CERTIFICATE_FILES, CERTIFICATE_FILES, strict=True)))
    keys = dict(zip(("ca.crt", "tls.crt", "tls.key"), CERTIFICATE_FILES, strict=True))
    volumes: list[Tree] = [
        {"name": "config", "configMap": {"name": CONFIG_NAME}},
        {When("ownCertificates"): [own]},
        {When("certManager"): [secret_volume(CLIENT_SECRET, keys)]},
    ]
    return deployment(
        SCHEDULER,
        Value("scheduler.replicas"),
        scheduler_container(),
        volumes,
        SCHEDULER,
        Value("podAnnotations"),
    )


def scheduler_container() -> dict[Any, Tree]:
    """The container of the second scheduler."""
    return {
        "name": "kube-scheduler",
        "image": Value("schedulerImage"),
        "imagePullPolicy": Value("image.pullPolicy"),
        "command": [
            "kube-scheduler",
            f"--config={CONFIG_DIRECTORY}/{CONFIG_FILE}",
            "--leader-elect-resource-namespace=$(POD_NAMESPACE)",
            # Whoever reads its metrics shows a token. Client certificates would need a binding in
            # kube-system, which kustomize moves to the namespace of everything else.
            "--authentication-skip-lookup=true",
            Items("scheduler.extraArgs"),
        ],
        "env": [own_namespace()],
        "ports": [{"name": "https", "containerPort": HEALTH_PORT}],
        "livenessProbe": probe("/livez", "https", "HTTPS", timeoutSeconds=10, failureThreshold=6),
        "readinessProbe": probe("/readyz", "https", "HTTPS", timeoutSeconds=5),
        "resources": Value("scheduler.resources"),
        "securityContext": Value("scheduler.securityContext"),
        "volumeMounts": [
            {"name": "config", "mountPath": CONFIG_DIRECTORY, "readOnly": True},
            certificate_mount(),
        ],
    }
