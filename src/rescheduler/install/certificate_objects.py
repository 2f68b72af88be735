"""Certificates of the extender and the webhook: issued by the controller, or by cert-manager.

Both give the same to those who use them: a CA, a certificate to serve with, and one for
kube-scheduler as a client. The names of the Secrets differ, so that an installation can be switched
from one to the other: the type of a Secret cannot be changed.
"""

from typing import Any

from rescheduler.extender.client_authorization import KUBE_SCHEDULERS
from rescheduler.extender.tls.certificate_secret import AUTHORITY_SUFFIX
from rescheduler.extender.tls.certificates import AUTHORITY_NAME
from rescheduler.install.metadata import CONTROLLER, SCHEDULER, metadata
from rescheduler.install.rights import SECRET_NAME
from rescheduler.install.tree import Comment, Tree, Value

CERT_MANAGER = "cert-manager.io"
INJECT_ANNOTATION = f"{CERT_MANAGER}/inject-ca-from"
SERVING_SECRET = "rescheduler-serving-certificate"
CLIENT_SECRET = "rescheduler-scheduler-certificate"
AUTHORITY_SECRET = "rescheduler-authority-certificate"
AUTHORITY_ISSUER, SELF_SIGNED_ISSUER = "rescheduler", "rescheduler-self-signed"

KEY_KIND: dict[Any, Tree] = {"algorithm": "ECDSA", "size": 256}

CERTIFICATE_DIRECTORY = "/etc/rescheduler-certificates"
CLIENT_CA_FILE = "client-ca.crt"


def certificate_secrets() -> list[dict[Any, Tree]]:
    """Empty Secrets, which the controller fills: it needs no right to create any."""
    return [
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": metadata(f"{SECRET_NAME}{suffix}", CONTROLLER),
            "type": "Opaque",
        }
        for suffix in ("", AUTHORITY_SUFFIX)
    ]


# ------------------------------------------------------------ cert-manager


def cert_manager_objects() -> list[dict[Any, Tree]]:
    """A CA of our own, and what it signs, for cert-manager to issue and renew."""
    authority = {
        "privateKey": kept_key("Who trusts the CA also trusts the next one with this key."),
        "isCA": True,
        "commonName": AUTHORITY_NAME,
        "duration": "87600h",
        "issuerRef": issuer_reference(SELF_SIGNED_ISSUER),
    }
    serving = {
        "privateKey": kept_key(
            "All replicas derive the path of the webhook from this key, and would see a new one "
            "at different times."
        ),
        "dnsNames": Value("serviceNames"),
        "usages": ["digital signature", "server auth"],
        **short_lived(),
    }
    client = {
        "privateKey": {**KEY_KIND, "rotationPolicy": "Always"},
        "commonName": KUBE_SCHEDULERS[0],
        "usages": ["digital signature", "client auth"],
        **short_lived(),
    }
    return [
        issuer(SELF_SIGNED_ISSUER, {"selfSigned": {}}),
        certificate("rescheduler-authority", CONTROLLER, AUTHORITY_SECRET, authority),
        issuer(AUTHORITY_ISSUER, {"ca": {"secretName": AUTHORITY_SECRET}}),
        certificate(CONTROLLER, CONTROLLER, SERVING_SECRET, serving),
        certificate(SCHEDULER, SCHEDULER, CLIENT_SECRET, client),
    ]


def kept_key(why: str) -> dict[Any, Tree]:
    """A key that stays the same when its certificate is renewed."""
    return {**KEY_KIND, Comment(why): None, "rotationPolicy": "Never"}


def short_lived() -> dict[Any, Tree]:
    """Valid for 90 days and renewed after 60, as those that the controller issues."""
    return {
        "duration": "2160h",
        "renewBefore": "720h",
        "issuerRef": issuer_reference(AUTHORITY_ISSUER),
    }


def issuer(name: str, spec: dict[Any, Tree]) -> dict[Any, Tree]:
    """An Issuer of cert-manager."""
    return {
        "apiVersion": f"{CERT_MANAGER}/v1",
        "kind": "Issuer",
        "metadata": metadata(name, CONTROLLER),
        "spec": spec,
    }


def issuer_reference(name: str) -> dict[str, str]:
    """An Issuer in the same namespace."""
    return {"group": CERT_MANAGER, "kind": "Issuer", "name": name}


def certificate(name: str, component: str, secret: str, spec: dict[Any, Tree]) -> dict[Any, Tree]:
    """A Certificate of cert-manager, which writes it to a Secret."""
    return {
        "apiVersion": f"{CERT_MANAGER}/v1",
        "kind": "Certificate",
        "metadata": metadata(name, component),
        "spec": {
            "secretName": secret,
            **spec,
        },
    }


def serving_volume() -> dict[Any, Tree]:
    """What cert-manager has issued, for the controller.

    There is no `ca.crt`: cert-manager writes the CA into the webhook's registration. If the
    controller did as well, the two would disagree while the CA is renewed.
    """
    keys = {"tls.crt": "tls.crt", "tls.key": "tls.key", "ca.crt": CLIENT_CA_FILE}
    return secret_volume(SERVING_SECRET, keys)


def secret_volume(secret: str, paths: dict[str, str]) -> dict[Any, Tree]:
    """The volume `certificates` with some keys of a Secret, by the names of their files."""
    items = [{"key": key, "path": path} for key, path in paths.items()]
    return {"name": "certificates", "secret": {"secretName": secret, "items": items}}


def certificate_mount() -> dict[Any, Tree]:
    """Where that volume is mounted."""
    return {"name": "certificates", "mountPath": CERTIFICATE_DIRECTORY, "readOnly": True}
