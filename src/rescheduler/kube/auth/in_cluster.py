"""The service account of the pod we run in: two variables and two files."""

from collections.abc import Mapping
from pathlib import Path

from rescheduler.kube.auth.certificates import Trust
from rescheduler.kube.auth.credentials import Credentials
from rescheduler.kube.auth.token_file import read_token, token_file

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def is_in_cluster(environment: Mapping[str, str], service_account: Path) -> bool:
    """Whether we run in a pod that has a service account."""
    return bool(environment.get("KUBERNETES_SERVICE_HOST")) and (service_account / "token").exists()


def in_cluster(environment: Mapping[str, str], service_account: Path) -> Credentials:
    """The service account of our own pod. Its token is rotated by the kubelet."""
    host = environment["KUBERNETES_SERVICE_HOST"]
    port = environment.get("KUBERNETES_SERVICE_PORT", "443")
    token = service_account / "token"
    read_token(token)
    return Credentials(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        authentication=token_file(token),
        trust=Trust(service_account / "ca.crt"),
        source=f"service account {service_account}",
    )
