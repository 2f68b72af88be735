"""A kubeconfig's cluster: where its server is, how to trust it, and the proxy on the way."""

from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from rescheduler.kube.auth.certificates import Trust
from rescheduler.kube.auth.kubeconfig import Cluster, Entry

SERVER_SCHEMES = ("https", "http")
PROXY_SCHEMES = ("http", "https")


def server_of(cluster: Entry[Cluster]) -> str:
    """The API server's URL, a prefix of all paths. Without a scheme it is http, as in kubectl."""
    server = cluster.value.server
    if not server:
        raise cluster.error("server", "missing, expected the API server's URL")
    expected = "expected a URL such as https://192.0.2.1:6443"
    try:
        parts = urlsplit(server)
        if not (parts.scheme and parts.netloc):
            parts = urlsplit(f"http://{server}")
        is_usable = parts.scheme in SERVER_SCHEMES and bool(parts.hostname) and parts.port != 0
        # What looks up a host does this first, and its error is none that a lookup may have.
        (parts.hostname or "").encode("idna")
    except ValueError as error:
        raise cluster.error("server", f"{expected}: {error}") from error
    if parts.username is not None or parts.password is not None:
        raise cluster.error("server", f"{expected}, without a user name; users have entries")
    if not is_usable:
        raise cluster.error("server", f"{server!r}: {expected}")
    return parts._replace(query="", fragment="").geturl().rstrip("/")


def trust_of(cluster: Entry[Cluster]) -> Trust:
    """Which certificates of the server to accept."""
    entry = cluster.value
    file, data = entry.certificate_authority, entry.certificate_authority_data
    if file and data:
        raise cluster.error(
            "certificate-authority", "expected this or certificate-authority-data, not both"
        )
    if entry.insecure_skip_tls_verify and (file or data):
        raise cluster.error(
            "insecure-skip-tls-verify", "expected this or a certificate authority, not both"
        )
    return Trust(
        authorities_of(cluster),
        verify=not entry.insecure_skip_tls_verify,
        server_name=entry.tls_server_name or None,
    )


def authorities_of(cluster: Entry[Cluster]) -> Path | bytes | None:
    """The authorities that the cluster names, or None for those of the system."""
    entry = cluster.value
    if entry.certificate_authority_data:
        return cluster.decoded("certificate-authority-data", entry.certificate_authority_data)
    if entry.certificate_authority:
        return cluster.readable("certificate-authority", entry.certificate_authority)
    return None


def proxy_of(cluster: Entry[Cluster], server: str) -> str | None:
    """The proxy that the cluster names, or else the environment."""
    proxy = cluster.value.proxy_url
    if not proxy:
        return proxy_for(server)
    try:
        parts = urlsplit(proxy)
        is_usable = parts.scheme in PROXY_SCHEMES and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_usable = False
    if not is_usable:
        # The value is not shown, for it may contain a password.
        raise cluster.error(
            "proxy-url", "expected a URL such as http://192.0.2.1:3128, with http or https"
        )
    return proxy


def proxy_for(server: str) -> str | None:
    """The proxy that the environment names for a server.

    Like kubectl, never one for this machine itself. aiohttp could look, but would then also
    let ~/.netrc override our token.
    """
    parts = urlsplit(server)
    if is_loopback(server) or proxy_bypass(parts.netloc):
        return None
    return getproxies().get(parts.scheme)


def wants_compression(cluster: Entry[Cluster], server: str) -> bool:
    """A kubeconfig is used from afar, where lists travel faster when they are compressed."""
    return not cluster.value.disable_compression and not is_loopback(server)


def is_loopback(server: str) -> bool:
    """Whether a server is on this machine."""
    host = urlsplit(server).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")
