"""Options about serving, which `run --serve` and `serve` share, and how they are checked."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from rescheduler.errors import SettingsError
from rescheduler.model.names import is_object_name

if TYPE_CHECKING:
    from rescheduler.extender.extender_server import ServeOptions
    from rescheduler.extender.webhook.registration import WebhookAddress

Certificates = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Directory with tls.crt and tls.key (and optionally ca.crt), as cert-manager "
        "writes them.",
    ),
]
CertificatesSecret = Annotated[
    str | None,
    typer.Option(
        metavar="NAMESPACE/NAME",
        help="Instead of --certificates: create certificates in this Secret, and renew them.",
    ),
]
Names = Annotated[
    list[str] | None,
    typer.Option(
        "--name",
        metavar="NAME",
        help="Additional host name or IP address for the certificates in the Secret. "
        "Can be repeated.",
    ),
]
ClientCa = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Accept only clients (kube-schedulers) with a certificate of this CA. Default with "
        "--certificates-secret: the CA in the Secret.",
    ),
]
BindClients = Annotated[
    list[str] | None,
    typer.Option(
        "--bind-client",
        metavar="NAME",
        help="Name in the certificate of a scheduler. Only schedulers may bind pods, and only for "
        "them something is reserved or written. Can be repeated. Default: "
        "kube-scheduler and system:kube-scheduler.",
    ),
]
WebhookService = Annotated[
    str | None,
    typer.Option(
        metavar="NAMESPACE/NAME[:PORT]",
        help="Register the webhook under this Service. It steers replacements to their targets.",
    ),
]
WebhookUrl = Annotated[
    str | None,
    typer.Option(
        metavar="URL", help="Register the webhook under this URL, for use outside the cluster."
    ),
]
HealthAddress = Annotated[
    str | None,
    typer.Option(
        "--health",
        metavar="HOST:PORT",
        help="Serve probes (/healthz and /readyz), /metrics and /status over plain HTTP on this "
        "address.",
    ),
]

DEFAULT_PORT = 443
NAME = re.compile(r"[A-Za-z0-9._:*-]+")
"""The characters that a certificate allows in a host name or IP address."""


@dataclass(frozen=True, kw_only=True)
class ServeArguments:
    """The options about serving as the user gave them, not checked yet."""

    listen: str
    certificates: Path | None
    certificates_secret: str | None
    names: list[str] | None
    client_ca: Path | None
    bind_clients: list[str] | None
    webhook_service: str | None
    webhook_url: str | None
    listen_option: str = "--listen"

    @property
    def any_given(self) -> bool:
        """Whether the user gave any of them, apart from the address to listen on."""
        files = self.certificates or self.certificates_secret or self.names or self.client_ca
        return bool(files or self.bind_clients or self.webhook_service or self.webhook_url)

    def options(self) -> "ServeOptions":
        """The checked options."""
        from rescheduler.extender.client_authorization import KUBE_SCHEDULERS
        from rescheduler.extender.extender_server import ServeOptions

        host, port = host_and_port(self.listen_option, self.listen)
        if (self.certificates is None) == (self.certificates_secret is None):
            raise SettingsError(
                "expected one of --certificates DIR and --certificates-secret NAMESPACE/NAME"
            )
        if self.certificates_secret is not None:
            check_key("--certificates-secret", self.certificates_secret)
        elif self.bind_clients and self.client_ca is None:
            raise SettingsError("--bind-client needs --client-ca FILE")
        elif self.names:
            raise SettingsError("--name needs --certificates-secret NAMESPACE/NAME")
        return ServeOptions(
            host=host,
            port=port,
            certificates=self.certificates,
            secret=self.certificates_secret or "",
            names=checked_names(self._all_names(host)) if self.certificates_secret else (),
            client_authority=self.client_ca,
            bind_clients=self.bind_clients or KUBE_SCHEDULERS,
            webhook=self._address(),
        )

    def _address(self) -> "WebhookAddress | None":
        from rescheduler.extender.webhook.registration import WebhookAddress

        if self.webhook_service is not None and self.webhook_url is not None:
            raise SettingsError("expected at most one of --webhook-service and --webhook-url")
        if self.webhook_url is not None:
            if not is_plain_url(self.webhook_url):
                raise SettingsError(
                    f"--webhook-url {self.webhook_url!r}: expected a URL such as "
                    "https://rescheduler.example:8443"
                )
            return WebhookAddress(url=self.webhook_url)
        if self.webhook_service is None:
            return None
        key, _, port = self.webhook_service.partition(":")
        check_key("--webhook-service", key)
        return WebhookAddress(
            key, port_number("--webhook-service", port, 1) if port else DEFAULT_PORT
        )

    def _all_names(self, host: str) -> list[str]:
        """The names and addresses that clients may use, as far as the other options show them."""
        names = ["localhost", *([] if host in ("0.0.0.0", "::", "") else [host])]
        address = self._address()
        if address is not None and address.service:
            namespace, _, name = address.service.partition("/")
            names += [f"{name}.{namespace}.svc", f"{name}.{namespace}.svc.cluster.local"]
        elif address is not None:
            names.append(urlsplit(address.url).hostname or "")
        return list(dict.fromkeys([*names, *(self.names or ())]))


def host_and_port(option: str, value: str) -> tuple[str, int]:
    """The host and the port of an address to listen on."""
    host, colon, port = value.rpartition(":")
    if not colon:
        raise SettingsError(f"{option} {value!r}: expected HOST:PORT, such as 127.0.0.1:8443")
    return host.strip("[]"), port_number(option, port)


def port_number(option: str, text: str, least: int = 0) -> int:
    """The port; 0 lets the system pick one."""
    if not text.isdecimal() or not least <= int(text) <= 65535:
        raise SettingsError(f"{option}: port {text!r}: expected a number from {least} to 65535")
    return int(text)


def is_plain_url(text: str) -> bool:
    """Whether it is an HTTPS URL without user, query and fragment, which the API server rejects."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return False
    has_extras = parts.query or parts.fragment or parts.username is not None
    return parts.scheme == "https" and bool(parts.hostname) and port != 0 and not has_extras


def checked_names(names: list[str]) -> list[str]:
    """The names, if a certificate can contain all of them."""
    for name in names:
        if not NAME.fullmatch(name):
            raise SettingsError(f"certificate for {name!r}: expected a host name or an IP address")
    return names


def check_key(option: str, key: str) -> None:
    """Raise unless it is a namespace and a name."""
    namespace, _, name = key.partition("/")
    if not (is_object_name(namespace) and is_object_name(name)):
        raise SettingsError(f"{option} {key!r}: expected NAMESPACE/NAME")
