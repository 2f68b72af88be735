"""`rescheduler doctor`: is the rescheduler installed, running, allowed and reached?"""

import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from rescheduler.cli.control_characters import escaped_json
from rescheduler.cli.options import ClusterAccess, Context, Kubeconfig
from rescheduler.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable

    from rescheduler.doctor.findings import Finding


class DoctorOutput(StrEnum):
    """The formats of what is found."""

    TEXT = "text"
    JSON = "json"


def doctor(
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", metavar="NAME", help="Where it is installed.")
    ] = "rescheduler",
    output: Annotated[
        DoctorOutput, typer.Option("--output", "-o", help="Output format.")
    ] = DoctorOutput.TEXT,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Check the installation: versions, rights, leader, webhook, certificates.

    Changes nothing. Exits with 1 if somebody must act.
    """
    import asyncio

    import msgspec

    from rescheduler.cli.views.findings_view import print_finding
    from rescheduler.doctor.findings import Health
    from rescheduler.model.names import is_object_name

    if not is_object_name(namespace):
        raise SettingsError(f"--namespace {namespace!r}: expected the name of a namespace")
    show = print_finding if output == DoctorOutput.TEXT else ignore
    findings = asyncio.run(check(ClusterAccess(kubeconfig, context), namespace, show))
    if output == DoctorOutput.JSON:
        encoded = msgspec.json.format(msgspec.json.encode({"findings": findings}))
        sys.stdout.write(escaped_json(encoded.decode()) + "\n")
    if any(finding.health == Health.BAD for finding in findings):
        raise typer.Exit(1)


async def check(
    access: ClusterAccess, namespace: str, show: "Callable[[Finding], None]"
) -> "list[Finding]":
    """All findings, each shown as soon as it is known."""
    from rescheduler.cli.connection import connect
    from rescheduler.doctor.checkup import Checkup

    findings = []
    async with connect(access) as server:
        async for finding in Checkup(server, namespace).findings():
            findings.append(finding)
            show(finding)
    return findings


def ignore(finding: "Finding") -> None:
    """Print nothing: all of it is printed at the end."""
