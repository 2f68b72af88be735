"""Whether a program is well, and whether it is ready.

`/healthz` fails only if a restart would help: a task that should run for ever has ended, or a plan
never comes to an end. An API server that does not answer, a missing right or an old view of the
cluster are no reasons: a new process would be no better off, and would have lost what it knew.
"""

from typing import Protocol

from rescheduler.settings import Policy

# A plan stops searching after planningTimeout. What comes before and after takes seconds.
PLAN_TIMEOUTS, PLAN_SECONDS = 10, 600.0


class Watched(Protocol):
    """A program with tasks that should run as long as it does."""

    def dead_tasks(self) -> list[str]:
        """Those that have ended."""


class Planning(Protocol):
    """A program that makes plans."""

    policy: Policy

    def planning_seconds(self) -> float:
        """For how long a plan has been being made; 0 while none is."""


def dead_task(program: Watched) -> str:
    """Which tasks have ended by themselves; empty if none has."""
    dead = program.dead_tasks()
    return f"ended although it should run on: {', '.join(dead)}" if dead else ""


def endless_plan(program: Planning) -> str:
    """Why the planning loop will not go on; empty if it will."""
    timeout, seconds = program.policy.planning_timeout_seconds, program.planning_seconds()
    if seconds <= PLAN_SECONDS + PLAN_TIMEOUTS * timeout:
        return ""
    return f"a plan has not ended for {seconds:.0f}s; planningTimeout is {timeout:g}s"
