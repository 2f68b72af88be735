"""Find out how to connect, where kubectl looks and in its order.

A file that was named, the files in $KUBECONFIG, ~/.kube/config, and then the service account of
the pod we run in.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from rescheduler.errors import CredentialsError
from rescheduler.kube.auth.clusters import proxy_of, server_of, trust_of, wants_compression
from rescheduler.kube.auth.credentials import Credentials
from rescheduler.kube.auth.in_cluster import SERVICE_ACCOUNT, in_cluster, is_in_cluster
from rescheduler.kube.auth.kubeconfig import ChosenContext, read_kubeconfig
from rescheduler.kube.auth.users import authentication_of, impersonation_of


def load_credentials(
    kubeconfig: Path | None = None,
    context: str | None = None,
    environment: Mapping[str, str] = os.environ,
    service_account: Path = SERVICE_ACCOUNT,
    *,
    silent: bool = False,
) -> Credentials:
    """How to connect. `context` is None for the kubeconfig's current one.

    If silent, exec plugins neither read from the terminal nor write to it.
    """
    files = kubeconfig_files(kubeconfig, environment)
    merged = read_kubeconfig(files)
    if merged is not None:
        return from_kubeconfig(merged.choose(context), silent=silent)
    if kubeconfig is not None:
        raise CredentialsError(f"kubeconfig {kubeconfig}: no such file")
    if not is_in_cluster(environment, service_account):
        raise CredentialsError(
            f"no kubeconfig (looked for {', '.join(map(str, files))}), and not running in a pod: "
            "name a kubeconfig, or set KUBECONFIG"
        )
    if context is not None:
        raise CredentialsError(
            f"context {context!r}: there is no kubeconfig, only a pod's service account"
        )
    return in_cluster(environment, service_account)


def kubeconfig_files(kubeconfig: Path | None, environment: Mapping[str, str]) -> list[Path]:
    """The files that together are the kubeconfig; some may not exist."""
    if kubeconfig is not None:
        return [kubeconfig.expanduser()]
    named = [name for name in environment.get("KUBECONFIG", "").split(os.pathsep) if name]
    if named:
        return [Path(name).expanduser() for name in named]
    return [Path(environment.get("HOME", "~")).expanduser() / ".kube" / "config"]


def from_kubeconfig(chosen: ChosenContext, *, silent: bool = False) -> Credentials:
    """What the kubeconfig says about a context."""
    server = server_of(chosen.cluster)
    return Credentials(
        server=server,
        trust=trust_of(chosen.cluster),
        authentication=authentication_of(chosen, server, silent=silent),
        impersonation=impersonation_of(chosen.user),
        proxy=proxy_of(chosen.cluster, server),
        compression=wants_compression(chosen.cluster, server),
        source=chosen.source,
    )
