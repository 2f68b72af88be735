"""`rescheduler run`: the whole controller, for as long as it is let.

The file is not called `run.py`: the package has a function of that name, which a module would
take the place of.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rescheduler.cli.inputs import policy_in
from rescheduler.cli.options import Context, Kubeconfig, PolicyFile

if TYPE_CHECKING:
    from rescheduler.cli.strategies import Strategies
    from rescheduler.settings import Policy


def run(
    policy: PolicyFile = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Plan and log, but change nothing.")
    ] = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Watch the cluster, plan, and move pods, until stopped.

    SIGTERM parks migrations safely. SIGHUP, or a change of the policy file, reloads the policy;
    one that cannot be used is refused, and the old one kept.
    """
    import asyncio

    from rescheduler.cli.logs import log_to_stderr
    from rescheduler.cli.strategies import strategies_of_others

    strategies = strategies_of_others()
    rules = policy_in(policy, strategies)
    log_to_stderr()
    asyncio.run(run_program(policy, rules, strategies, dry_run, kubeconfig, context))


async def run_program(
    file: str | None,
    policy: "Policy",
    strategies: "Strategies",
    dry_run: bool,
    kubeconfig: Path | None,
    context: str | None,
) -> None:
    """Run until a signal says to stop."""
    import asyncio
    import logging
    import signal

    from rescheduler.cli import policy_file
    from rescheduler.cli.connecting import connected
    from rescheduler.migration.program import Program

    async with connected(kubeconfig, context) as server:
        program = Program(server, policy, strategies=strategies, dry_run=dry_run)

        def take_over(policy: "Policy") -> None:
            program.policy = policy

        policies = policy_file.PolicyFile(file, strategies, take_over)
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, program.stop)
        loop.add_signal_handler(signal.SIGINT, program.stop)
        loop.add_signal_handler(signal.SIGHUP, policies.ask)
        following = asyncio.create_task(policies.follow())
        logging.getLogger(__name__).info("Started", extra={"dry_run": dry_run})
        try:
            await program.run()
        finally:
            following.cancel()
