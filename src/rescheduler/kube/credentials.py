"""Where the API server is, how to trust it, and who we are to it.

Looked for where kubectl looks, in its order: a file that was named, the files in $KUBECONFIG,
~/.kube/config, and then the service account of the pod we run in.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from rescheduler.errors import CredentialsError
from rescheduler.kube.authentication import Authentication, read_token, token_file

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True)
class Credentials:
    """All that a connection needs to know."""

    server: str
    authentication: Authentication
    # The authorities to trust; None for those of the system.
    ca_file: str | None = None
    # False only where a kubeconfig asks for it with insecure-skip-tls-verify.
    verify: bool = True
    # The name to expect in the server's certificate, where it is not that of the URL.
    tls_server_name: str | None = None
    proxy: str | None = None
    # Ask for gzip: see docs/designs/api-server.md for when that pays.
    compression: bool = False
    # Where all this comes from, for messages.
    source: str = "credentials"


async def load_credentials(
    kubeconfig: Path | None = None,
    context: str | None = None,
    environment: Mapping[str, str] = os.environ,
    service_account: Path = SERVICE_ACCOUNT,
) -> Credentials:
    """Find out how to connect. `context` is None for the kubeconfig's current one."""
    files = kubeconfig_files(kubeconfig, environment)
    found = [file for file in files if file.exists()]
    if kubeconfig is not None and not found:
        raise CredentialsError(f"kubeconfig {kubeconfig}: no such file")
    if found:
        # Costs 19 MB and half a second, so not before it is known to be needed.
        from rescheduler.kube.kubeconfig import from_kubeconfig

        return await from_kubeconfig(found, context)
    if is_in_cluster(environment, service_account):
        if context is not None:
            raise CredentialsError(
                f"context {context!r}: there is no kubeconfig, only a pod's service account"
            )
        return in_cluster(environment, service_account)
    raise CredentialsError(
        f"no kubeconfig (looked for {', '.join(map(str, files))}), and not running in a pod: "
        "name a kubeconfig, or set KUBECONFIG"
    )


def kubeconfig_files(kubeconfig: Path | None, environment: Mapping[str, str]) -> list[Path]:
    """The files that together are the kubeconfig; some may not exist."""
    if kubeconfig is not None:
        return [kubeconfig.expanduser()]
    named = [name for name in environment.get("KUBECONFIG", "").split(os.pathsep) if name]
    if named:
        return [Path(name).expanduser() for name in named]
    return [Path(environment.get("HOME", "~")).expanduser() / ".kube" / "config"]


def is_in_cluster(environment: Mapping[str, str], service_account: Path) -> bool:
    """Whether we run in a pod that has a service account."""
    return bool(environment.get("KUBERNETES_SERVICE_HOST")) and (service_account / "token").exists()


def in_cluster(environment: Mapping[str, str], service_account: Path) -> Credentials:
    """The service account of our own pod.

    Two variables and two files: the library that reads kubeconfigs would do the same, for
    19 MB of memory that the controller need not spend.
    """
    host = environment["KUBERNETES_SERVICE_HOST"]
    port = environment.get("KUBERNETES_SERVICE_PORT", "443")
    token, ca_file = service_account / "token", service_account / "ca.crt"
    read_token(token)
    return Credentials(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        authentication=token_file(token),
        ca_file=str(ca_file),
        source=f"service account {service_account}",
    )


def proxy_for(server: str) -> str | None:
    """The proxy that the environment names for a server.

    Like kubectl, never one for this machine itself. aiohttp could look, but would then also
    let ~/.netrc override our token.
    """
    parts = urlsplit(server)
    if is_loopback(server) or proxy_bypass(parts.netloc):
        return None
    return getproxies().get(parts.scheme)


def is_loopback(server: str) -> bool:
    """Whether a server is on this machine."""
    host = urlsplit(server).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")
