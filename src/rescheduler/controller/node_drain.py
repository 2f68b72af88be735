"""Emptying one node: plan, move, look again, until nothing more can be moved."""

import secrets
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

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


CreateAndFollow = Callable[[list[dict[str, Any]]], Awaitable[list[Migration] | None]]
"""Creates Migrations with these bodies. Returns them as they ended, or None without waiting."""


@dataclass(frozen=True)
class RemainingPods:
    """The pods that did not leave the node, each with the reason."""

    blocked: dict[str, str]
    failed: dict[str, str] = field(default_factory=dict)


class NodeDrain:
    """Empties one node. Migrations are created, and perhaps followed, by the caller's function."""

    def __init__(
        self,
        server: ApiServer,
        node: str,
        policy: Policy,
        create_and_follow: CreateAndFollow,
    ) -> None:
        self._server = server
        self._node = node
        self._create_and_follow = create_and_follow
        self._policy = for_a_person(policy)
        self._id = secrets.token_hex(4)

    async def cordon(self) -> None:
        """Keep new pods off the node, as `kubectl drain` does."""
        try:
            await self._server.patch(object_path(NODE, self._node), CORDON)
        except NotFound as error:
            raise SettingsError(f"node {self._node}: there is no such node") from error

    async def run(self) -> RemainingPods:
        """Move all pods that can move."""
        failed: dict[str, str] = {}
        tried: Counter[str] = Counter()
        number = 0
        while True:
            snapshot = await self._look()
            plan = self._plan(snapshot)
            moves = [move for move in plan.moves if move.pod not in failed]
            if not moves:
                return RemainingPods(reasons(plan.blocked, failed), failed)
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
            ended = await self._create_and_follow(bodies)
            if ended is None:
                return RemainingPods(reasons(plan.blocked, failed))
            tried.update(migration.pod_key for migration in ended)
            failed |= {
                migration.pod_key: migration.status.message
                for migration in ended
                if not has_left(migration)
                and not may_try_again(migration, tried[migration.pod_key])
            }

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


def reasons(blocked: tuple[BlockedPod, ...], failed: dict[str, str]) -> dict[str, str]:
    """Why pods are blocked, except those that were tried and failed."""
    return {found.pod: found.detail for found in blocked if found.pod not in failed}


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
