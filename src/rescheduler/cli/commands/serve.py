"""`rescheduler serve`: the scheduler extender and the webhook, without the controller."""

from typing import TYPE_CHECKING, Annotated

import typer

from rescheduler.cli.inputs import LoadedPolicy, load_policy
from rescheduler.cli.log_options import Level, LogFormatOption, LogLevelOption, LogOptions
from rescheduler.cli.options import ClusterAccess, Context, Kubeconfig, PolicyFile
from rescheduler.cli.serve_options import (
    BindClients,
    Certificates,
    CertificatesSecret,
    ClientCa,
    HealthAddress,
    Names,
    ServeArguments,
    WebhookService,
    WebhookUrl,
    host_and_port,
)

if TYPE_CHECKING:
    from rescheduler.cli.logs.log_output import LogOutput
    from rescheduler.extender.extender_server import ServeOptions


def serve(
    policy: PolicyFile = None,
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Address to listen on.")
    ] = "127.0.0.1:8443",
    certificates: Certificates = None,
    certificates_secret: CertificatesSecret = None,
    name: Names = None,
    client_ca: ClientCa = None,
    bind_client: BindClients = None,
    webhook_service: WebhookService = None,
    webhook_url: WebhookUrl = None,
    health: HealthAddress = None,
    log_level: LogLevelOption = Level.INFO,
    log_format: LogFormatOption = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Serve the scheduler extender and the admission webhook.

    With them, new pods do not undo what was moved. The extender answers kube-scheduler (filter,
    prioritize and bind). The webhook steers the replacement of an evicted pod to its target
    node. Both use HTTPS.
    """
    import asyncio

    from rescheduler.cli.logs.log_output import LogOutput
    from rescheduler.process_memory import return_memory_early

    arguments = ServeArguments(
        listen=listen,
        certificates=certificates,
        certificates_secret=certificates_secret,
        names=name,
        client_ca=client_ca,
        bind_clients=bind_client,
        webhook_service=webhook_service,
        webhook_url=webhook_url,
    )
    options = arguments.options()
    health_address = host_and_port("--health", health) if health is not None else None
    loaded = load_policy(policy)
    log = LogOutput(LogOptions(log_level, log_format))
    log.start(loaded.policy)
    access = ClusterAccess(kubeconfig, context)
    return_memory_early()
    asyncio.run(serve_until_stopped(loaded, options, health_address, access, log))


async def serve_until_stopped(
    loaded: LoadedPolicy,
    options: "ServeOptions",
    health_address: tuple[str, int] | None,
    access: ClusterAccess,
    log: "LogOutput",
) -> None:
    """Serve until a signal stops it."""
    from rescheduler.cli.connection import connect
    from rescheduler.cli.signals import run_until_signalled
    from rescheduler.extender.serve_program import ServeProgram
    from rescheduler.extender.serving_observer import NO_SERVING_OBSERVER
    from rescheduler.monitoring.health import dead_task

    monitoring = None
    if health_address is not None:
        from rescheduler.monitoring.monitoring import Monitoring

        monitoring = Monitoring(loaded.policy, serves=True)
    on_request = monitoring.requests if monitoring is not None else None
    async with connect(access, on_request) as server:
        observer = (monitoring and monitoring.serving) or NO_SERVING_OBSERVER
        program = ServeProgram(server, loaded.policy, options, observer)
        program.extender.why_restart = lambda: dead_task(program)
        if monitoring is not None and health_address is not None:
            from rescheduler.status.replica_report import ExtenderReporter

            reporter = ExtenderReporter(
                program.store,
                program.tables,
                server.server_clock,
                program.extender.kept_for_replacements,
            )
            monitoring.watch_extender(program, health_address, reporter.status)

        def on_rejected(problem: str) -> None:
            if monitoring is not None:
                monitoring.policy_rejected()

        await run_until_signalled(program, loaded, log, on_rejected=on_rejected)
