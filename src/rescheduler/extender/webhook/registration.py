"""The webhook's configuration: which pods the API server sends us, and what if we do not answer.

Pods that cannot be replacements are never sent, and no pod waits for longer than a second: without
a response it is created as it is.
"""

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from rescheduler.extender.tls.serving_tls import ServingCredentials
from rescheduler.kube.api_server import ApiServer, Patch, object_path
from rescheduler.labels import MIGRATION_ID, NAMESPACE_NAME
from rescheduler.model.kinds import Kind
from rescheduler.model.objects import Identity, Part

WEBHOOK_PATH = "/webhook/pods"
CONFIGURATION_NAME = "rescheduler-steering"
SYSTEM_NAMESPACES = ("kube-system", "kube-public", "kube-node-lease")

HAS_A_CONTROLLER = (
    "has(object.metadata.ownerReferences) && object.metadata.ownerReferences.exists(owner, "
    "has(owner.controller) && owner.controller && owner.kind != 'DaemonSet')"
)
IS_NO_PART_OF_A_MIGRATION = (
    f"!has(object.metadata.labels) || !('{MIGRATION_ID}' in object.metadata.labels)"
)


class WebhookConfiguration(Part, frozen=True):
    """A MutatingWebhookConfiguration, which we write and never read."""

    metadata: Identity


WEBHOOK_CONFIGURATION = Kind(
    "MutatingWebhookConfiguration",
    "admissionregistration.k8s.io/v1",
    "mutatingwebhookconfigurations",
    False,
    WebhookConfiguration,
)


@dataclass(frozen=True)
class WebhookAddress:
    """Where the API server reaches us: at a Service `namespace/name`, or at a URL."""

    service: str = ""
    port: int = 443
    url: str = ""

    def client_config(self, authority: bytes, token: str) -> dict[str, Any]:
        """The address with our secret token, and the CA that has signed our certificate."""
        path = f"{WEBHOOK_PATH}/{token}"
        where: dict[str, Any] = {"url": f"{self.url.rstrip('/')}{path}"}
        if self.service:
            namespace, _, name = self.service.partition("/")
            service = {
                "namespace": namespace,
                "name": name,
                "path": path,
                "port": self.port,
            }
            where = {"service": service}
        if authority:
            where["caBundle"] = base64.b64encode(authority).decode()
        return where


def configuration(
    address: WebhookAddress, authority: bytes, token: str, excluded_namespaces: Iterable[str]
) -> dict[str, Any]:
    """The MutatingWebhookConfiguration to apply."""
    own = address.service.partition("/")[0]
    excluded = sorted({*SYSTEM_NAMESPACES, *excluded_namespaces, *([own] if own else [])})
    not_excluded = {"key": NAMESPACE_NAME, "operator": "NotIn", "values": excluded}
    pods = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["pods"],
        "scope": "Namespaced",
    }
    return {
        "apiVersion": WEBHOOK_CONFIGURATION.api_version,
        "kind": WEBHOOK_CONFIGURATION.name,
        "metadata": {"name": CONFIGURATION_NAME},
        "webhooks": [
            {
                "name": "steering.rescheduler.dev",
                "admissionReviewVersions": ["v1"],
                "clientConfig": address.client_config(authority, token),
                "failurePolicy": "Ignore",
                "timeoutSeconds": 1,
                "sideEffects": "None",
                "reinvocationPolicy": "Never",
                "rules": [pods],
                "namespaceSelector": {"matchExpressions": [not_excluded]},
                "matchConditions": [
                    {"name": "has-a-controller", "expression": HAS_A_CONTROLLER},
                    {"name": "is-no-part-of-a-migration", "expression": IS_NO_PART_OF_A_MIGRATION},
                ],
            }
        ],
    }


async def register(
    server: ApiServer,
    address: WebhookAddress,
    credentials: ServingCredentials,
    excluded_namespaces: Iterable[str],
) -> None:
    """Register the webhook with the API server; again if it changed, which is harmless if not."""
    authority, token = credentials.authority, credentials.webhook_token
    wanted = configuration(address, authority, token, excluded_namespaces)
    path = object_path(WEBHOOK_CONFIGURATION, CONFIGURATION_NAME)
    await server.patch(path, wanted, Patch.APPLY, force=True)
