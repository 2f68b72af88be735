"""Emptying one node: plan, move, look again, until nothing more can be moved."""

import secrets
import sys
from collections import Counter
from dataclasses import replace

import msgspec

from rescheduler.cli.migration_creation import ask_and_follow
from rescheduler.cli.views.console import console
from rescheduler.errors import NotFound, SettingsError
from rescheduler.kube.api_server import ApiServer, object_path
from rescheduler.kube.live_store import LiveStore
from rescheduler.labels import MAINTENANCE
from rescheduler.migration.migration_object import Migration, Phase
from rescheduler.migration.migration_requests import body_for
from rescheduler.model.kinds import NODE
from rescheduler.model.objects import Node
from rescheduler.model.snapshot import Snapshot
from rescheduler.model.tables.cluster_tables import ClusterTables
from rescheduler.planning.plan import BlockedPod, Plan
from rescheduler.planning.planner import make_plan
from rescheduler.planning.strategies import requested_strategies
from rescheduler.settings import NodeMaintenanceOptions, Policy, SecondsOrZero

MOST_TRIES = 3
CORDON = {"spec": {"unschedulable": True}}


class NodeDrain:
    """One node being emptied on behalf of a person who waits for it, or does not."""

    def __init__(
        self,
        server: ApiServer,
        node: str,
        policy: Policy,
        wait: bool,
        here: bool,
        cancel_on_interrupt: bool,
    ) -> None:
        self._server = server
        self._node = node
        self._wait = wait
        self._here = here
        self._cancel_on_interrupt = cancel_on_interrupt
        self._policy = for_a_person(policy)
        self._id = secrets.token_hex(4)

    async def run(self) -> bool:
        """Drain it; whether nothing is left that should go."""
        await self._cordon()
        failed: dict[str, str] = {}
        tried: Counter[str] = Counter()
        number = 0
        while True:
            snapshot = await self._look()
            plan = self._plan(snapshot)
            moves = [move for move in plan.moves if move.pod not in failed]
            if not moves:
                return self._report(plan.blocked, failed)
            rows = {key: row for row, key in enumerate(snapshot.pods.keys)}
            uids = snapshot.pods.uids
            number += 1
            bodies = [
                body_for(
                    move,
                    uids[rows[move.pod]],
                    again=f"{self._id}-{number}",
                    may_evict=self._policy.migration.deployment_coordination,
                    by_hand=True,
                )
                for move in moves
            ]
            ended = await ask_and_follow(
                self._server,
                bodies,
                self._policy.migration_options(),
                self._wait,
                self._here,
                self._cancel_on_interrupt,
            )
            if not self._wait:
                return self._report(plan.blocked, {})
            tried.update(each.pod_key for each in ended)
            failed |= {
                each.pod_key: each.status.message
                for each in ended
                if not has_left(each) and not may_try_again(each, tried[each.pod_key])
            }

    async def _cordon(self) -> None:
        """Keep new pods off the node, as `kubectl drain` does."""
        try:
            await self._server.patch(object_path(NODE, self._node), CORDON)
        except NotFound as error:
            raise SettingsError(f"node {self._node}: there is no such node") from error
        console().print(f"node {self._node} is cordoned")

    async def _look(self) -> Snapshot:
        store = LiveStore(self._server, ClusterTables())
        await store.list_once()
        return store.snapshot()

    def _plan(self, snapshot: Snapshot) -> Plan:
        """The moves that empty the node: it is planned as if it were labelled for maintenance."""
        row = snapshot.nodes.index[self._node]
        nodes = list(snapshot.nodes.objects)
        nodes[row] = under_maintenance(nodes[row])
        pods = int((snapshot.pods.node == row).sum())
        policy = msgspec.structs.replace(self._policy, max_reschedule_pods=pods)
        changed = replace(snapshot.nodes, objects=tuple(nodes))
        return make_plan(replace(snapshot, nodes=changed), policy)

    def _report(self, blocked: tuple[BlockedPod, ...], failed: dict[str, str]) -> bool:
        """Say what is left, and why; whether that is nothing."""
        screen = console()
        for each in blocked:
            if each.pod not in failed:
                screen.print(f"stays: {each.pod}: {each.detail}", soft_wrap=True)
        for pod, why in failed.items():
            screen.print(f"not moved: {pod}: {why}", soft_wrap=True)
        if not blocked and not failed:
            screen.print(f"node {self._node} is empty" if self._wait else "asked for all moves")
        return not blocked and not failed


def for_a_person(policy: Policy) -> Policy:
    """The policy without what keeps rounds from doing too much: a person wants the node empty."""
    return msgspec.structs.replace(
        policy,
        enabled_strategies=requested_strategies(),
        node_maintenance=NodeMaintenanceOptions(),
        max_moves_per_node=None,
        max_moves_per_namespace=None,
        max_moves_per_workload=None,
        min_pod_age_seconds=SecondsOrZero(0),
        max_pending_pods=sys.maxsize,
        max_unready_nodes_percent=100.0,
    )


def under_maintenance(node: Node) -> Node:
    """The node, as if a person had labelled it."""
    labels = {**node.metadata.labels, MAINTENANCE: "true"}
    return msgspec.structs.replace(
        node, metadata=msgspec.structs.replace(node.metadata, labels=labels)
    )


def may_try_again(migration: Migration, tries: int) -> bool:
    """Whether it was only cancelled, because something else was going on."""
    return migration.status.phase == Phase.CANCELLED and tries < MOST_TRIES


def has_left(migration: Migration) -> bool:
    """Whether the pod is no longer where it was."""
    status = migration.status
    return status.phase == "Completed" and status.new_node != status.source_node
