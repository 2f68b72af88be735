"""With certificates of cert-manager, everything is served, also after they were renewed."""

import socket
import ssl
from pathlib import Path

from cryptography import x509

from rescheduler.extender.webhook.registration import CONFIGURATION_NAME
from rescheduler.install.manifests import manifests
from testcluster import TestCluster
from testcluster.waiting import wait_until
from tests.install.audit_log import refused
from tests.install.cert_manager import CertManager, cert_manager_kinds, encoded
from tests.install.features import NAMESPACE, POLICY, Features
from tests.install.installs import INSTALLS, leftovers
from tests.install.local_pod import LocalPod, Rendered
from tests.install.local_scheduler import local_scheduler
from tests.install.test_rights import OWN_NAMESPACE, granted, installed

REGISTRATION = (
    f"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/{CONFIGURATION_NAME}"
)
SERVICE_NAME = f"rescheduler.{OWN_NAMESPACE}.svc"


def serial_number(port: int, authority: bytes) -> int:
    """That of the certificate which the server presents, to a client that checks name and CA."""
    context = ssl.create_default_context(cadata=authority.decode())
    with (
        socket.create_connection(("127.0.0.1", port)) as plain,
        context.wrap_socket(plain, server_hostname=SERVICE_NAME) as connection,
    ):
        certificate = connection.getpeercert(binary_form=True)
    assert certificate is not None
    return x509.load_der_x509_certificate(certificate).serial_number


def test_certificates_of_cert_manager_are_served_and_their_renewal_is_noticed(
    audited: TestCluster, tmp_path: Path
) -> None:
    options = INSTALLS["full"] | {"certManager.enabled": True, "policy": POLICY}
    rendered = Rendered(manifests(options, OWN_NAMESPACE))
    features = Features(audited)
    client = audited.client
    issuer = CertManager(audited, rendered)
    authority = issuer.authority.certificate

    def injected() -> str:
        (webhook,) = client.get(REGISTRATION)["webhooks"]
        found: str = webhook["clientConfig"].get("caBundle", "")
        return found

    with (
        features.workloads(are_moved=False),
        cert_manager_kinds(audited),
        installed(audited, rendered),
    ):
        issuer.issue()
        controller = LocalPod(audited, rendered, "rescheduler", tmp_path / "pod")
        try:
            controller.start()
            wait_until(lambda: client.get(REGISTRATION).get("webhooks"), what="it is registered")
            # Only cert-manager writes the CA.
            assert injected() == ""
            issuer.inject(rendered.get("MutatingWebhookConfiguration", CONFIGURATION_NAME))
            with local_scheduler(audited, rendered, controller, tmp_path / "scheduler"):
                features.schedule("rescheduler-scheduler")
            before = serial_number(controller.port, authority)
            issuer.issue()
            controller.write_mounts()
            wait_until(
                lambda: serial_number(controller.port, authority) != before,
                what="the new certificate is used",
            )
            wait_until(lambda: "Loaded new certificates" in controller.log, what="it is logged")
            # The webhook was registered again with the token of the new key; the CA has stayed.
            assert injected() == encoded(authority)
            controller.stop()
        finally:
            controller.kill()
    events = controller.requests()
    assert refused(events) == []
    assert "secrets" not in {right.resource for right in granted(rendered)}
    assert leftovers(audited) == []
    assert not client.exists(f"/api/v1/namespaces/{NAMESPACE}")
