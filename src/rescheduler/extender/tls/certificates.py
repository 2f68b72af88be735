"""Issues certificates: a CA, a serving certificate, and a client certificate for kube-scheduler.

They are renewed when two thirds of their lifetime are over. The CA stays the same meanwhile, so
those who trust it need no change. When the CA itself is renewed, the old one stays trusted next to
the new one.
"""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from rescheduler.extender.tls.key_pair import KeyPair

AUTHORITY_LIFETIME = timedelta(days=3650)
CERTIFICATE_LIFETIME = timedelta(days=90)
# Clocks of different machines differ a little.
BACKDATED = timedelta(minutes=5)
AUTHORITY_NAME, SERVING_NAME, CLIENT_NAME = "rescheduler-ca", "rescheduler", "kube-scheduler"


@dataclass(frozen=True)
class Bundle:
    """Everything that both sides of a connection need, as PEM."""

    trusted: bytes
    """The CA's certificate; after a renewal of the CA, the old one follows the new one."""
    authority_key: bytes
    serving: KeyPair
    client: KeyPair

    @property
    def authority(self) -> KeyPair:
        """The CA that signs."""
        return KeyPair(first_certificate(self.trusted), self.authority_key)


def new_bundle(names: Sequence[str], now: datetime) -> Bundle:
    """A new CA and what it signs, for a server with these names and addresses."""
    authority = new_authority(now)
    return bundle_signed_by(authority, authority.certificate, names, now)


def renewed(bundle: Bundle, names: Sequence[str], now: datetime) -> Bundle:
    """The bundle with everything renewed that is due; the very same bundle if nothing is.

    ValueError if its parts do not belong together: somebody may have edited it.
    """
    check_bundle(bundle)
    if is_due(bundle.trusted, now):
        authority = new_authority(now)
        trusted = trusted_with(authority, bundle.trusted)
        return bundle_signed_by(authority, trusted, names, now)
    if is_due(bundle.client.certificate, now):
        bundle = replace(bundle, client=new_client(bundle.authority, now))
    serving = bundle.serving.certificate
    if is_due(serving, now) or not is_valid_for(serving, names):
        bundle = replace(bundle, serving=new_serving(bundle.authority, names, now))
    return bundle


def trusted_with(authority: KeyPair, trusted: bytes) -> bytes:
    """A new CA first, and the one that was the first before."""
    return authority.certificate + first_certificate(trusted)


def check_bundle(bundle: Bundle) -> None:
    """ValueError unless every key matches its certificate and the CA has signed all of them."""
    authority = x509.load_pem_x509_certificate(bundle.authority.certificate)
    for what, pair in (
        ("authority's", bundle.authority),
        ("serving", bundle.serving),
        ("client", bundle.client),
    ):
        certificate = x509.load_pem_x509_certificate(pair.certificate)
        if certificate.public_key() != private_key(pair).public_key():
            raise ValueError(f"the key does not fit the {what} certificate")
        try:
            certificate.verify_directly_issued_by(authority)
        except (InvalidSignature, TypeError, ValueError) as error:
            raise ValueError(f"the {what} certificate is not of this authority") from error


def private_key(pair: KeyPair) -> ec.EllipticCurvePrivateKey:
    """The key of a pair that was issued here."""
    try:
        key = serialization.load_pem_private_key(pair.key, None)
    except (TypeError, UnsupportedAlgorithm) as error:
        raise ValueError(f"a key cannot be read: {error}") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("expected elliptic curve keys")
    return key


def is_due(pem: bytes, now: datetime) -> bool:
    """Whether two thirds of a certificate's lifetime are over."""
    certificate = x509.load_pem_x509_certificate(pem)
    start, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return now >= start + (end - start) * 2 / 3


def is_valid_for(pem: bytes, names: Sequence[str]) -> bool:
    """Whether a certificate has all these names."""
    extensions = x509.load_pem_x509_certificate(pem).extensions
    try:
        found = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return False
    return set(map(general_name, names)) <= set(found)


def bundle_signed_by(
    authority: KeyPair, trusted: bytes, names: Sequence[str], now: datetime
) -> Bundle:
    """A bundle with everything signed by this CA."""
    return Bundle(
        trusted, authority.key, new_serving(authority, names, now), new_client(authority, now)
    )


def new_authority(now: datetime) -> KeyPair:
    """A self-signed CA."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = distinguished_name(AUTHORITY_NAME)
    builder = unsigned(name, name, key.public_key(), now, AUTHORITY_LIFETIME)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(key_usage(signs_certificates=True), critical=True)
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    certificate = builder.add_extension(identifier, critical=False).sign(key, hashes.SHA256())
    return key_pair(certificate, key)


def new_serving(authority: KeyPair, names: Sequence[str], now: datetime) -> KeyPair:
    """The certificate that we serve with."""
    alternatives = x509.SubjectAlternativeName([general_name(name) for name in names])
    return issued(authority, SERVING_NAME, ExtendedKeyUsageOID.SERVER_AUTH, now, alternatives)


def new_client(authority: KeyPair, now: datetime) -> KeyPair:
    """The certificate that kube-scheduler authenticates with."""
    return issued(authority, CLIENT_NAME, ExtendedKeyUsageOID.CLIENT_AUTH, now)


def issued(
    authority: KeyPair,
    common_name: str,
    purpose: x509.ObjectIdentifier,
    now: datetime,
    *more: x509.ExtensionType,
) -> KeyPair:
    """A new certificate for one purpose, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    signer = private_key(authority)
    issuer = x509.load_pem_x509_certificate(authority.certificate).subject
    builder = unsigned(
        distinguished_name(common_name), issuer, key.public_key(), now, CERTIFICATE_LIFETIME
    )
    extensions: list[x509.ExtensionType] = [
        x509.ExtendedKeyUsage([purpose]),
        x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()),
        *more,
    ]
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
    builder = builder.add_extension(key_usage(signs_certificates=False), critical=True)
    return key_pair(builder.sign(signer, hashes.SHA256()), key)


def unsigned(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    now: datetime,
    lifetime: timedelta,
) -> x509.CertificateBuilder:
    """What all certificates have in common, to be completed and signed."""
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(now + lifetime)
    )


def key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    """What a key may do: sign certificates, or identify its owner."""
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def general_name(name: str) -> x509.GeneralName:
    """A host name or an address, as certificates write it."""
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def distinguished_name(common_name: str) -> x509.Name:
    """A distinguished name that has only a common name."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def key_pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> KeyPair:
    """A certificate and its key as PEM."""
    encoding = serialization.Encoding.PEM
    return KeyPair(
        certificate.public_bytes(encoding),
        key.private_bytes(
            encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ),
    )


def first_certificate(bundle: bytes) -> bytes:
    """The first of several certificates in one PEM text."""
    first = x509.load_pem_x509_certificates(bundle)[0]
    return first.public_bytes(serialization.Encoding.PEM)
