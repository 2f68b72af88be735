"""Run a program for as long as it is let: signals stop it, a new policy file is taken over."""

import asyncio
import logging
import signal
from typing import Protocol

from rescheduler.cli.policy_reload import PolicyFile
from rescheduler.cli.strategy_plugins import Strategies
from rescheduler.settings import Policy

logger = logging.getLogger(__name__)


class RunningProgram(Protocol):
    """What can be run, stopped, and given a new policy while it runs."""

    policy: Policy

    async def run(self) -> None:
        """Run until stopped."""

    def stop(self) -> None:
        """End soon."""


async def run_until_signalled(
    program: RunningProgram, file: str | None, strategies: Strategies
) -> None:
    """Run until SIGTERM or Ctrl-C; SIGHUP reads the policy file again."""

    def take_over(policy: Policy) -> None:
        program.policy = policy

    policies = PolicyFile(file, strategies, take_over)
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, program.stop)
    loop.add_signal_handler(signal.SIGINT, program.stop)
    loop.add_signal_handler(signal.SIGHUP, policies.ask)
    following = asyncio.create_task(policies.follow())
    logger.info("Started")
    try:
        await program.run()
    finally:
        following.cancel()
