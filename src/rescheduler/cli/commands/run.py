"""`rescheduler run`: the whole controller, until it is stopped."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rescheduler.cli.inputs import policy_in
from rescheduler.cli.options import Context, Kubeconfig, PolicyFile
from rescheduler.cli.serve_options import (
    Certificates,
    CertificatesSecret,
    ClientCa,
    Names,
    ServingArguments,
    WebhookService,
    WebhookUrl,
)
from rescheduler.errors import SettingsError

if TYPE_CHECKING:
    from rescheduler.cli.strategy_plugins import Strategies
    from rescheduler.extender.extender_server import ServeOptions
    from rescheduler.settings import Policy


def run(
    policy: PolicyFile = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Plan and log, but change nothing.")
    ] = False,
    serve: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Also answer kube-scheduler and the API server here, as `rescheduler serve` does.",
        ),
    ] = None,
    certificates: Certificates = None,
    certificates_secret: CertificatesSecret = None,
    name: Names = None,
    client_ca: ClientCa = None,
    webhook_service: WebhookService = None,
    webhook_url: WebhookUrl = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Watch the cluster, plan, and move pods, until stopped.

    SIGTERM parks migrations safely. SIGHUP, or a change of the policy file, reloads the policy;
    one that cannot be used is refused, and the old one kept.
    """
    import asyncio

    from rescheduler.cli.log_format import log_to_stderr
    from rescheduler.cli.strategy_plugins import strategies_of_others

    about_serving = (
        certificates,
        certificates_secret,
        name,
        client_ca,
        webhook_service,
        webhook_url,
    )
    if serve is None and any(about_serving):
        raise SettingsError("certificates and webhooks are of use only with --serve HOST:PORT")
    if serve is not None and dry_run:
        raise SettingsError("--dry-run changes nothing, so it cannot --serve")
    options = None
    if serve is not None:
        options = ServingArguments(serve, *about_serving, listen_option="--serve").options()
    strategies = strategies_of_others()
    rules = policy_in(policy, strategies)
    log_to_stderr()
    asyncio.run(run_program(policy, rules, strategies, dry_run, options, kubeconfig, context))


async def run_program(
    file: str | None,
    policy: "Policy",
    strategies: "Strategies",
    dry_run: bool,
    serving: "ServeOptions | None",
    kubeconfig: Path | None,
    context: str | None,
) -> None:
    """Run until a signal says to stop."""
    from rescheduler.cli.connection import connected
    from rescheduler.cli.signals import run_until_signalled
    from rescheduler.controller.program import Program

    async with connected(kubeconfig, context) as server:
        program = Program(server, policy, strategies=strategies, dry_run=dry_run)
        if serving is not None:
            from rescheduler.extender.extender_server import ExtenderServer

            side = ExtenderServer(
                server,
                program.store,
                program.watches,
                policy,
                serving,
                hot=lambda node: program.planning_loop.trigger_round(),
            )
            program.add(side)
        await run_until_signalled(program, file, strategies)
