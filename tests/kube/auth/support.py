"""Kubeconfigs, plugins and certificates, and who the API server takes us for with them."""

import asyncio
import datetime
import json
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from rescheduler.kube.auth.loader import load_credentials
from rescheduler.kube.client import Client
from testcluster import TestCluster
from tests.kube.support import QUICK_CLIENT

Json = dict[str, Any]

V1 = "client.authentication.k8s.io/v1"
V1BETA1 = "client.authentication.k8s.io/v1beta1"


async def who_am_i(kubeconfig: Path | None = None, **options: Any) -> str:
    """Connect, and ask the server who we are."""
    return str((await user_info(kubeconfig, **options))["username"])


async def user_info(kubeconfig: Path | None = None, **options: Any) -> Json:
    """Connect, and ask the server for all that it knows of us."""
    async with Client(load_credentials(kubeconfig, **options), QUICK_CLIENT) as client:
        return await ask_user_info(client)


async def ask_who(client: Client) -> str:
    return str((await ask_user_info(client))["username"])


async def ask_user_info(client: Client) -> Json:
    answer = await client.create(
        "/apis/authentication.k8s.io/v1/selfsubjectreviews",
        {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"},
    )
    info: Json = json.loads(answer.body)["status"]["userInfo"]
    return info


async def kubectl(
    cluster: TestCluster, files: str, *arguments: str, stdin: int = subprocess.DEVNULL
) -> "subprocess.CompletedProcess[str]":
    """Run kubectl with these files as its $KUBECONFIG, while servers of the test go on."""

    def run() -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [cluster.binary, "kubectl", *arguments],
            stdin=stdin,
            capture_output=True,
            text=True,
            check=False,
            env={**cluster.kubectl_env, "KUBECONFIG": files},
        )

    return await asyncio.to_thread(run)


def kubeconfig(cluster: Json, user: Json, name: str = "here", **fields: Any) -> Json:
    """The content of a kubeconfig with one context, which is the current one."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        **fields,
    }


def write(path: Path, content: Json | str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


def trusted(cluster: TestCluster, **fields: Any) -> Json:
    """A kubeconfig's entry for the test cluster."""
    return {"server": cluster.server, "certificate-authority": str(cluster.ca_file), **fields}


def exec_plugin(directory: Path, *lines: str, name: str = "plugin") -> Path:
    """A plugin in Python."""
    path = directory / name
    path.write_text(f"#!{sys.executable}\nimport json, os, pathlib, sys\n" + "\n".join(lines))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def exec_user(command: str, **fields: Any) -> Json:
    """A user with an exec plugin; a field that is None is left out."""
    config = {"apiVersion": V1, "command": command, "interactiveMode": "Never", **fields}
    return {"exec": {key: value for key, value in config.items() if value is not None}}


PRINT_STATUS = (
    "version = json.loads(os.environ['KUBERNETES_EXEC_INFO'])['apiVersion']\n"
    "print(json.dumps({'apiVersion': version, 'kind': 'ExecCredential', 'status': status}))"
)


def tokens_in_turn(directory: Path, *statuses: Json) -> Path:
    """A plugin that gives one answer after the other, and the last one for ever."""
    return exec_plugin(
        directory,
        f"calls = pathlib.Path({str(directory / 'calls')!r})",
        "number = len(calls.read_text()) if calls.exists() else 0",
        "calls.write_text('x' * (number + 1))",
        f"statuses = {list(statuses)!r}",
        "status = statuses[min(number, len(statuses) - 1)]",
        PRINT_STATUS,
    )


def calls_of(directory: Path) -> int:
    return len((directory / "calls").read_text())


def client_certificate(
    cluster: TestCluster, name: str, lifetime: datetime.timedelta = datetime.timedelta(days=1)
) -> tuple[bytes, bytes]:
    """A certificate and key for a user, by the authority that the server trusts."""
    files = cluster.layout.certificates
    authority = x509.load_pem_x509_certificate(files.ca_file.read_bytes())
    authority_key = serialization.load_pem_private_key(files.ca_key_file.read_bytes(), None)
    assert isinstance(authority_key, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(authority.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + lifetime)
        .sign(authority_key, hashes.SHA256())
    )
    return (
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
    )
