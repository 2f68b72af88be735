"""Keys and certificates for one test cluster; nothing else trusts them."""

from dataclasses import dataclass
from pathlib import Path

import trustme

SERVER_NAMES = (
    "127.0.0.1",
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
)


@dataclass(frozen=True)
class Certificates:
    """The files that a control plane needs: a CA, a server certificate, and a token key."""

    ca_file: Path
    ca_key_file: Path
    server_file: Path
    server_key_file: Path
    token_key_file: Path


def write_certificates(directory: Path, *addresses: str) -> Certificates:
    """Create a CA and a server certificate for this machine, signed by the CA.

    `addresses` are more names for the server. The key that signs service account tokens belongs to
    a certificate that nobody uses.
    """
    authority = trustme.CA()
    server = authority.issue_cert(*SERVER_NAMES, *addresses)
    token_signer = authority.issue_cert(common_name="service-account")
    return Certificates(
        ca_file=written(directory / "ca.crt", authority.cert_pem),
        ca_key_file=written(directory / "ca.key", authority.private_key_pem),
        server_file=written(directory / "server.crt", server.cert_chain_pems[0]),
        server_key_file=written(directory / "server.key", server.private_key_pem),
        token_key_file=written(directory / "sa.key", token_signer.private_key_pem),
    )


def written(path: Path, content: trustme.Blob) -> Path:
    """The path, after the content was written there for its owner only."""
    path.touch(mode=0o600)
    content.write_to_path(str(path))
    return path
