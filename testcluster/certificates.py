"""Keys and certificates that are worth nothing outside one test cluster."""

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

SERVER_NAMES = ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"]


@dataclass(frozen=True)
class Certificates:
    """The files a control plane wants: an authority, what it serves with, what signs tokens."""

    ca_file: Path
    ca_key_file: Path
    server_file: Path
    server_key_file: Path
    token_key_file: Path


def write_certificates(directory: Path) -> Certificates:
    """Make a new authority and a certificate for 127.0.0.1 by it."""
    files = Certificates(
        *(directory / name for name in ("ca.crt", "ca.key", "server.crt", "server.key", "sa.key"))
    )
    ca_key, server_key = write_key(files.ca_key_file), write_key(files.server_key_file)
    write_key(files.token_key_file)
    ca_name = named("testcluster-ca")
    write_certificate(files.ca_file, certificate_authority(ca_name, ca_key))
    write_certificate(files.server_file, server_certificate(server_key, ca_name, ca_key))
    return files


def certificate_authority(name: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    """A certificate that vouches for itself and for others."""
    builder = unsigned(name, name, key.public_key())
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    # OpenSSL 3 refuses, in strict mode, authorities that do not say what their key may do.
    builder = builder.add_extension(signing_only(), critical=True)
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    return builder.add_extension(identifier, critical=False).sign(key, hashes.SHA256())


def server_certificate(
    key: ec.EllipticCurvePrivateKey, ca_name: x509.Name, ca_key: ec.EllipticCurvePrivateKey
) -> x509.Certificate:
    """A certificate for servers on this machine."""
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    names = x509.SubjectAlternativeName([address, *map(x509.DNSName, SERVER_NAMES)])
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key())
    builder = unsigned(named("testcluster"), ca_name, key.public_key())
    builder = builder.add_extension(names, critical=False)
    return builder.add_extension(issuer, critical=False).sign(ca_key, hashes.SHA256())


def unsigned(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    """What all certificates here have in common: valid since yesterday, for a month."""
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=30))
    )


def signing_only() -> x509.KeyUsage:
    """The key signs certificates, and nothing else."""
    return x509.KeyUsage(
        digital_signature=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )


def named(common_name: str) -> x509.Name:
    """A distinguished name with only a common name."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def write_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """Make a private key and write it where only its owner can read it."""
    key = ec.generate_private_key(ec.SECP256R1())
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            # The API server's token signer knows EC keys only in this older form.
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
    )
    return key


def write_certificate(path: Path, certificate: x509.Certificate) -> None:
    """Write a certificate as PEM."""
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
