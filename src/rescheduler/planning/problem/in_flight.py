"""Pods that are being migrated count in both places: where they are, and where they will be."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from rescheduler.model.snapshot import RUNNING, PodColumns, Snapshot
from rescheduler.model.uids import Uids
from rescheduler.planning.context import MoveInFlight


def with_arrivals(snapshot: Snapshot, in_flight: Sequence[MoveInFlight]) -> Snapshot:
    """The cluster with a stand-in on the target of every migration, which stays where it is.

    None for those whose new pod is there already.
    """
    row_of = {key: row for row, key in enumerate(snapshot.pods.keys)} if in_flight else {}
    arrivals = [
        (row_of[each.pod], snapshot.nodes.index[each.target])
        for each in in_flight
        if each.pod in row_of and each.target in snapshot.nodes.index and each.new_pod not in row_of
    ]
    if not arrivals:
        return snapshot
    return replace(snapshot, pods=_with_stand_ins(snapshot, arrivals))


def _with_stand_ins(snapshot: Snapshot, arrivals: Sequence[tuple[int, int]]) -> PodColumns:
    pods, count = snapshot.pods, len(arrivals)
    uids = Uids()
    for row in range(len(pods)):
        uids.append(pods.uids[row])
    for _ in arrivals:
        uids.append("")
    names = snapshot.nodes.names
    return PodColumns(
        keys=(*pods.keys, *(f"{pods.keys[row]} on its way to {names[to]}" for row, to in arrivals)),
        uids=uids,
        template=np.append(pods.template, pods.template[[row for row, _ in arrivals]]),
        node=np.append(pods.node, np.array([to for _, to in arrivals], pods.node.dtype)),
        phase=np.append(pods.phase, np.full(count, RUNNING, pods.phase.dtype)),
        # What is not Ready is not moved.
        ready=np.append(pods.ready, np.zeros(count, bool)),
        deleting=np.append(pods.deleting, np.zeros(count, bool)),
        created=np.append(pods.created, np.full(count, np.nan)),
    )
