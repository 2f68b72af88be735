"""The controller: its Deployment, and what it needs around it."""

from typing import Any

from rescheduler.extender.webhook.registration import CONFIGURATION_NAME, WEBHOOK_CONFIGURATION
from rescheduler.install.certificate_objects import (
    CERTIFICATE_DIRECTORY,
    CLIENT_CA_FILE,
    INJECT_ANNOTATION,
    certificate_mount,
    serving_volume,
)
from rescheduler.install.metadata import CONTROLLER, NAME_LABEL, labels, metadata
from rescheduler.install.options import EXTENDER_PORT, MONITORING, MONITORING_PORT, SERVING
from rescheduler.install.pods import (
    deployment,
    own_namespace,
    own_uid,
    probe,
)
from rescheduler.install.rights import LEASE_NAME, SECRET_NAME
from rescheduler.install.tree import Items, Tree, Value, ValueText, When

CONFIG_NAME = "rescheduler-config"
CONFIG_DIRECTORY = "/etc/rescheduler"
POLICY_FILE = "policy.yaml"
SERVICE_PORT = 443
DNS_PORTS = (53, 5353)
"""The second one is that of OpenShift's pods, behind the first one of their Service."""


def controller_config() -> dict[Any, Tree]:
    """The ConfigMap with the policy. It is read again when the kubelet has updated the file."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(CONFIG_NAME, CONTROLLER),
        "data": {POLICY_FILE: ValueText("policy")},
    }


def controller_deployment() -> dict[Any, Tree]:
    """The Deployment of the controller, which serves the extender as well."""
    volumes: list[Tree] = [
        {"name": "config", "configMap": {"name": CONFIG_NAME}},
        {When("certManager"): [serving_volume()]},
        Items("extraVolumes"),
    ]
    return deployment(
        CONTROLLER,
        Value("replicas"),
        controller_container(),
        volumes,
        Value("serviceAccount.name"),
        Value(f"{CONTROLLER}.podAnnotations"),
    )


def controller_container() -> dict[Any, Tree]:
    """The container; its image starts `rescheduler`."""
    serving = [
        f"--serve=:{EXTENDER_PORT}",
        f"--webhook-service=$(POD_NAMESPACE)/{CONTROLLER}:{SERVICE_PORT}",
    ]
    issuing = [
        f"--certificates-secret=$(POD_NAMESPACE)/{SECRET_NAME}",
        # By this name, schedulers in the same namespace reach us in any namespace.
        f"--name={CONTROLLER}",
    ]
    reading = [
        f"--certificates={CERTIFICATE_DIRECTORY}",
        f"--client-ca={CERTIFICATE_DIRECTORY}/{CLIENT_CA_FILE}",
    ]
    return {
        "name": "rescheduler",
        "image": Value("image"),
        "imagePullPolicy": Value("image.pullPolicy"),
        "args": [
            "run",
            f"--policy={CONFIG_DIRECTORY}/{POLICY_FILE}",
            {When("dryRun"): ["--dry-run"]},
            {
                When("moves"): [
                    f"--leader-election-lease=$(POD_NAMESPACE)/{LEASE_NAME}",
                    "--leader-election-instance=$(POD_UID)",
                ]
            },
            {When("extender"): serving},
            {When("ownCertificates"): issuing},
            {When("certManager"): reading},
            f"--health=:{MONITORING_PORT}",
            Items("extraArgs"),
        ],
        "env": [own_namespace(), own_uid(), Items("extraEnv")],
        "ports": [
            {When("extender"): [{"name": SERVING, "containerPort": EXTENDER_PORT}]},
            {"name": MONITORING, "containerPort": MONITORING_PORT},
        ],
        # Alive: its loop runs. Ready: it has read the cluster, which may take a while. Without an
        # API server it has no certificates to serve with, and would not be better off after a
        # restart: so it is asked elsewhere whether it is alive.
        "livenessProbe": probe(
            "/healthz", MONITORING, "HTTP", timeoutSeconds=10, failureThreshold=6
        ),
        "readinessProbe": probe(
            "/readyz",
            Value("readinessPort"),
            Value("readinessScheme"),
            timeoutSeconds=5,
            periodSeconds=5,
        ),
        "resources": Value("resources"),
        "securityContext": Value("securityContext"),
        "volumeMounts": [
            {"name": "config", "mountPath": CONFIG_DIRECTORY, "readOnly": True},
            {When("certManager"): [certificate_mount()]},
            Items("extraVolumeMounts"),
        ],
    }


def service() -> dict[Any, Tree]:
    """Where API servers and schedulers reach the replicas that are ready."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(CONTROLLER, CONTROLLER),
        "spec": {
            "selector": labels(CONTROLLER),
            "ports": [{"name": "https", "port": SERVICE_PORT, "targetPort": SERVING}],
        },
    }


def webhook_registration() -> dict[Any, Tree]:
    """A registration without webhooks. The controller adds its own when it is ready."""
    return {
        "apiVersion": WEBHOOK_CONFIGURATION.api_version,
        "kind": WEBHOOK_CONFIGURATION.name,
        "metadata": {
            **metadata(CONFIGURATION_NAME, CONTROLLER, is_namespaced=False),
            When("certManager"): {"annotations": {INJECT_ANNOTATION: Value("certificateKey")}},
        },
    }


def priority_class() -> dict[Any, Tree]:
    """The priority of our own pods. Its value cannot be changed, so each has a name of its own."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": metadata(Value("priorityClassName"), CONTROLLER, is_namespaced=False),
        "value": Value("priorityClass.value"),
        "description": "For the rescheduler itself.",
    }


def network_policy() -> dict[Any, Tree]:
    """In: to our ports, from anywhere, for API servers and kubelets have no labels."""
    serving = {"ports": [{"port": SERVING, "protocol": "TCP"}]}
    monitoring = {
        "ports": [{"port": MONITORING, "protocol": "TCP"}],
        "from": Value("networkPolicy.monitoringFrom"),
    }
    dns = [{"port": port, "protocol": each} for port in DNS_PORTS for each in ("UDP", "TCP")]
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(CONTROLLER, CONTROLLER),
        "spec": {
            "podSelector": {"matchLabels": labels(CONTROLLER)},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{When("extender"): [serving]}, monitoring],
            "egress": [
                {"ports": dns, "to": Value("networkPolicy.dnsPeers")},
                {"ports": Value("apiServerPorts"), "to": Value("apiServerPeers")},
                Items("networkPolicy.extraEgress"),
            ],
        },
    }


def namespace() -> dict[Any, Tree]:
    """The namespace, in which no pod may do more than ours have to."""
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": Value("namespace"),
            "labels": {
                NAME_LABEL: CONTROLLER,
                "pod-security.kubernetes.io/enforce": "restricted",
            },
        },
    }
