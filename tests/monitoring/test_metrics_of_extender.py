"""`serve --health` is scraped over HTTP, and its metrics say what was asked of the extender."""

import ssl
import subprocess
import sys
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import msgspec
import pytest
from cryptography import x509

from rescheduler.extender.webhook.registration import WEBHOOK_PATH
from rescheduler.monitoring.metrics.definitions import ALL
from testcluster.builders import pod
from testcluster.client import JsonObject
from testcluster.ports import pick_ports
from testcluster.serving import write_certificates
from testcluster.waiting import wait_until
from tests.migration.support import Sandbox
from tests.monitoring.scraping import page, scrape, undefined


def test_metrics_count_requests_and_know_the_certificate(sandbox: Sandbox, tmp_path: Path) -> None:
    sandbox.add_nodes("a")
    bundle = write_certificates(tmp_path)
    port, health = pick_ports(2)
    program = Path(sys.executable).with_name("rescheduler")
    arguments = [
        f"--kubeconfig={sandbox.cluster.kubeconfig}",
        f"--listen=127.0.0.1:{port}",
        f"--certificates={tmp_path}",
        f"--client-ca={tmp_path / 'ca.crt'}",
        f"--health=127.0.0.1:{health}",
    ]
    with subprocess.Popen([program, "serve", *arguments], stderr=subprocess.DEVNULL) as process:
        try:
            wait_until(lambda: page(health, "/readyz") == (200, "ok\n"), what="it is ready")
            ask_and_check(port, health, tmp_path, bundle.serving.certificate)
        finally:
            process.terminate()


def ask_and_check(port: int, health: int, certificates: Path, serving: bytes) -> None:
    context = ssl.create_default_context(cafile=str(certificates / "ca.crt"))
    context.load_cert_chain(certificates / "client.crt", certificates / "client.key")
    url = f"https://127.0.0.1:{port}"
    args = {"Pod": pod("shop/web"), "NodeNames": ["a"]}
    for verb in ("filter", "prioritize"):
        assert post(f"{url}/extender/{verb}", args, context) == 200
    assert post(f"{url}/extender/filter", "nonsense", context) == 400
    assert post(f"{url}{WEBHOOK_PATH}", {}, context) == 400
    assert post(f"{url}/no/such/path", {}, context) == 404
    found = scrape(health)
    counted = "extender_request_duration_seconds_count"
    assert found.value(counted, verb="filter", code="200") == 1
    assert found.value(counted, verb="filter", code="400") == 1
    assert found.value(counted, verb="prioritize", code="200") == 1
    assert found.value(counted) == 3
    assert found.value("webhook_request_duration_seconds_count", code="400") == 1
    # Migrations of other tests may still be there.
    assert found.value("reservations") is not None
    expires = x509.load_pem_x509_certificate(serving).not_valid_after_utc.timestamp()
    assert found.value("certificate_expiry_timestamp_seconds") == pytest.approx(expires)
    assert found.value("cache_age_seconds") is not None
    assert found.value("leader") is None
    assert undefined(found, ALL) == []
    assert page(health, "/healthz") == (200, "ok\n")


def post(url: str, body: JsonObject | str, context: ssl.SSLContext) -> int:
    try:
        with urlopen(Request(url, msgspec.json.encode(body)), context=context) as response:
            status: int = response.status
            return status
    except HTTPError as error:
        return error.code
