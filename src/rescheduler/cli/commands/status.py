"""`rescheduler status`: who leads, what it does, and why."""

import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from rescheduler.cli.control_characters import escaped_json
from rescheduler.cli.election_options import DEFAULT_LEASE, INSTALLED_LEASE
from rescheduler.cli.options import ClusterAccess, Context, Kubeconfig
from rescheduler.cli.serve_options import check_key
from rescheduler.errors import SettingsError

if TYPE_CHECKING:
    from rescheduler.kube.client import Client
    from rescheduler.status.status_document import ClusterStatus
    from rescheduler.status.status_reader import StatusSource

REDRAW_SECONDS = 2.0


class StatusOutput(StrEnum):
    """The formats of the status."""

    TEXT = "text"
    JSON = "json"


def status(
    url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Ask the replica at this address, such as http://127.0.0.1:8080 at the end of a "
            "kubectl port-forward. Default: the leader's pod, through the API server.",
        ),
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Draw it again every 2 seconds, until Ctrl-C.")
    ] = False,
    output: Annotated[
        StatusOutput, typer.Option("--output", "-o", help="Output format.")
    ] = StatusOutput.TEXT,
    leader_election_lease: Annotated[
        str | None,
        typer.Option(
            metavar="NAMESPACE/NAME",
            help=f"Lease of the leader. Default: {INSTALLED_LEASE} if it exists, else "
            f"{DEFAULT_LEASE}.",
        ),
    ] = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Show who leads, the last round and why it moved or did not, and the moves under way.

    Reads the API server with your rights, and asks the leader. Changes nothing. Without a way to
    the leader, it shows what the API server knows, and which kubectl port-forward to run.
    """
    import asyncio

    from rescheduler.install.metadata import CONTROLLER, labels
    from rescheduler.status.leader_endpoint import is_url
    from rescheduler.status.status_reader import StatusSource

    if url is not None and not is_url(url):
        raise SettingsError(f"--url {url!r}: expected an address such as http://127.0.0.1:8080")
    if leader_election_lease is not None:
        check_key("--leader-election-lease", leader_election_lease)
    leases = (leader_election_lease,) if leader_election_lease else (INSTALLED_LEASE, DEFAULT_LEASE)
    pod_labels = ",".join(f"{key}={value}" for key, value in labels(CONTROLLER).items())
    source = StatusSource(leases, url or "", pod_labels)
    access = ClusterAccess(kubeconfig, context)
    if watch:
        asyncio.run(show_again_and_again(access, source, output))
        return
    found = asyncio.run(read_once(access, source))
    show(found, output)
    if is_incomplete(found, source):
        raise typer.Exit(1)


def is_incomplete(found: "ClusterStatus", source: "StatusSource") -> bool:
    """Whether somebody who was to be asked did not answer, or refused everything."""
    from rescheduler.status.reasons import ViewReason

    known = (found.lease, found.migrations, found.nodes, found.replica)
    return (
        found.has(ViewReason.API_SERVER_UNAVAILABLE)
        or (bool(source.url) and found.replica is None)
        or (found.has(ViewReason.RIGHT_MISSING) and known == (None,) * 4)
    )


async def read_once(access: ClusterAccess, source: "StatusSource") -> "ClusterStatus":
    """The status now."""
    from rescheduler.status.status_reader import StatusReader

    async with impatient_client(access, attempts=2) as server:
        return await StatusReader(server, source).read()


def impatient_client(access: ClusterAccess, attempts: int) -> "Client":
    """A client that does not wait for long: somebody looks at the screen."""
    from rescheduler.kube.auth.loader import load_credentials
    from rescheduler.kube.client import Client, ClientSettings
    from rescheduler.kube.transport import Timeouts

    timeouts = Timeouts(connect_seconds=3, read_seconds=10)
    credentials = load_credentials(access.kubeconfig, access.context)
    return Client(credentials, ClientSettings(timeouts, attempts=attempts))


async def show_again_and_again(
    access: ClusterAccess, source: "StatusSource", output: StatusOutput
) -> None:
    """Show the status every two seconds, whoever goes away meanwhile, until interrupted."""
    import asyncio
    import logging

    from rescheduler.cli.views.console import console
    from rescheduler.cli.views.live_screen import live_screen
    from rescheduler.cli.views.status_view import Room, rendered
    from rescheduler.status.status_reader import StatusReader

    # What goes wrong is on the screen already.
    logging.getLogger("rescheduler").addHandler(logging.NullHandler())
    out = console()
    async with impatient_client(access, attempts=1) as server:
        reader = StatusReader(server, source)
        async with reader.following():
            with live_screen(out) as draw:
                while True:
                    found = await reader.read()
                    if output == StatusOutput.JSON:
                        show(found, output)
                    else:
                        draw(rendered(found, Room(out, is_live=True)))
                    await asyncio.sleep(REDRAW_SECONDS)


def show(found: "ClusterStatus", output: StatusOutput) -> None:
    """Print the status."""
    if output == StatusOutput.JSON:
        import msgspec

        encoded = msgspec.json.format(msgspec.json.encode(found))
        sys.stdout.write(escaped_json(encoded.decode()) + "\n")
        sys.stdout.flush()
        return
    from rescheduler.cli.views.console import console
    from rescheduler.cli.views.status_view import show_status

    show_status(found, console())
