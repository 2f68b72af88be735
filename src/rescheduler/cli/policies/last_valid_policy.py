"""Keeps the last valid policy in an annotation of the Lease, for replicas that are started later.

A policy that is not valid is rejected while a replica runs. Without this, the next restart would
end it: when a node fails at night, long after somebody made the mistake.
"""

import asyncio
import logging

from rescheduler.cli.connection import connect
from rescheduler.cli.inputs import LoadedPolicy
from rescheduler.cli.options import ClusterAccess
from rescheduler.cli.strategy_plugins import plugin_strategies
from rescheduler.controller.controller_observer import ControllerObserver
from rescheduler.controller.leader_election.elector import LeaderElector, LeaseOptions
from rescheduler.controller.leader_election.lease_object import LEASE, Lease
from rescheduler.errors import Forbidden, NotFound, NotLeading, ReschedulerError, SettingsError
from rescheduler.files.policy_file import read_policy
from rescheduler.kube.api_server import ApiServer, object_path
from rescheduler.labels import LAST_VALID_POLICY, POLICY_PROBLEM

logger = logging.getLogger(__name__)

RETRY_SECONDS = 60.0


def last_valid_policy(
    file: str | None, access: ClusterAccess, options: LeaseOptions, problem: SettingsError
) -> LoadedPolicy:
    """The policy by which a replica was led before; raises the `problem` of the file if none was.

    A policy that never was valid is refused as ever: there is nothing to go on with.
    """
    lease, text = asyncio.run(read_last_valid(access, options))
    if not text:
        raise problem
    strategies = plugin_strategies()
    policy = read_policy(f"the last valid policy in Lease {lease}", text.encode(), strategies)
    return LoadedPolicy(policy, file, strategies, text.encode(), str(problem))


async def read_last_valid(access: ClusterAccess, options: LeaseOptions) -> tuple[str, str]:
    """The Lease and the text of the policy in it; empty if there is none."""
    async with connect(access) as server:
        for key in filter(None, (options.preferred_key, options.key)):
            try:
                lease = await server.get(object_path(LEASE, key), Lease)
            except (NotFound, Forbidden):
                continue
            return key, lease.metadata.annotations.last_valid_policy
    return options.key, ""


class LastValidPolicy(ControllerObserver):
    """Writes the policy in use into the Lease, while this replica leads. Run it with the program.

    Why the one in the file is not in use stands there as well, for those who reach no replica.
    """

    def __init__(self, server: ApiServer, elector: LeaderElector, loaded: LoadedPolicy) -> None:
        """Writes to the `server` must be rejected while others lead."""
        self.policy = loaded.policy
        self._server = server
        self._elector = elector
        self._content = loaded.content
        self._problem = loaded.problem
        self._changed = asyncio.Event()

    def began_to_lead(self) -> None:
        self._changed.set()

    def accepted(self, content: bytes) -> None:
        """This is the content of the file from now on."""
        self._content, self._problem = content, ""
        self._changed.set()

    def rejected(self, problem: str) -> None:
        """The content of the file is not valid, and the policy before it stays in use."""
        self._problem = problem
        self._changed.set()

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self._write()
            except NotLeading:
                # Whoever leads writes it.
                continue
            except ReschedulerError as error:
                extra = {"error": str(error), "retry_seconds": RETRY_SECONDS}
                logger.warning("Failed to keep the policy for later replicas", extra=extra)
                await asyncio.sleep(RETRY_SECONDS)
                self._changed.set()

    async def _write(self) -> None:
        annotations = {
            LAST_VALID_POLICY: None
            if self._content is None
            else self._content.decode(errors="replace"),
            POLICY_PROBLEM: self._problem or None,
        }
        path = object_path(LEASE, self._elector.lease_key)
        await self._server.patch(path, {"metadata": {"annotations": annotations}})
