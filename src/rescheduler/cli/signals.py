"""Run a program until a signal stops it, and reload its policy meanwhile."""

import asyncio
import logging
import signal
from collections.abc import Callable
from typing import Protocol

from rescheduler.cli.inputs import LoadedPolicy
from rescheduler.cli.logs.log_output import LogOutput
from rescheduler.cli.policies.policy_reload import PolicyReloader, ignore
from rescheduler.errors import ReschedulerError
from rescheduler.settings import Policy

logger = logging.getLogger(__name__)


class LongRunningProgram(Protocol):
    """A program that can be stopped, and given a new policy while it runs."""

    policy: Policy

    async def run(self) -> None:
        """Run until stopped."""

    def stop(self) -> None:
        """Make `run` return soon."""


async def run_until_signalled(
    program: LongRunningProgram,
    loaded: LoadedPolicy,
    log: LogOutput,
    on_accepted: Callable[[bytes], None] = ignore,
    on_rejected: Callable[[str], None] = ignore,
) -> None:
    """Run until SIGTERM or Ctrl-C. SIGHUP reloads the policy file.

    `on_accepted` is called with the content of the policy file, `on_rejected` with what is wrong
    with it.
    """

    def apply(policy: Policy) -> None:
        program.policy = policy
        log.follow(policy)

    reloader = PolicyReloader(loaded, apply, on_accepted, on_rejected)
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, program.stop)
    loop.add_signal_handler(signal.SIGINT, program.stop)
    loop.add_signal_handler(signal.SIGHUP, reloader.reload)
    reloading = asyncio.create_task(reloader.run())
    logger.info("Started")
    try:
        await program.run()
    except ReschedulerError as error:
        # It is also printed, but who collects logs looks for records.
        logger.error("Ended by an error", extra={"error": str(error)})
        raise
    except Exception:
        logger.exception("Ended by an unexpected error")
        raise
    finally:
        reloading.cancel()
