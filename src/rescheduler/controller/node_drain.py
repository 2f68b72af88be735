"""Drains one node: plan, move, and plan again, until nothing more can be moved."""

import secrets
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import numpy as np

from rescheduler.controller.move_requests import migration_for_move
from rescheduler.errors import NotFound, SettingsError
from rescheduler.kube.api_server import ApiServer, object_path
from rescheduler.kube.live_store import LiveStore
from rescheduler.migration.migration_object import Migration, Phase
from rescheduler.model.kinds import NODE
from rescheduler.model.objects import Node
from rescheduler.model.rules.node_availability import is_under_maintenance
from rescheduler.model.snapshot import Snapshot
from rescheduler.model.tables.cluster_tables import ClusterTables
from rescheduler.planning.plan import BlockedPod, Move, Plan
from rescheduler.planning.planner import make_plan
from rescheduler.planning.strategies import requested_strategies
from rescheduler.settings import NodeLabel, Policy, SecondsOrZero

MAX_ATTEMPTS = 3
CORDON = {"spec": {"unschedulable": True}}

CreateAndFollow = Callable[[list[dict[str, Any]]], Awaitable[list[Migration] | None]]
"""Creates Migrations with these bodies. Returns them as they ended, or None without waiting."""


@dataclass(frozen=True)
class RemainingPods:
    """The pods that did not leave the node, each with the reason."""

    blocked: dict[str, str]
    failed: dict[str, str] = field(default_factory=dict)


class NodeDrain:
    """Empties one node. The caller's function creates the Migrations, and may follow them."""

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
        self._policy = drain_policy(policy)
        self._id = secrets.token_hex(4)

    async def cordon(self) -> None:
        """Keep new pods off the node, as `kubectl drain` does."""
        try:
            await self._server.patch(object_path(NODE, self._node), CORDON)
        except NotFound as error:
            raise SettingsError(f"node {self._node}: there is no such node") from error

    async def run(self) -> RemainingPods:
        """Move all pods that can move; the pods that remain.

        If the Migrations are not followed, pods that have got one do not count as remaining.
        """
        failed: dict[str, str] = {}
        attempts: Counter[str] = Counter()
        rounds = 0
        while True:
            snapshot = await self._snapshot()
            plan = self._plan(snapshot)
            moves = [move for move in plan.moves if move.pod not in failed]
            if not moves:
                return RemainingPods(blocked_reasons(plan.blocked, failed), failed)
            rounds += 1
            salt = f"{self._id}-{rounds}"
            bodies = [self._migration_body(move, snapshot, salt) for move in moves]
            ended = await self._create_and_follow(bodies)
            if ended is None:
                return RemainingPods(blocked_reasons(plan.blocked, failed))
            attempts.update(migration.pod_key for migration in ended)
            failed |= {
                migration.pod_key: migration.status.message
                for migration in ended
                if not has_left(migration) and not may_retry(migration, attempts[migration.pod_key])
            }

    async def _snapshot(self) -> Snapshot:
        store = LiveStore(self._server, ClusterTables())
        await store.list_once()
        return store.snapshot()

    def _plan(self, snapshot: Snapshot) -> Plan:
        """The moves that empty the node, planned as if it were labelled for maintenance."""
        row = snapshot.nodes.index[self._node]
        nodes = list(snapshot.nodes.objects)
        nodes[row] = with_label(nodes[row], self._policy.maintenance_label)
        # Other nodes may be under maintenance too: their pods must not use up the limit.
        label = self._policy.maintenance_label
        emptied = [other for other, node in enumerate(nodes) if is_under_maintenance(node, label)]
        pods = int(np.isin(snapshot.pods.node, emptied).sum())
        policy = msgspec.structs.replace(self._policy, max_reschedule_pods=pods)
        changed = replace(snapshot.nodes, objects=tuple(nodes))
        plan = make_plan(replace(snapshot, nodes=changed), policy)
        here = {snapshot.pods.keys[pod] for pod in np.flatnonzero(snapshot.pods.node == row)}
        return msgspec.structs.replace(
            plan,
            moves=tuple(move for move in plan.moves if move.pod in here),
            blocked=tuple(blocked for blocked in plan.blocked if blocked.pod in here),
        )

    def _migration_body(self, move: Move, snapshot: Snapshot, salt: str) -> dict[str, Any]:
        row = snapshot.pods.find(move.pod)
        assert row is not None
        return migration_for_move(
            move,
            snapshot.pods.uids[row],
            salt=salt,
            may_evict=self._policy.migration.deployment_coordination,
            by_hand=True,
        )


def blocked_reasons(blocked: tuple[BlockedPod, ...], failed: dict[str, str]) -> dict[str, str]:
    """Why pods are blocked, except those whose migration has failed."""
    return {found.pod: found.detail for found in blocked if found.pod not in failed}


def drain_policy(policy: Policy) -> Policy:
    """The policy without the limits of rounds: a person wants the node empty."""
    return msgspec.structs.replace(
        policy,
        enabled_strategies=requested_strategies(),
        max_moves_per_node=None,
        max_moves_per_namespace=None,
        max_moves_per_workload=None,
        min_pod_age_seconds=SecondsOrZero(0),
        max_pending_pods=sys.maxsize,
        max_unready_nodes_percent=100.0,
    )


def with_label(node: Node, label: NodeLabel) -> Node:
    """The node as if a person had labelled it."""
    labels = {**node.metadata.labels, label.key: label.value}
    return msgspec.structs.replace(
        node, metadata=msgspec.structs.replace(node.metadata, labels=labels)
    )


def may_retry(migration: Migration, attempts: int) -> bool:
    """Whether it was only cancelled, because of another change to the workload."""
    return migration.status.phase == Phase.CANCELLED and attempts < MAX_ATTEMPTS


def has_left(migration: Migration) -> bool:
    """Whether the pod was moved to another node."""
    status = migration.status
    return status.phase == Phase.COMPLETED and status.new_node != status.source_node
