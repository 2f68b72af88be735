"""The part of cert-manager that an installation meets: its kinds, and the Secrets that it writes.

cert-manager itself does not run here. Its kinds have the fields that we use, so that the API server
refuses others.
"""

from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from rescheduler.extender.tls.certificates import new_authority, new_client, new_serving
from rescheduler.extender.tls.key_pair import KeyPair
from testcluster import TestCluster
from testcluster.client import ApiError, JsonObject
from testcluster.waiting import wait_until
from tests.conftest import CRDS
from tests.install.local_pod import Rendered

GROUP = "cert-manager.io"
TEXT: JsonObject = {"type": "string"}
TEXTS: JsonObject = {"type": "array", "items": TEXT}


def fields(properties: JsonObject, *required: str) -> JsonObject:
    """A schema of a mapping."""
    return {"type": "object", "properties": properties, "required": [*required]}


SPECS: dict[str, JsonObject] = {
    "Issuer": fields({"selfSigned": fields({}), "ca": fields({"secretName": TEXT}, "secretName")}),
    "Certificate": fields(
        {
            "secretName": TEXT,
            "commonName": TEXT,
            "dnsNames": TEXTS,
            "isCA": {"type": "boolean"},
            "duration": TEXT,
            "renewBefore": TEXT,
            "usages": {
                "type": "array",
                "items": {
                    "type": "string",
                    "enum": ["digital signature", "server auth", "client auth"],
                },
            },
            "privateKey": fields(
                {
                    "algorithm": {"type": "string", "enum": ["RSA", "ECDSA", "Ed25519"]},
                    "size": {"type": "integer"},
                    "rotationPolicy": {"type": "string", "enum": ["Never", "Always"]},
                }
            ),
            "issuerRef": fields({"name": TEXT, "kind": TEXT, "group": TEXT}, "name"),
        },
        "secretName",
        "issuerRef",
    ),
}


def definition(kind: str, group: str = GROUP, spec: JsonObject | None = None) -> JsonObject:
    """The CustomResourceDefinition of a kind; by default one of cert-manager."""
    plural = f"{kind.lower()}s"
    schema = fields({"spec": spec or SPECS[kind]}, "spec")
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural},
            "versions": [version],
        },
    }


def serve_cert_manager_kinds(cluster: TestCluster) -> None:
    """Have the API server know Issuers and Certificates."""
    serve_kinds(cluster, [definition(kind) for kind in SPECS])


def serve_kinds(cluster: TestCluster, definitions: list[JsonObject]) -> None:
    """Have the API server know some kinds."""
    for wanted in definitions:
        if not cluster.client.exists(f"{CRDS}/{wanted['metadata']['name']}"):
            cluster.client.create(CRDS, wanted)
    paths = [
        f"/apis/{each['spec']['group']}/v1/{each['spec']['names']['plural']}"
        for each in definitions
    ]

    def are_served() -> bool:
        try:
            return all(map(cluster.client.exists, paths))
        except ApiError:
            return False

    wait_until(are_served, what="the kinds are served")


@contextmanager
def cert_manager_kinds(cluster: TestCluster) -> Iterator[None]:
    """Issuers and Certificates, while the block runs."""
    serve_cert_manager_kinds(cluster)
    try:
        yield
    finally:
        for kind in SPECS:
            cluster.client.delete(f"{CRDS}/{definition(kind)['metadata']['name']}")


class CertManager:
    """Does what cert-manager would do with the Certificates of an installation."""

    def __init__(self, cluster: TestCluster, rendered: Rendered) -> None:
        self._client = cluster.client
        self._rendered = rendered
        self.authority = new_authority(datetime.now(UTC))

    def issue(self) -> None:
        """Write the Secret of every Certificate that a CA signs; those that exist are renewed."""
        for certificate in self._rendered.of_kind("Certificate"):
            if not certificate["spec"].get("isCA"):
                self._write(certificate)

    def inject(self, registration: JsonObject) -> None:
        """Write the CA into the webhooks of a registration, as its annotation asks for."""
        (key,) = registration["metadata"]["annotations"].values()
        namespace, _, name = key.partition("/")
        assert self._rendered.get("Certificate", name)["metadata"]["namespace"] == namespace
        path = f"/apis/{registration['apiVersion']}/mutatingwebhookconfigurations"
        name = registration["metadata"]["name"]
        authority = encoded(self.authority.certificate)
        webhooks = self._client.get(f"{path}/{name}")["webhooks"]
        for webhook in webhooks:
            webhook["clientConfig"]["caBundle"] = authority
        self._client.patch(f"{path}/{name}", {"webhooks": webhooks})

    def _write(self, certificate: JsonObject) -> None:
        spec, metadata = certificate["spec"], certificate["metadata"]
        pair = self._signed(spec)
        data = {
            "ca.crt": encoded(self.authority.certificate),
            "tls.crt": encoded(pair.certificate),
            "tls.key": encoded(pair.key),
        }
        path = f"/api/v1/namespaces/{metadata['namespace']}/secrets"
        body = {"metadata": {"name": spec["secretName"]}, "type": "kubernetes.io/tls", "data": data}
        if self._client.exists(f"{path}/{spec['secretName']}"):
            self._client.patch(f"{path}/{spec['secretName']}", {"data": data})
        else:
            self._client.create(path, body)

    def _signed(self, spec: dict[str, Any]) -> KeyPair:
        now = datetime.now(UTC)
        if "client auth" in spec["usages"]:
            assert spec["commonName"] == "kube-scheduler"
            return new_client(self.authority, now)
        # Here, everybody reaches it at this machine.
        return new_serving(self.authority, [*spec["dnsNames"], "localhost"], now)


def encoded(content: bytes) -> str:
    """Bytes as a Secret has them."""
    return b64encode(content).decode()
