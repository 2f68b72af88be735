"""Run `rescheduler serve` for a cluster, and configure kube-scheduler for it."""

import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.error import URLError

import yaml

from rescheduler.extender.tls.certificates import Bundle, new_bundle
from testcluster.client import JsonObject
from testcluster.ports import pick_ports
from testcluster.waiting import wait_until

SHIPPED = Path(__file__).parent.parent / "deploy" / "scheduler-configuration.yaml"
READY_SECONDS = 60.0

StartCommand = Callable[..., "subprocess.Popen[bytes]"]
"""Starts `rescheduler` with these arguments and a kubeconfig."""


@dataclass(frozen=True)
class Served:
    """`rescheduler serve`, running."""

    process: "subprocess.Popen[bytes]"
    address: str
    directory: Path
    """Holds ca.crt, tls.crt, tls.key, client.crt and client.key."""

    def configuration(self, **extender: Any) -> JsonObject:
        """The shipped kube-scheduler configuration, with this server's address and files."""
        files = {"caFile": "ca.crt", "certFile": "client.crt", "keyFile": "client.key"}
        paths = {field: str(self.directory / name) for field, name in files.items()}
        url = f"https://{self.address}/extender"
        return shipped_configuration({"urlPrefix": url, "tlsConfig": paths, **extender})

    def client_context(self) -> ssl.SSLContext:
        """TLS for a client that the server accepts."""
        return client_context(self.directory)


def serve(start: StartCommand, directory: Path, policy: str = "{}") -> Served:
    """Start `rescheduler serve` with a policy, and wait until it is ready."""
    write_certificates(directory)
    file = directory / "policy.yaml"
    file.write_text(policy)
    (port,) = pick_ports(1)
    address = f"127.0.0.1:{port}"
    process = start(
        *("serve", "--listen", address, "--policy", file),
        *("--certificates", directory, "--client-ca", directory / "ca.crt"),
    )
    served = Served(process, address, directory)
    context = served.client_context()

    def is_ready() -> bool:
        assert process.poll() is None, "rescheduler serve ended"
        try:
            with urllib.request.urlopen(f"https://{address}/readyz", context=context) as answer:
                return bool(answer.status == 200)
        except (URLError, OSError):
            return False

    wait_until(is_ready, READY_SECONDS, "rescheduler serve is ready")
    return served


@contextmanager
def served(kubeconfig: Path, directory: Path) -> Iterator[Served]:
    """`rescheduler serve` for a cluster, while the block runs."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*arguments: str | Path) -> "subprocess.Popen[bytes]":
        program = Path(sys.executable).with_name("rescheduler")
        command = [str(program), *map(str, arguments), f"--kubeconfig={kubeconfig}"]
        started.append(subprocess.Popen(command, stderr=subprocess.DEVNULL))
        return started[-1]

    try:
        yield serve(start, directory)
    finally:
        for process in started:
            process.kill()
            process.wait()


def client_context(directory: Path) -> ssl.SSLContext:
    """TLS for a client with the certificate that is in a directory."""
    context = ssl.create_default_context(cafile=str(directory / "ca.crt"))
    context.load_cert_chain(directory / "client.crt", directory / "client.key")
    return context


def write_certificates(
    directory: Path, names: tuple[str, ...] = ("127.0.0.1",), age: timedelta = timedelta()
) -> Bundle:
    """A CA and the certificates that it signs, in files, as if they had been made so long ago."""
    bundle = new_bundle(names, datetime.now(UTC) - age)
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in (
        ("ca.crt", bundle.trusted),
        ("tls.crt", bundle.serving.certificate),
        ("tls.key", bundle.serving.key),
        ("client.crt", bundle.client.certificate),
        ("client.key", bundle.client.key),
    ):
        (directory / name).write_bytes(content)
    return bundle


def shipped_configuration(*extenders: JsonObject) -> JsonObject:
    """The shipped configuration; its extender is repeated once per mapping of changes."""
    configuration: JsonObject = yaml.safe_load(SHIPPED.read_text())
    (extender,) = configuration["extenders"]
    configuration["extenders"] = [{**extender, **changes} for changes in extenders]
    return configuration
