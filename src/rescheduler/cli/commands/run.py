"""`rescheduler run`: the controller, until it is stopped."""

import logging
import os
from typing import TYPE_CHECKING, Annotated

import typer

from rescheduler.cli.election_options import (
    ElectionArguments,
    LeaderElectionIdentity,
    LeaderElectionInstance,
    LeaderElectionLease,
    LeaderElectionLeaseDuration,
    LeaderElectionRenewDeadline,
    LeaderElectionRetryPeriod,
    NoLeaderElection,
)
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
from rescheduler.errors import SettingsError

if TYPE_CHECKING:
    from rescheduler.cli.logs.log_output import LogOutput
    from rescheduler.controller.leader_election.elector import LeaseOptions
    from rescheduler.extender.extender_server import ServeOptions
    from rescheduler.tracing.span_exporter import SpanExporter

logger = logging.getLogger(__name__)


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
    health: HealthAddress = None,
    log_level: LogLevelOption = Level.INFO,
    log_format: LogFormatOption = None,
    trace_endpoint: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Send traces of migrations to this OTLP/HTTP collector. "
            "Default: $OTEL_EXPORTER_OTLP_ENDPOINT, if it is set. Needs the extra `tracing`.",
        ),
    ] = None,
    no_leader_election: NoLeaderElection = False,
    leader_election_lease: LeaderElectionLease = None,
    leader_election_identity: LeaderElectionIdentity = None,
    leader_election_instance: LeaderElectionInstance = None,
    leader_election_lease_duration: LeaderElectionLeaseDuration = None,
    leader_election_renew_deadline: LeaderElectionRenewDeadline = None,
    leader_election_retry_period: LeaderElectionRetryPeriod = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Run the controller: plan and move pods until stopped.

    Of several that run, only the holder of a Lease plans and moves; the others take over when it
    stops. SIGTERM stops it; the next one continues the migrations. SIGHUP, or a change of the
    policy file, reloads the policy; an invalid policy is rejected and the old one stays in use.
    """
    import asyncio

    from rescheduler.cli.logs.log_output import LogOutput
    from rescheduler.process_memory import return_memory_early
    from rescheduler.tracing.switch import span_exporter

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
    election = ElectionArguments(
        is_off=no_leader_election,
        lease=leader_election_lease,
        identity=leader_election_identity,
        instance=leader_election_instance,
        lease_duration=leader_election_lease_duration,
        renew_deadline=leader_election_renew_deadline,
        retry_period=leader_election_retry_period,
    )
    options = arguments.options() if serve is not None else None
    health_address = host_and_port("--health", health) if health is not None else None
    lease_options = election.options(dry_run=dry_run)
    access = ClusterAccess(kubeconfig, context)
    loaded = loaded_or_last_valid(policy, access, lease_options)
    log = LogOutput(LogOptions(log_level, log_format))
    log.start(loaded.policy)
    if loaded.problem:
        message = "Went on with the last valid policy, for the one in the file is not valid"
        logger.error(message, extra={"error": loaded.problem})
    exporter = span_exporter(trace_endpoint, os.environ)
    return_memory_early()
    running = run_controller(
        loaded,
        log=log,
        exporter=exporter,
        dry_run=dry_run,
        serve_options=options,
        lease_options=lease_options,
        health_address=health_address,
        access=access,
    )
    asyncio.run(running)


def loaded_or_last_valid(
    file: str | None, access: ClusterAccess, lease: "LeaseOptions | None"
) -> LoadedPolicy:
    """The policy in the file; if it is not valid, the one by which the last leader went."""
    try:
        return load_policy(file)
    except SettingsError as error:
        if lease is None:
            raise
        from rescheduler.cli.policies.last_valid_policy import last_valid_policy

        return last_valid_policy(file, access, lease, error)


async def run_controller(
    loaded: LoadedPolicy,
    *,
    log: "LogOutput",
    exporter: "SpanExporter | None",
    dry_run: bool,
    serve_options: "ServeOptions | None",
    lease_options: "LeaseOptions | None",
    health_address: tuple[str, int] | None,
    access: ClusterAccess,
) -> None:
    """Run until a signal stops it."""
    from contextlib import AsyncExitStack

    from rescheduler.cli.connection import connect
    from rescheduler.cli.election import connect_with_election
    from rescheduler.cli.signals import run_until_signalled
    from rescheduler.controller.controller_observer import ControllerObserver, Observers
    from rescheduler.controller.program import Program
    from rescheduler.controller.round_cache import RoundTrigger

    monitoring = None
    if health_address is not None:
        from rescheduler.monitoring.monitoring import Monitoring

        monitoring = Monitoring(
            loaded.policy,
            strategies=loaded.strategies,
            dry_run=dry_run,
            serves=serve_options is not None,
        )
    on_request = monitoring.requests if monitoring is not None else None
    observers: list[ControllerObserver] = [] if monitoring is None else [monitoring.controller]
    async with AsyncExitStack() as stack:
        if exporter is not None:
            observers.append(exporter)
            stack.callback(exporter.close)
        elector = None
        if lease_options is not None:
            connecting = connect_with_election(access, lease_options, on_request)
            server, elector = await stack.enter_async_context(connecting)
        else:
            server = await stack.enter_async_context(connect(access, on_request))
        if elector is None and not dry_run:
            consequence = "with a second controller, twice as many pods may be moved at once"
            logger.warning("Running without leader election", extra={"consequence": consequence})
        # Every write of what only the leader runs passes the fence. The extender's do not.
        leader_server = server if elector is None else server.fenced(elector.fence)
        kept_policy = None
        if elector is not None:
            from rescheduler.cli.policies.last_valid_policy import LastValidPolicy

            kept_policy = LastValidPolicy(leader_server, elector, loaded)
            observers.append(kept_policy)
        program = Program(
            leader_server,
            loaded.policy,
            strategies=loaded.strategies,
            dry_run=dry_run,
            leadership=elector,
            clock=server.server_clock,
            observer=Observers(*observers),
        )
        if kept_policy is not None:
            program.add(kept_policy)
        extender = None
        if serve_options is not None:
            from rescheduler.extender.extender_server import ExtenderServer
            from rescheduler.extender.serving_observer import NO_SERVING_OBSERVER
            from rescheduler.monitoring.health import dead_task, endless_plan

            extender = ExtenderServer(
                server,
                program.watches,
                loaded.policy,
                serve_options,
                on_overload=lambda node: program.trigger_round(RoundTrigger.OVERLOAD),
                observer=(monitoring and monitoring.serving) or NO_SERVING_OBSERVER,
            )
            extender.why_restart = lambda: dead_task(program) or endless_plan(program)
            program.add(extender)
        if monitoring is not None and health_address is not None:
            from rescheduler.status.replica_report import ReplicaReporter

            reporter = ReplicaReporter(
                program,
                elector,
                server.server_clock,
                dry_run=dry_run,
                kept_by_extender=extender.kept_for_replacements if extender else lambda: 0,
            )
            monitoring.watch_controller(program, extender, health_address, reporter.status)

        def on_accepted(content: bytes) -> None:
            program.policy_problem = ""
            if kept_policy is not None:
                kept_policy.accepted(content)

        def on_rejected(problem: str) -> None:
            program.policy_problem = problem
            if monitoring is not None:
                monitoring.policy_rejected()
            if kept_policy is not None:
                kept_policy.rejected(problem)

        if loaded.problem:
            on_rejected(loaded.problem)
        await run_until_signalled(program, loaded, log, on_accepted, on_rejected)
