"""Drains one node: plan, move, and plan again, until nothing more can be moved."""

import secrets
import sys
from collections.abc import Awaitable, Callable, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import msgspec
import numpy as np

from rescheduler.controller.drain.drain_outcomes import DrainOutcomes, Ending
from rescheduler.controller.events.node_events import NodeEvent, emptied, pods_stay, stays_with_node
from rescheduler.controller.move_requests import first_moves, migration_for_move
from rescheduler.controller.past_moves import (
    unreplaced_pods,
    workloads_ignoring_nominations,
)
from rescheduler.errors import Forbidden, NotFound, SettingsError
from rescheduler.kube.api_server import ApiServer, object_path
from rescheduler.kube.clock import WALL_CLOCK, Clock
from rescheduler.kube.event_recorder import EventRecorder, about_node
from rescheduler.kube.live_store import LiveStore
from rescheduler.kube.server_features import read_server_features
from rescheduler.migration.memory.move_record import MOVE_RECORD, MoveRecord
from rescheduler.migration.migration_object import MIGRATION, Migration
from rescheduler.model.kinds import NODE, POD
from rescheduler.model.objects import Node
from rescheduler.model.rules.node_availability import is_under_maintenance
from rescheduler.model.snapshot import Snapshot
from rescheduler.model.tables.cluster_tables import ClusterTables
from rescheduler.planning.context import PlanningContext
from rescheduler.planning.plan import BlockedPod, Move, Plan
from rescheduler.planning.planner import make_plan
from rescheduler.planning.strategies import requested_strategies
from rescheduler.settings import NodeLabel, Policy, SecondsOrZero

PAUSED = "its Migration {} is paused. To move it, resume or delete that"
GOES_NOWHERE = "its Migration {} goes to this very node. To move it, delete that"
COMES_BACK = "a pod of its workload was evicted, and its replacement came back to this node"
DRAINED = "it is cordoned, and its pods are moved to other nodes"
CORDON = {"spec": {"unschedulable": True}}

CreateAndFollow = Callable[[list[dict[str, Any]], Sequence[Migration]], Awaitable[Sequence[Ending]]]
"""Creates Migrations with these bodies, and follows them and those that are there already.

Returns what became of each, in this order."""

AwaitStopping = Callable[[], Awaitable[dict[str, str]]]
"""Waits for the pods on the node that are being deleted, as long as their grace periods say.

Returns those that are still there then, with what is known about them, as the rest of a sentence
about the pod."""


@dataclass(frozen=True)
class RemainingPods:
    """The pods that did not leave the node, or left it and run nowhere else."""

    blocked: dict[str, str]
    """Why each of them was left alone."""
    failed: dict[str, str] = field(default_factory=dict)
    """How the move of each ended, as the rest of a sentence about the pod."""
    stopping: tuple[str, ...] = ()
    """Those that are being deleted and were not awaited."""
    moving: tuple[str, ...] = ()
    """Those with a Migration that was not followed."""
    node_is_gone: bool = False
    """Whether the node was deleted during the drain."""


class NodeDrain:
    """Empties one node.

    `plan`, then `cordon`, then `run`: if anything cannot be read, the node stays as it was.
    """

    def __init__(
        self,
        server: ApiServer,
        node: str,
        policy: Policy,
        await_stopping: AwaitStopping | None = None,
        clock: Clock = WALL_CLOCK,
    ) -> None:
        """Without `await_stopping`, pods that are being deleted are not awaited."""
        self._server = server
        self._node = node
        self._await_stopping = await_stopping
        self._policy = drain_policy(policy)
        self._clock = clock
        self._id = secrets.token_hex(4)
        self._uid = ""
        self._events = EventRecorder(server, clock.now)

    async def plan(self) -> Plan:
        """What would be moved now. Nothing is written."""
        return self._plan(await self._snapshot(), await self._context(await self._migrations()))

    async def cordon(self) -> bool:
        """Keep new pods off the node, as `kubectl drain` does. False if it was cordoned already."""
        path = object_path(NODE, self._node)
        try:
            node = await self._server.get(path, Node)
            await self._server.patch(path, CORDON)
        except NotFound as error:
            raise no_such_node(self._node) from error
        self._uid = node.metadata.uid
        await self._report(NodeEvent.DRAIN_STARTED, f"Draining node {self._node}: {DRAINED}.")
        return not node.spec.unschedulable

    async def run(self, create_and_follow: CreateAndFollow) -> RemainingPods:
        """Move all pods that can move; the pods that remain.

        A pod that has an unfinished Migration gets no second one: that one is followed.
        """
        outcomes = DrainOutcomes()
        overdue: dict[str, str] = {}
        moving: tuple[str, ...] = ()
        for number in count(1):
            snapshot = await self._snapshot()
            if is_gone(snapshot, self._node):
                return RemainingPods({}, outcomes.failed, node_is_gone=True)
            migrations = await self._migrations()
            context = await self._context(migrations)
            plan = self._plan(snapshot, context)
            existing = unfinished_on(snapshot, self._node, migrations)
            # A paused one may stay so for ever: it is not followed.
            followed = [
                found
                for found in existing
                if not found.spec.paused and found.pod_key not in outcomes.failed
            ]
            held = {found.pod_key: PAUSED.format(found.key) for found in existing}
            held = {pod: why for pod, why in held.items() if pod not in pods_of(followed)}
            stopping = self._stopping(snapshot)
            # What was overdue before may be gone by now.
            overdue = {pod: why for pod, why in overdue.items() if pod in stopping}
            returning = pods_of_workloads(snapshot, self._node, outcomes.returning)
            held |= {pod: COMES_BACK for pod in returning if pod not in pods_of(followed)}
            left_out = {*outcomes.failed, *pods_of(existing), *returning}
            moves = [move for move in plan.moves if move.pod not in left_out]
            if not moves and not followed:
                moves = self._second_choices(snapshot, context, outcomes)
            if moves or followed:
                salt = f"{self._id}-{number}"
                bodies = [self._migration_body(move, snapshot, salt) for move in moves]
                endings = await create_and_follow(bodies, followed)
                pods = [*(move.pod for move in moves), *pods_of(followed)]
                outcomes.add(pods, endings)
                if not_followed := unfinished(endings):
                    staying = [found for found in not_followed if self._goes_nowhere(found)]
                    held |= {found.pod_key: GOES_NOWHERE.format(found.key) for found in staying}
                    moving = tuple(pod for pod in pods_of(not_followed) if pod not in held)
                    break
            elif self._await_stopping is None or stopping <= overdue.keys():
                break
            else:
                # Planned again afterwards: others may have waited for these pods to be gone.
                overdue = await self._await_stopping()
        failed = overdue | outcomes.failed
        explained = {*failed, *stopping, *moving}
        blocked = blocked_reasons(plan.blocked, explained)
        blocked |= {pod: why for pod, why in held.items() if pod not in explained}
        not_awaited = tuple(sorted(stopping - failed.keys()))
        if blocked:
            await self._report(NodeEvent.PODS_STAY, pods_stay(self._node, blocked))
        elif not (failed or not_awaited or moving):
            await self._report(NodeEvent.EMPTIED, emptied(self._node))
        return RemainingPods(blocked, failed, not_awaited, moving)

    async def _report(self, event: NodeEvent, message: str) -> None:
        """Record an Event on the node; whoever drains it may lack the right to."""
        about = about_node(self._node, self._uid)
        is_warning = event == NodeEvent.PODS_STAY
        await self._events.send(about, event, message, warning=is_warning)

    def _second_choices(
        self, snapshot: Snapshot, context: PlanningContext, outcomes: DrainOutcomes
    ) -> list[Move]:
        """Moves to other nodes, of pods whose new pods did not start where they were sent to."""
        if not outcomes.may_go_elsewhere:
            return []
        refused = {node for nodes in outcomes.may_go_elsewhere.values() for node in nodes}
        plan = self._plan(with_closed_nodes(snapshot, refused), context)
        return [move for move in plan.moves if move.pod in outcomes.may_go_elsewhere]

    def _goes_nowhere(self, migration: Migration) -> bool:
        """Whether a Migration has this node as its target; a controller cancels it."""
        return migration.spec.target_node == self._node

    def _stopping(self, snapshot: Snapshot) -> set[str]:
        """The pods that are being deleted on the node and would leave it empty."""
        pods = snapshot.pods
        on_node = pods.placed & (pods.node == snapshot.nodes.index[self._node])
        return {
            pods.keys[row]
            for row in np.flatnonzero(on_node & pods.deleting).tolist()
            if not stays_with_node(snapshot.template_of(row))
        }

    async def _snapshot(self) -> Snapshot:
        store = LiveStore(self._server, ClusterTables())
        await store.list_once()
        return store.snapshot()

    async def _migrations(self) -> list[Migration]:
        migrations: list[Migration] = []
        async for page in self._server.list_pages(MIGRATION):
            migrations += page.readable()
        return migrations

    async def _context(self, migrations: list[Migration]) -> PlanningContext:
        """What decides whether pods can be handed over, besides the cluster."""
        features = await read_server_features(self._server)
        believed = await self._records_with_findings()
        return PlanningContext(
            placing_blocker=features.placing_blocker or "",
            ignoring_nominations=workloads_ignoring_nominations(migrations, believed),
            unreplaced_from=unreplaced_pods(migrations, believed),
        )

    async def _records_with_findings(self) -> list[MoveRecord]:
        """What earlier moves have found out about workloads; nothing if it cannot be read."""
        now, found = self._clock.now(), []
        try:
            async for page in self._server.list_pages(MOVE_RECORD):
                found += [record for record in page.readable() if record.has_findings(now)]
        except (Forbidden, NotFound):
            return []
        return found

    def _plan(self, snapshot: Snapshot, context: PlanningContext) -> Plan:
        """The moves that empty the node, planned as if it were labelled for maintenance."""
        row = row_of_node(snapshot, self._node)
        nodes = list(snapshot.nodes.objects)
        label = self._policy.maintenance_label
        is_drained_only = not is_under_maintenance(nodes[row], label)
        nodes[row] = with_label(nodes[row], label)
        # Other nodes may be under maintenance too: their pods must not use up the limit.
        emptied = [other for other, node in enumerate(nodes) if is_under_maintenance(node, label)]
        pods = int(np.isin(snapshot.pods.node, emptied).sum())
        policy = msgspec.structs.replace(self._policy, max_reschedule_pods=pods)
        changed = replace(snapshot.nodes, objects=tuple(nodes))
        plan = make_plan(replace(snapshot, nodes=changed), policy, context)
        here = {snapshot.pods.keys[pod] for pod in np.flatnonzero(snapshot.pods.node == row)}
        return msgspec.structs.replace(
            plan,
            moves=tuple(
                because_of_drain(move, label) if is_drained_only else move
                for move in first_moves(plan.moves)
                if move.pod in here
            ),
            blocked=(
                *(blocked for blocked in plan.blocked if blocked.pod in here),
                *unreadable_pods(snapshot, self._node),
            ),
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


def because_of_drain(move: Move, label: NodeLabel) -> Move:
    """The move with the true reason: the label for maintenance is only in the plan."""
    cause, separator, what_follows = move.reason.partition("; ")
    if not cause.endswith(f" {label}"):
        return move
    reason = f"{move.source} is being drained{separator}{what_follows}"
    return msgspec.structs.replace(move, reason=reason)


def row_of_node(snapshot: Snapshot, name: str) -> int:
    """The row of the node to drain."""
    if is_gone(snapshot, name):
        raise no_such_node(name)
    for obj in snapshot.unreadable:
        if (obj.kind, obj.key) == (NODE.name, name):
            raise SettingsError(f"node {name}: cannot be decoded: {obj.problem}")
    return snapshot.nodes.index[name]


def is_gone(snapshot: Snapshot, node: str) -> bool:
    """Whether the cluster has no such node, not even one that cannot be decoded."""
    unreadable = {obj.key for obj in snapshot.unreadable if obj.kind == NODE.name}
    return node not in snapshot.nodes.index and node not in unreadable


def unreadable_pods(snapshot: Snapshot, node: str) -> list[BlockedPod]:
    """The pods on a node that cannot be moved because they cannot be decoded."""
    return [
        BlockedPod(obj.key, "UnreadableObject", f"it cannot be decoded: {obj.problem}")
        for obj in snapshot.unreadable
        if obj.kind == POD.name and obj.node == node
    ]


def unfinished_on(
    snapshot: Snapshot, node: str, migrations: Sequence[Migration]
) -> list[Migration]:
    """The unfinished Migrations of pods that are on the node."""
    pods, found = snapshot.pods, []
    for migration in migrations:
        row = pods.find(migration.pod_key)
        if migration.is_finished or row is None:
            continue
        # A Migration of an earlier pod of that name ends without moving this one.
        is_same = migration.spec.pod.uid in ("", pods.uids[row])
        if is_same and pods.node[row] == snapshot.nodes.index.get(node):
            found.append(migration)
    return found


def pods_of_workloads(snapshot: Snapshot, node: str, owner_uids: Set[str]) -> set[str]:
    """The pods on a node whose controllers have one of these uids."""
    rows = np.flatnonzero(snapshot.pods.node == snapshot.nodes.index.get(node)).tolist()
    owners = {row: snapshot.template_of(row).owner for row in rows} if owner_uids else {}
    return {
        snapshot.pods.keys[row]
        for row, owner in owners.items()
        if owner is not None and owner.uid in owner_uids
    }


def blocked_reasons(blocked: tuple[BlockedPod, ...], but: Set[str]) -> dict[str, str]:
    """Why pods are blocked, except those about which something else is said."""
    return {found.pod: found.detail for found in blocked if found.pod not in but}


def no_such_node(node: str) -> SettingsError:
    """The error for a node that a person named and that does not exist."""
    return SettingsError(f"node {node}: there is no such node")


def drain_policy(policy: Policy) -> Policy:
    """The policy without the limits of rounds: a person wants the node empty."""
    return msgspec.structs.replace(
        policy,
        enabled_strategies=tuple(requested_strategies()),
        max_moves_per_node=None,
        max_moves_per_namespace=None,
        max_moves_per_workload=None,
        min_pod_age_seconds=SecondsOrZero(0),
        max_pending_pods=sys.maxsize,
        max_unready_nodes_percent=100.0,
    )


def with_closed_nodes(snapshot: Snapshot, names: Set[str]) -> Snapshot:
    """The snapshot as if these nodes were cordoned."""
    nodes = snapshot.nodes
    closed = nodes.unschedulable | np.isin(nodes.names, list(names))
    objects = tuple(
        with_cordon(node) if node.metadata.name in names else node for node in nodes.objects
    )
    return replace(snapshot, nodes=replace(nodes, unschedulable=closed, objects=objects))


def with_cordon(node: Node) -> Node:
    """The node as if a person had cordoned it."""
    return msgspec.structs.replace(
        node, spec=msgspec.structs.replace(node.spec, unschedulable=True)
    )


def with_label(node: Node, label: NodeLabel) -> Node:
    """The node as if a person had labelled it."""
    labels = {**node.metadata.labels, label.key: label.value}
    return msgspec.structs.replace(
        node, metadata=msgspec.structs.replace(node.metadata, labels=labels)
    )


def unfinished(endings: Sequence[Ending]) -> list[Migration]:
    """The Migrations that were not followed to their end."""
    return [
        ending for ending in endings if isinstance(ending, Migration) and not ending.is_finished
    ]


def pods_of(migrations: Sequence[Migration]) -> list[str]:
    """The keys of the pods that these Migrations move."""
    return [migration.pod_key for migration in migrations]
