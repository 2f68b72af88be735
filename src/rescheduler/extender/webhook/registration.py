"""The webhook's configuration: which pods the API server shows us, and what if we do not answer.

Pods that cannot be replacements never leave the API server, and no pod ever waits for longer than a
second: without an answer it is made as it is.
"""

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from rescheduler.kube.api_server import ApiServer, Patch, object_path
from rescheduler.labels import MIGRATION_ID
from rescheduler.model.kinds import Kind
from rescheduler.model.objects import Identity, Part

PATH = "/webhook/pods"
NAME = "rescheduler-steering"
SYSTEM_NAMESPACES = ("kube-system", "kube-public", "kube-node-lease")

HAS_A_CONTROLLER = (
    "has(object.metadata.ownerReferences) && object.metadata.ownerReferences.exists(owner, "
    "has(owner.controller) && owner.controller && owner.kind != 'DaemonSet')"
)
IS_NO_PART_OF_A_MIGRATION = (
    f"!has(object.metadata.labels) || !('{MIGRATION_ID}' in object.metadata.labels)"
)


class Configuration(Part, frozen=True):
    """A configuration of webhooks, of which only the name matters here."""

    metadata: Identity


CONFIGURATION = Kind(
    "MutatingWebhookConfiguration",
    "admissionregistration.k8s.io/v1",
    "mutatingwebhookconfigurations",
    False,
    Configuration,
)


@dataclass(frozen=True)
class Address:
    """Where the API server finds us: a Service `namespace/name`, or a URL."""

    service: str = ""
    port: int = 443
    url: str = ""

    def client_config(self, authority: bytes) -> dict[str, Any]:
        """The address, and who vouches for us there."""
        where: dict[str, Any] = {"url": f"{self.url.rstrip('/')}{PATH}"}
        if self.service:
            namespace, _, name = self.service.partition("/")
            service = {"namespace": namespace, "name": name, "path": PATH, "port": self.port}
            where = {"service": service}
        if authority:
            where["caBundle"] = base64.b64encode(authority).decode()
        return where


def configuration(
    address: Address, authority: bytes, excluded_namespaces: Iterable[str]
) -> dict[str, Any]:
    """The configuration as the server takes it."""
    own = address.service.partition("/")[0]
    excluded = sorted({*SYSTEM_NAMESPACES, *excluded_namespaces, *([own] if own else [])})
    elsewhere = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": excluded}
    pods = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["pods"],
        "scope": "Namespaced",
    }
    return {
        "apiVersion": CONFIGURATION.api_version,
        "kind": CONFIGURATION.name,
        "metadata": {"name": NAME},
        "webhooks": [
            {
                "name": "steering.rescheduler.dev",
                "admissionReviewVersions": ["v1"],
                "clientConfig": address.client_config(authority),
                "failurePolicy": "Ignore",
                "timeoutSeconds": 1,
                "sideEffects": "None",
                "reinvocationPolicy": "Never",
                "rules": [pods],
                "namespaceSelector": {"matchExpressions": [elsewhere]},
                "matchConditions": [
                    {"name": "has-a-controller", "expression": HAS_A_CONTROLLER},
                    {"name": "is-no-part-of-a-migration", "expression": IS_NO_PART_OF_A_MIGRATION},
                ],
            }
        ],
    }


async def register(
    server: ApiServer, address: Address, authority: bytes, excluded_namespaces: Iterable[str]
) -> None:
    """Tell the API server to ask us; telling it again changes nothing."""
    wanted = configuration(address, authority, excluded_namespaces)
    await server.patch(object_path(CONFIGURATION, NAME), wanted, Patch.APPLY, force=True)
