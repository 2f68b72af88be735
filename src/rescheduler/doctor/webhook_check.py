"""Whether the webhook is registered, and for how long its certificates are good."""

import base64
import binascii
from collections.abc import Mapping
from datetime import datetime, timedelta

from cryptography import x509

from rescheduler.doctor.findings import Finding, bad, doubtful, good
from rescheduler.extender.webhook.registration import CONFIGURATION_NAME, WEBHOOK_CONFIGURATION
from rescheduler.kube.api_server import object_path
from rescheduler.model.objects import Part

REGISTRATION_PATH = object_path(WEBHOOK_CONFIGURATION, CONFIGURATION_NAME)
CERTIFICATE_KEY = "tls.crt"
# They are renewed when a third of their time is left, which is a month.
TIME_TO_ACT = timedelta(days=14)


class ClientConfig(Part, frozen=True):
    """How the API server reaches the webhook."""

    ca_bundle: str = ""


class Webhook(Part, frozen=True):
    """One webhook of a registration."""

    client_config: ClientConfig = ClientConfig()


class Registration(Part, frozen=True):
    """A MutatingWebhookConfiguration."""

    webhooks: tuple[Webhook, ...] = ()


def registration_finding(registration: Registration, now: datetime) -> Finding:
    """Whether the webhook is registered, with a CA that is still good."""
    if not registration.webhooks:
        todo = "the controller registers it when it is ready: look at its logs"
        return bad("webhook", "is not registered: replacements are not steered", todo)
    authority = registration.webhooks[0].client_config.ca_bundle
    if not authority:
        todo = "cert-manager's cainjector writes it: see whether it runs"
        return bad("webhook", "has no CA: the API server trusts no replica", todo)
    return validity("webhook", authority, "CA", now)


def certificate_finding(data: Mapping[str, str], now: datetime, where_to_look: str) -> Finding:
    """For how long the certificate in a Secret is good."""
    encoded = data.get(CERTIFICATE_KEY, "")
    if not encoded:
        return bad("certificate", "there is none", where_to_look)
    return validity("certificate", encoded, "certificate", now)


def validity(subject: str, encoded: str, what: str, now: datetime) -> Finding:
    """For how long a certificate is good, as base64 of PEM."""
    try:
        certificate = x509.load_pem_x509_certificate(base64.b64decode(encoded))
    except (ValueError, binascii.Error):
        todo = "delete the content of the Secret: another is issued"
        return bad(subject, f"its {what} cannot be read", todo)
    left = certificate.not_valid_after_utc - now
    age = (now - certificate.not_valid_before_utc).days
    text = f"its {what} is {age} days old and good for {left.days} more"
    if left < timedelta(0):
        return bad(subject, f"its {what} ended {-left.days} days ago", "restart the controller")
    if left < TIME_TO_ACT:
        return doubtful(subject, text, "it should have been renewed: look at the controller's logs")
    return good(subject, text)
