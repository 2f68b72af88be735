"""Options about serving, which `run` and `serve` share, and what is made of them."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from rescheduler.errors import SettingsError

if TYPE_CHECKING:
    from rescheduler.extender.extender_server import ServeOptions
    from rescheduler.extender.webhook.registration import WebhookAddress

Certificates = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Serve with tls.crt and tls.key (and ca.crt) of this directory, as cert-manager "
        "makes them.",
    ),
]
CertificatesSecret = Annotated[
    str | None,
    typer.Option(
        metavar="NAMESPACE/NAME",
        help="Make and renew certificates in this Secret instead.",
    ),
]
Names = Annotated[
    list[str] | None,
    typer.Option(
        "--name",
        metavar="NAME",
        help="A further name or address that these certificates are for. May be given several "
        "times.",
    ),
]
ClientCa = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Only schedulers with a certificate of this authority may ask. With "
        "--certificates-secret, its own authority unless given.",
    ),
]
WebhookService = Annotated[
    str | None,
    typer.Option(
        metavar="NAMESPACE/NAME[:PORT]",
        help="Register the webhook that steers replacements, under this Service.",
    ),
]
WebhookUrl = Annotated[
    str | None,
    typer.Option(metavar="URL", help="Register it under this address, outside the cluster."),
]

DEFAULT_PORT = 443
NAME = re.compile(r"[A-Za-z0-9._:*-]+")
"""What can be in a host's name or address, as far as certificates are concerned."""


@dataclass(frozen=True)
class ServingArguments:
    """What was said on the command line about serving."""

    listen: str
    certificates: Path | None
    certificates_secret: str | None
    names: list[str] | None
    client_ca: Path | None
    webhook_service: str | None
    webhook_url: str | None
    listen_option: str = "--listen"

    def options(self) -> "ServeOptions":
        """What it means."""
        from rescheduler.extender.extender_server import ServeOptions

        host, port = host_and_port(self.listen_option, self.listen)
        if (self.certificates is None) == (self.certificates_secret is None):
            raise SettingsError(
                "expected one of --certificates DIR and --certificates-secret NAMESPACE/NAME"
            )
        if self.certificates_secret is not None:
            checked_key("--certificates-secret", self.certificates_secret)
        elif self.names:
            raise SettingsError("--name is of use only with --certificates-secret NAMESPACE/NAME")
        return ServeOptions(
            host=host,
            port=port,
            certificates=self.certificates,
            secret=self.certificates_secret or "",
            names=checked_names(self._all_names(host)) if self.certificates_secret else (),
            client_authority=self.client_ca,
            webhook=self._address(),
        )

    def _address(self) -> "WebhookAddress | None":
        from rescheduler.extender.webhook.registration import WebhookAddress

        if self.webhook_service is not None and self.webhook_url is not None:
            raise SettingsError("expected at most one of --webhook-service and --webhook-url")
        if self.webhook_url is not None:
            if not is_plain_url(self.webhook_url):
                raise SettingsError(
                    f"--webhook-url {self.webhook_url!r}: expected an address such as "
                    "https://rescheduler.example:8443"
                )
            return WebhookAddress(url=self.webhook_url)
        if self.webhook_service is None:
            return None
        key, _, port = self.webhook_service.partition(":")
        checked_key("--webhook-service", key)
        return WebhookAddress(
            key, port_number("--webhook-service", port, 1) if port else DEFAULT_PORT
        )

    def _all_names(self, host: str) -> list[str]:
        """Under which names and addresses we are asked, as far as can be told from the rest."""
        names = ["localhost", *([] if host in ("0.0.0.0", "::", "") else [host])]
        address = self._address()
        if address is not None and address.service:
            namespace, _, name = address.service.partition("/")
            names += [f"{name}.{namespace}.svc", f"{name}.{namespace}.svc.cluster.local"]
        elif address is not None:
            names.append(urlsplit(address.url).hostname or "")
        return list(dict.fromkeys([*names, *(self.names or ())]))


def host_and_port(option: str, value: str) -> tuple[str, int]:
    """An address to listen on."""
    host, colon, port = value.rpartition(":")
    if not colon:
        raise SettingsError(f"{option} {value!r}: expected HOST:PORT, such as 127.0.0.1:8443")
    return host.strip("[]"), port_number(option, port)


def port_number(option: str, text: str, least: int = 0) -> int:
    """A port, 0 being one that the system picks."""
    if not text.isdecimal() or not least <= int(text) <= 65535:
        raise SettingsError(f"{option}: port {text!r}: expected a number from {least} to 65535")
    return int(text)


def is_plain_url(text: str) -> bool:
    """Whether it is an HTTPS address, with a path at most: the API server takes nothing more."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return False
    more = parts.query or parts.fragment or parts.username is not None
    return parts.scheme == "https" and bool(parts.hostname) and port != 0 and not more


def checked_names(names: list[str]) -> list[str]:
    """The names that certificates are to be for, if they can be."""
    for name in names:
        if not NAME.fullmatch(name):
            raise SettingsError(f"certificates for {name!r}: expected a host's name or address")
    return names


def checked_key(option: str, key: str) -> None:
    """Complains unless it is a namespace and a name."""
    namespace, slash, name = key.partition("/")
    if not (namespace and slash and name) or "/" in name:
        raise SettingsError(f"{option} {key!r}: expected NAMESPACE/NAME")
