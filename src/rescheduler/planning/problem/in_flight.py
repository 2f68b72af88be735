"""Pods that are being migrated count twice: on the node where they are, and on their target."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from rescheduler.model.snapshot import RUNNING, PodColumns, Snapshot
from rescheduler.planning.context import MoveInFlight


class _Arrival(NamedTuple):
    """A pod that will be on the target: its key, and the row of the pod that it replaces."""

    key: str
    row: int
    target: int


def with_arrivals(snapshot: Snapshot, in_flight: Sequence[MoveInFlight]) -> Snapshot:
    """The cluster with a stand-in on the target of every migration, which stays where it is.

    None for those whose new pod is there already.
    """
    arrivals = []
    for move in in_flight:
        row, target = snapshot.pods.find(move.pod), snapshot.nodes.index.get(move.target)
        is_there = bool(move.new_pod) and snapshot.pods.find(move.new_pod) is not None
        if row is not None and target is not None and not is_there:
            arrivals.append(_Arrival(f"{move.pod} on its way to {move.target}", row, target))
    if not arrivals:
        return snapshot
    return replace(snapshot, pods=_with_stand_ins(snapshot.pods, sorted(arrivals)))


def _with_stand_ins(pods: PodColumns, arrivals: Sequence[_Arrival]) -> PodColumns:
    """The pods and the arrivals, ordered by key: that is how pods are looked up."""
    before = [bisect_left(pods.keys, arrival.key) for arrival in arrivals]
    # Every stand-in begins as a copy of the pod that it replaces.
    copied = np.insert(np.arange(len(pods)), before, [arrival.row for arrival in arrivals])
    rows = np.array(before) + np.arange(len(before))
    keys, uids = [pods.keys[row] for row in copied], pods.uids.taken(copied)
    node, phase, created = pods.node[copied], pods.phase[copied], pods.created[copied]
    ready, deleting = pods.ready[copied], pods.deleting[copied]
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
        created=created,
    )
