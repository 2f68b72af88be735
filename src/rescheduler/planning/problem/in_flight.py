"""Room that is promised counts as taken, once.

Pods that are being migrated count twice: on the node where they are, and on their target. Pods that
wait for a node count where they are nominated to, whoever has nominated them and whatever their
priority: we do not plan to push them aside. A Migration that is paused counts on no target: until a
person lets it start, it promises no room.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from rescheduler.model.snapshot import NO_NODE, RUNNING, PodColumns, Snapshot
from rescheduler.planning.context import MoveInFlight


class _Arrival(NamedTuple):
    """A pod that will be on the target: its key, and the row of the pod that it replaces."""

    key: str
    row: int
    target: int


def with_arrivals(snapshot: Snapshot, in_flight: Sequence[MoveInFlight]) -> Snapshot:
    """The cluster with every pod that is on its way where it is going to, to stay there.

    Pods that exist without a node are put where they are nominated to, or else onto the target of
    the migration that has created them. A migration that has no new pod yet gets a stand-in.
    """
    pods = snapshot.pods
    waiting: dict[int, int] = {}
    arrivals = []
    for move in in_flight:
        row, target = pods.find(move.pod), snapshot.nodes.index.get(move.target)
        if target is None or move.is_paused:
            continue
        new = _new_pod(snapshot, move, row)
        if new is not None:
            waiting[new] = target
        elif row is not None and pods.node[row] != target:
            arrivals.append(_Arrival(f"{move.pod} on its way to {move.target}", row, target))
    pods = _with_promised_nodes(pods, waiting)
    if arrivals:
        pods = _with_stand_ins(pods, sorted(arrivals))
    return snapshot if pods is snapshot.pods else replace(snapshot, pods=pods)


def _with_promised_nodes(pods: PodColumns, target_of: Mapping[int, int]) -> PodColumns:
    """The pods, those without a node where they are nominated to or, failing that, on a target."""
    rows = [row for row in target_of if pods.node[row] == NO_NODE and not pods.finished[row]]
    if not rows and not pods.promised.any():
        return pods
    node = pods.node.copy()
    node[rows] = [target_of[row] for row in rows]
    node[pods.promised] = pods.nominated[pods.promised]
    return replace(pods, node=node)


def _new_pod(snapshot: Snapshot, move: MoveInFlight, row: int | None) -> int | None:
    """The row of the pod that takes the place of the one in `row`; None if there is none yet.

    Once the old pod was evicted, it is a replacement that is on no node yet, perhaps of its name.
    """
    pods = snapshot.pods
    if move.new_pod and (new := pods.find(move.new_pod)) is not None:
        return new
    if row is None:
        return _unplaced_pod_of(snapshot, move.workload)
    return row if pods.node[row] == NO_NODE else None


def _unplaced_pod_of(snapshot: Snapshot, workload: str) -> int | None:
    pods = snapshot.pods
    for row in np.flatnonzero(pods.pending).tolist():
        template = snapshot.templates[int(pods.template[row])]
        owner = template.owner
        if owner is not None and f"{owner.kind}/{template.namespace}/{owner.name}" == workload:
            return int(row)
    return None


def _with_stand_ins(pods: PodColumns, arrivals: Sequence[_Arrival]) -> PodColumns:
    """The pods and the arrivals, ordered by key: that is how pods are looked up."""
    before = [bisect_left(pods.keys, arrival.key) for arrival in arrivals]
    # Every stand-in begins as a copy of the pod that it replaces.
    copied = np.insert(np.arange(len(pods)), before, [arrival.row for arrival in arrivals])
    rows = np.array(before) + np.arange(len(before))
    keys, uids = [pods.keys[row] for row in copied], pods.uids.taken(copied)
    node, phase, created = pods.node[copied], pods.phase[copied], pods.created[copied]
    ready, deleting, gated = pods.ready[copied], pods.deleting[copied], pods.gated[copied]
    nominated = pods.nominated[copied]
    for row, arrival in zip(rows.tolist(), arrivals, strict=True):
        keys[row], uids[row], node[row] = arrival.key, "", arrival.target
    phase[rows], created[rows] = RUNNING, np.nan
    # What is not Ready is not moved.
    ready[rows] = deleting[rows] = False
    return PodColumns(
        keys=tuple(keys),
        uids=uids,
        template=pods.template[copied],
        node=node,
        phase=phase,
        ready=ready,
        deleting=deleting,
        gated=gated,
        nominated=nominated,
        created=created,
        move_labels=pods.move_labels.taken(copied),
    )
