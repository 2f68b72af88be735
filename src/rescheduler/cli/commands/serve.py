"""`rescheduler serve`: answer kube-scheduler and the API server."""

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

if TYPE_CHECKING:
    from rescheduler.cli.strategy_plugins import Strategies
    from rescheduler.extender.extender_server import ServeOptions
    from rescheduler.settings import Policy


def serve(
    policy: PolicyFile = None,
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where to listen.")
    ] = "127.0.0.1:8443",
    certificates: Certificates = None,
    certificates_secret: CertificatesSecret = None,
    name: Names = None,
    client_ca: ClientCa = None,
    webhook_service: WebhookService = None,
    webhook_url: WebhookUrl = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Keep new pods from undoing what was moved, and steer replacements to their targets.

    Answers kube-scheduler (filter, prioritize and bind of an extender) and the API server (a
    webhook on the creation of pods) over HTTPS, until stopped.
    """
    import asyncio

    from rescheduler.cli.log_format import log_to_stderr
    from rescheduler.cli.strategy_plugins import strategies_of_others

    arguments = ServingArguments(
        listen, certificates, certificates_secret, name, client_ca, webhook_service, webhook_url
    )
    options = arguments.options()
    strategies = strategies_of_others()
    rules = policy_in(policy, strategies)
    log_to_stderr()
    asyncio.run(serve_until_stopped(policy, rules, strategies, options, kubeconfig, context))


async def serve_until_stopped(
    file: str | None,
    policy: "Policy",
    strategies: "Strategies",
    options: "ServeOptions",
    kubeconfig: Path | None,
    context: str | None,
) -> None:
    """Serve until a signal says to stop."""
    from rescheduler.cli.connection import connected
    from rescheduler.cli.signals import run_until_signalled
    from rescheduler.extender.serve_program import ServeProgram

    async with connected(kubeconfig, context) as server:
        await run_until_signalled(ServeProgram(server, policy, options), file, strategies)
