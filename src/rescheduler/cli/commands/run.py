"""`rescheduler run`: the controller, until it is stopped."""

from typing import TYPE_CHECKING, Annotated

import typer

from rescheduler.cli.inputs import LoadedPolicy, load_policy
from rescheduler.cli.options import ClusterAccess, Context, Kubeconfig, PolicyFile
from rescheduler.cli.serve_options import (
    BindClients,
    Certificates,
    CertificatesSecret,
    ClientCa,
    Names,
    ServeArguments,
    WebhookService,
    WebhookUrl,
    host_and_port,
)
from rescheduler.errors import SettingsError

if TYPE_CHECKING:
    from rescheduler.extender.extender_server import ServeOptions


def run(
    policy: PolicyFile = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Plan and log, but change nothing.")
    ] = False,
    serve: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Also serve the scheduler extender and the webhook on this address, "
            "as `rescheduler serve` does.",
        ),
    ] = None,
    certificates: Certificates = None,
    certificates_secret: CertificatesSecret = None,
    name: Names = None,
    client_ca: ClientCa = None,
    bind_client: BindClients = None,
    webhook_service: WebhookService = None,
    webhook_url: WebhookUrl = None,
    health: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Answer probes (/healthz and /readyz) over plain HTTP on this address.",
        ),
    ] = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Run the controller: plan and move pods until stopped.

    SIGTERM stops it; the next start continues the migrations. SIGHUP, or a change of the policy
    file, reloads the policy; an invalid policy is rejected and the old one stays in use.
    """
    import asyncio

    from rescheduler.cli.log_format import log_to_stderr

    arguments = ServeArguments(
        listen=serve or "",
        certificates=certificates,
        certificates_secret=certificates_secret,
        names=name,
        client_ca=client_ca,
        bind_clients=bind_client,
        webhook_service=webhook_service,
        webhook_url=webhook_url,
        listen_option="--serve",
    )
    if serve is None and arguments.any_given:
        raise SettingsError("certificate and webhook options need --serve HOST:PORT")
    if serve is not None and dry_run:
        raise SettingsError("--serve cannot be combined with --dry-run, which changes nothing")
    options = arguments.options() if serve is not None else None
    health_address = host_and_port("--health", health) if health is not None else None
    loaded = load_policy(policy)
    log_to_stderr()
    access = ClusterAccess(kubeconfig, context)
    running = run_controller(
        loaded,
        dry_run=dry_run,
        serve_options=options,
        health_address=health_address,
        access=access,
    )
    asyncio.run(running)


async def run_controller(
    loaded: LoadedPolicy,
    *,
    dry_run: bool,
    serve_options: "ServeOptions | None",
    health_address: tuple[str, int] | None,
    access: ClusterAccess,
) -> None:
    """Run until a signal stops it."""
    from rescheduler.cli.connection import connect
    from rescheduler.cli.signals import run_until_signalled
    from rescheduler.controller.program import Program

    async with connect(access) as server:
        program = Program(
            server,
            loaded.policy,
            strategies=loaded.strategies,
            dry_run=dry_run,
            clock=server.server_clock,
        )
        if serve_options is not None:
            from rescheduler.extender.extender_server import ExtenderServer

            extender = ExtenderServer(
                server,
                program.store,
                program.watches,
                loaded.policy,
                serve_options,
                on_overload=lambda node: program.planning_loop.trigger_round(),
            )
            program.add(extender)
        if health_address is not None:
            from rescheduler.extender.health_server import HealthServer

            why_not_ready = program.store.why_not_current
            program.add(HealthServer(*health_address, loaded.policy, why_not_ready))
        await run_until_signalled(program, loaded)
