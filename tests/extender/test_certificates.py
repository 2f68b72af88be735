"""Certificates are issued, renewed before they expire, and trusted by client and server."""

import asyncio
import base64
import ssl
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from rescheduler.errors import SettingsError
from rescheduler.extender.tls.certificate_secret import (
    SECRET,
    CertificateSecret,
    authority_data,
    body,
    data_of,
)
from rescheduler.extender.tls.certificates import (
    AUTHORITY_LIFETIME,
    CERTIFICATE_LIFETIME,
    Bundle,
    is_valid_for,
    new_bundle,
    new_client,
    new_serving,
    renewed,
)
from rescheduler.extender.tls.key_pair import KeyPair
from rescheduler.extender.tls.serving_tls import (
    CertificateFiles,
    ServingContext,
    ServingCredentials,
)
from testcluster.serving import write_certificates
from tests.migration.support import Sandbox, client_for

NAMES = ("localhost", "127.0.0.1", "rescheduler.ops.svc")
NOW = datetime.now(UTC)


def handshake_succeeds(
    serving: KeyPair, trusted: bytes, name: str, client: KeyPair | None, directory: Path
) -> bool:
    """Whether a client that trusts `trusted` and a server with `serving` agree, in memory."""
    credentials = ServingCredentials(serving, trusted, trusted if client is not None else b"")
    server = ServingContext(credentials).context
    asking = ssl.create_default_context(cadata=trusted.decode())
    if client is not None:
        server.verify_mode = ssl.CERT_REQUIRED
        certificate, key = directory / "client.crt", directory / "client.key"
        certificate.write_bytes(client.certificate)
        key.write_bytes(client.key)
        asking.load_cert_chain(certificate, key)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        asking.wrap_bio(to_client, to_server, server_hostname=name),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    try:
        for _ in range(10):
            for side in sides:
                try:
                    side.do_handshake()
                except ssl.SSLWantReadError:
                    continue
    except ssl.SSLError:
        return False
    return sides[1].version() is not None


@pytest.mark.parametrize("name", NAMES)
def test_client_and_server_trust_what_was_issued(name: str, tmp_path: Path) -> None:
    bundle = new_bundle(NAMES, NOW)
    assert handshake_succeeds(bundle.serving, bundle.trusted, name, bundle.client, tmp_path)


def test_another_name_is_not_trusted(tmp_path: Path) -> None:
    bundle = new_bundle(NAMES, NOW)
    assert not handshake_succeeds(bundle.serving, bundle.trusted, "elsewhere", None, tmp_path)


def test_a_client_of_another_authority_is_not_trusted(tmp_path: Path) -> None:
    ours, theirs = new_bundle(NAMES, NOW), new_bundle(NAMES, NOW)
    assert not handshake_succeeds(ours.serving, ours.trusted, "localhost", theirs.client, tmp_path)


def test_a_server_certificate_is_no_client_certificate(tmp_path: Path) -> None:
    bundle = new_bundle(NAMES, NOW)
    assert not handshake_succeeds(
        bundle.serving, bundle.trusted, "localhost", bundle.serving, tmp_path
    )


def test_what_is_not_due_is_kept() -> None:
    bundle = new_bundle(NAMES, NOW)
    assert renewed(bundle, NAMES, NOW + CERTIFICATE_LIFETIME / 2) is bundle


def test_certificates_that_are_due_are_renewed_under_the_same_authority(tmp_path: Path) -> None:
    bundle = new_bundle(NAMES, NOW - CERTIFICATE_LIFETIME * 0.7)
    fresh = renewed(bundle, NAMES, NOW)
    assert fresh.trusted == bundle.trusted
    assert fresh.serving != bundle.serving
    assert fresh.client != bundle.client
    assert handshake_succeeds(fresh.serving, bundle.trusted, "localhost", fresh.client, tmp_path)


def test_a_new_authority_is_trusted_as_well_as_the_old_one(tmp_path: Path) -> None:
    old = new_bundle(NAMES, NOW - AUTHORITY_LIFETIME * 0.7)
    fresh = renewed(old, NAMES, NOW)
    assert len(x509.load_pem_x509_certificates(fresh.trusted)) == 2
    assert old.trusted in fresh.trusted
    assert handshake_succeeds(fresh.serving, fresh.trusted, "localhost", fresh.client, tmp_path)
    not_yet_renewed = new_serving(old.authority, NAMES, NOW)
    assert handshake_succeeds(not_yet_renewed, fresh.trusted, "localhost", None, tmp_path)


def test_a_further_name_gets_a_new_certificate() -> None:
    bundle = new_bundle(NAMES, NOW)
    fresh = renewed(bundle, (*NAMES, "10.0.0.7"), NOW)
    assert fresh.serving != bundle.serving
    assert fresh.client == bundle.client


def secret_source(sandbox: Sandbox, client: object, now: datetime) -> CertificateSecret:
    key = f"{sandbox.namespace}/certificates"
    return CertificateSecret(client, key, NAMES, lambda: now)  # type: ignore[arg-type]


async def test_replicas_share_the_certificates_in_the_secret(sandbox: Sandbox) -> None:
    async with client_for(sandbox.cluster) as client:
        first = await secret_source(sandbox, client, NOW).load()
        second = await secret_source(sandbox, client, NOW).load()
    assert first == second
    assert first.client_authority == first.authority


async def test_the_secret_is_renewed_in_time_by_whoever_notices(sandbox: Sandbox) -> None:
    async with client_for(sandbox.cluster) as client:
        first = await secret_source(sandbox, client, NOW).load()
        later = NOW + CERTIFICATE_LIFETIME * 0.7
        second = await secret_source(sandbox, client, later).load()
        third = await secret_source(sandbox, client, later).load()
    assert second.serving != first.serving
    assert second.authority == first.authority
    assert third == second


async def test_secrets_that_were_installed_empty_are_filled(sandbox: Sandbox) -> None:
    """So the right to create Secrets is not needed."""
    names = ("certificates", "certificates-ca")
    for name in names:
        empty = body(f"{sandbox.namespace}/{name}", {})
        sandbox.outside.create(f"/api/v1/namespaces/{sandbox.namespace}/secrets", empty)
    async with client_for(sandbox.cluster) as client:
        first = await secret_source(sandbox, client, NOW).load()
        assert await secret_source(sandbox, client, NOW).load() == first
    assert "client.key" in secret_data(sandbox, names[0])
    assert "ca.key" in secret_data(sandbox, names[1])


async def test_a_secret_that_holds_something_else_is_refused(sandbox: Sandbox) -> None:
    strange = Bundle(b"not", b"a", KeyPair(b"certificate", b"at"), KeyPair(b"all", b"!"))
    key = f"{sandbox.namespace}/certificates"
    path = SECRET.object_path(sandbox.namespace, "").rstrip("/")
    sandbox.outside.create(path, {**earlier_body(key, strange), "type": "Opaque"})
    async with client_for(sandbox.cluster) as client:
        with pytest.raises(SettingsError, match=f"Secret {key}: holds no usable certificates"):
            await secret_source(sandbox, client, NOW).load()


async def test_files_that_are_missing_are_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"tls\.crt: cannot be read: No such file"):
        await CertificateFiles(tmp_path, None).load()


async def test_new_files_are_served_from_then_on(tmp_path: Path) -> None:
    write_certificates(tmp_path)
    source = CertificateFiles(tmp_path, None)
    serving = ServingContext(await source.load())
    assert serving.use(await source.load()) is False
    write_certificates(tmp_path)
    assert serving.use(await source.load()) is True


def test_a_key_that_does_not_fit_its_certificate_is_refused() -> None:
    one, other = new_bundle(NAMES, NOW), new_bundle(NAMES, NOW)
    mixed = KeyPair(one.serving.certificate, other.serving.key)
    with pytest.raises(SettingsError, match="the certificates cannot be used"):
        ServingContext(ServingCredentials(mixed, b""))


def mixed_up(one: Bundle, other: Bundle) -> list[tuple[Bundle, str]]:
    """Bundles that somebody has edited, and what is wrong with each."""
    key = rsa.generate_private_key(65537, 2048)
    of_another_kind = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    swapped = KeyPair(one.serving.certificate, other.serving.key)
    return [
        (replace(one, trusted=other.trusted), "the key does not fit the authority's"),
        (replace(one, authority_key=of_another_kind), "expected elliptic curve keys"),
        (replace(one, serving=other.serving), "the serving certificate is not of this authority"),
        (replace(one, client=other.client), "the client certificate is not of this authority"),
        (replace(one, serving=swapped), "the key does not fit the serving certificate"),
    ]


def test_a_bundle_whose_parts_do_not_belong_together_is_refused() -> None:
    for bundle, why in mixed_up(new_bundle(NAMES, NOW), new_bundle(NAMES, NOW)):
        with pytest.raises(ValueError, match=why):
            renewed(bundle, NAMES, NOW)


def test_a_serving_certificate_without_names_is_renewed() -> None:
    bundle = new_bundle(NAMES, NOW)
    nameless = new_client(bundle.authority, NOW)
    fresh = renewed(replace(bundle, serving=nameless), NAMES, NOW)
    assert is_valid_for(fresh.serving.certificate, NAMES)


async def test_what_others_have_added_to_the_secret_stays(sandbox: Sandbox) -> None:
    """Such as the labels of whoever deploys us, and another type."""
    key = f"{sandbox.namespace}/certificates"
    old = earlier_body(key, new_bundle(NAMES, NOW - CERTIFICATE_LIFETIME * 0.7))
    old["metadata"]["labels"] = {"team": "ours"}
    path = SECRET.object_path(sandbox.namespace, "").rstrip("/")
    sandbox.outside.create(path, {**old, "type": "Opaque"})
    async with client_for(sandbox.cluster) as client:
        fresh = await secret_source(sandbox, client, NOW).load()
        assert await secret_source(sandbox, client, NOW).load() == fresh
    found = sandbox.outside.get(SECRET.object_path(sandbox.namespace, "certificates"))
    assert found["metadata"]["labels"] == {"team": "ours"}
    assert found["data"]["tls.crt"] != old["data"]["tls.crt"]


async def test_a_secret_that_was_deleted_is_created_again(sandbox: Sandbox) -> None:
    async with client_for(sandbox.cluster) as client:
        source = secret_source(sandbox, client, NOW)
        first = await source.load()
        delete_secrets(sandbox, "certificates")
        second = await source.load()
        assert second.serving != first.serving
        assert second.authority == first.authority
        assert await source.load() == second


async def test_if_both_secrets_are_deleted_there_is_a_new_authority(sandbox: Sandbox) -> None:
    async with client_for(sandbox.cluster) as client:
        source = secret_source(sandbox, client, NOW)
        first = await source.load()
        delete_secrets(sandbox, "certificates", "certificates-ca")
        second = await source.load()
        assert second.authority != first.authority
        assert await source.load() == second


async def test_if_the_authority_is_lost_the_old_one_stays_trusted(sandbox: Sandbox) -> None:
    async with client_for(sandbox.cluster) as client:
        source = secret_source(sandbox, client, NOW)
        first = await source.load()
        delete_secrets(sandbox, "certificates-ca")
        second = await source.load()
        assert second.serving != first.serving
        assert second.authority.endswith(first.authority)
        assert len(x509.load_pem_x509_certificates(second.authority)) == 2
        assert await source.load() == second


async def test_the_secret_that_schedulers_mount_holds_no_key_of_the_authority(
    sandbox: Sandbox,
) -> None:
    async with client_for(sandbox.cluster) as client:
        await secret_source(sandbox, client, NOW).load()
    mounted, kept = secret_data(sandbox, "certificates"), secret_data(sandbox, "certificates-ca")
    assert sorted(mounted) == ["ca.crt", "client.crt", "client.key", "tls.crt", "tls.key"]
    assert sorted(kept) == ["ca.crt", "ca.key"]
    assert kept["ca.key"] not in mounted.values()


async def test_the_key_in_a_secret_of_an_earlier_version_is_moved(sandbox: Sandbox) -> None:
    """Those who trust the authority, and schedulers with its certificates, notice nothing."""
    key = f"{sandbox.namespace}/certificates"
    earlier = earlier_body(key, new_bundle(NAMES, NOW))
    sandbox.outside.create(SECRET.object_path(sandbox.namespace, "").rstrip("/"), earlier)
    async with client_for(sandbox.cluster) as client:
        loaded = await asyncio.gather(
            *(secret_source(sandbox, client, NOW).load() for _ in range(3))
        )
    mounted, kept = secret_data(sandbox, "certificates"), secret_data(sandbox, "certificates-ca")
    ca_key = earlier["data"].pop("ca.key")
    assert mounted == earlier["data"]
    assert kept == {"ca.crt": earlier["data"]["ca.crt"], "ca.key": ca_key}
    assert base64.b64encode(loaded[0].serving.certificate).decode() == mounted["tls.crt"]
    assert loaded[0] == loaded[1] == loaded[2]


async def test_an_interrupted_renewal_of_the_authority_is_completed(sandbox: Sandbox) -> None:
    async with client_for(sandbox.cluster) as client:
        source = secret_source(sandbox, client, NOW)
        first = await source.load()
        renewed_authority = authority_data(new_bundle(NAMES, NOW))
        path = SECRET.object_path(sandbox.namespace, "certificates-ca")
        sandbox.outside.patch(path, {"data": renewed_authority})
        second = await source.load()
        assert await source.load() == second
    newest, before = x509.load_pem_x509_certificates(second.authority)
    assert before == x509.load_pem_x509_certificate(first.authority)
    certificate = x509.load_pem_x509_certificate(second.serving.certificate)
    certificate.verify_directly_issued_by(newest)


def delete_secrets(sandbox: Sandbox, *names: str) -> None:
    for name in names:
        sandbox.outside.delete(SECRET.object_path(sandbox.namespace, name))


def secret_data(sandbox: Sandbox, name: str) -> dict[str, str]:
    data: dict[str, str] = sandbox.outside.get(SECRET.object_path(sandbox.namespace, name))["data"]
    return data


def earlier_body(key: str, bundle: Bundle) -> dict[str, Any]:
    """A Secret as earlier versions wrote it, with everything in it."""
    authority_key = base64.b64encode(bundle.authority_key).decode()
    return body(key, {**data_of(bundle), "ca.key": authority_key})
