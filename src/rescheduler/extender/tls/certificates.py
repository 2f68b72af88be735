"""Certificates of our own making: an authority, what we serve with, and what the scheduler shows.

They are made anew when two thirds of their time are over. The authority is kept meanwhile, so
that those who trust it need not be told; when it grows old itself, the new one is trusted beside
the old.
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

AUTHORITY_LASTS = timedelta(days=3650)
CERTIFICATE_LASTS = timedelta(days=90)
# Clocks of different machines differ a little.
VALID_SINCE = timedelta(minutes=5)
AUTHORITY_NAME, SERVING_NAME, CLIENT_NAME = "rescheduler-ca", "rescheduler", "kube-scheduler"


@dataclass(frozen=True)
class Bundle:
    """Everything that both sides of a connection need, as PEM."""

    trusted: bytes
    """The authority's certificate, after a change of authority with the old one behind it."""
    authority_key: bytes
    serving: KeyPair
    client: KeyPair

    @property
    def authority(self) -> KeyPair:
        """The authority that signs."""
        return KeyPair(first_of(self.trusted), self.authority_key)


def new_bundle(names: Sequence[str], now: datetime) -> Bundle:
    """An authority and what it signs, for a server of these names and addresses."""
    authority = new_authority(now)
    return issued(authority.certificate, authority, names, now)


def renewed(bundle: Bundle, names: Sequence[str], now: datetime) -> Bundle:
    """The bundle with all that has grown old made anew; the very same if nothing has.

    ValueError if its parts do not belong together: somebody may have edited it.
    """
    check(bundle)
    if is_old(bundle.trusted, now):
        authority = new_authority(now)
        return issued(authority.certificate + first_of(bundle.trusted), authority, names, now)
    if is_old(bundle.client.certificate, now):
        bundle = replace(bundle, client=new_client(bundle.authority, now))
    if is_old(bundle.serving.certificate, now) or not serves(bundle.serving.certificate, names):
        bundle = replace(bundle, serving=new_serving(bundle.authority, names, now))
    return bundle


def check(bundle: Bundle) -> None:
    """Complains unless each key fits its certificate, and the authority has signed them all."""
    authority = x509.load_pem_x509_certificate(bundle.authority.certificate)
    for what, each in (
        ("authority's", bundle.authority),
        ("serving", bundle.serving),
        ("client", bundle.client),
    ):
        certificate = x509.load_pem_x509_certificate(each.certificate)
        if certificate.public_key() != private_key(each).public_key():
            raise ValueError(f"the key does not fit the {what} certificate")
        try:
            certificate.verify_directly_issued_by(authority)
        except (InvalidSignature, TypeError, ValueError) as error:
            raise ValueError(f"the {what} certificate is not of this authority") from error


def private_key(pair: KeyPair) -> ec.EllipticCurvePrivateKey:
    """The key of a pair that was made here."""
    try:
        key = serialization.load_pem_private_key(pair.key, None)
    except (TypeError, UnsupportedAlgorithm) as error:
        raise ValueError(f"a key cannot be read: {error}") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("expected keys of elliptic curves")
    return key


def is_old(pem: bytes, now: datetime) -> bool:
    """Whether two thirds of its time are over."""
    certificate = x509.load_pem_x509_certificate(pem)
    begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return now >= begins + (ends - begins) * 2 / 3


def serves(pem: bytes, names: Sequence[str]) -> bool:
    """Whether a certificate is good for all these names."""
    extensions = x509.load_pem_x509_certificate(pem).extensions
    try:
        found = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return False
    return set(map(general_name, names)) <= set(found)


def issued(trusted: bytes, authority: KeyPair, names: Sequence[str], now: datetime) -> Bundle:
    """A bundle with everything signed by this authority."""
    return Bundle(
        trusted, authority.key, new_serving(authority, names, now), new_client(authority, now)
    )


def new_authority(now: datetime) -> KeyPair:
    """One that vouches for itself and for others."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = named(AUTHORITY_NAME)
    builder = unsigned(name, name, key.public_key(), now, AUTHORITY_LASTS)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(usage(signs_certificates=True), critical=True)
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    made = builder.add_extension(identifier, critical=False).sign(key, hashes.SHA256())
    return pair(made, key)


def new_serving(authority: KeyPair, names: Sequence[str], now: datetime) -> KeyPair:
    """What we show to those who ask us."""
    alternatives = x509.SubjectAlternativeName([general_name(name) for name in names])
    return signed(authority, SERVING_NAME, ExtendedKeyUsageOID.SERVER_AUTH, now, alternatives)


def new_client(authority: KeyPair, now: datetime) -> KeyPair:
    """What the scheduler shows to us."""
    return signed(authority, CLIENT_NAME, ExtendedKeyUsageOID.CLIENT_AUTH, now)


def signed(
    authority: KeyPair,
    common_name: str,
    purpose: x509.ObjectIdentifier,
    now: datetime,
    *more: x509.ExtensionType,
) -> KeyPair:
    """A certificate for one purpose."""
    key = ec.generate_private_key(ec.SECP256R1())
    signer = private_key(authority)
    issuer = x509.load_pem_x509_certificate(authority.certificate).subject
    builder = unsigned(named(common_name), issuer, key.public_key(), now, CERTIFICATE_LASTS)
    extensions: list[x509.ExtensionType] = [
        x509.ExtendedKeyUsage([purpose]),
        x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()),
        *more,
    ]
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
    builder = builder.add_extension(usage(signs_certificates=False), critical=True)
    return pair(builder.sign(signer, hashes.SHA256()), key)


def unsigned(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    now: datetime,
    lasts: timedelta,
) -> x509.CertificateBuilder:
    """What all certificates here have in common."""
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - VALID_SINCE)
        .not_valid_after(now + lasts)
    )


def usage(*, signs_certificates: bool) -> x509.KeyUsage:
    """What a key may do: vouch for others, or speak for itself."""
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


def named(common_name: str) -> x509.Name:
    """A distinguished name with only a common name."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> KeyPair:
    """Both as PEM."""
    encoding = serialization.Encoding.PEM
    return KeyPair(
        certificate.public_bytes(encoding),
        key.private_bytes(
            encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ),
    )


def first_of(bundle: bytes) -> bytes:
    """The first of several certificates in one text."""
    first = x509.load_pem_x509_certificates(bundle)[0]
    return first.public_bytes(serialization.Encoding.PEM)
