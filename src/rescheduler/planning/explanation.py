"""Why a pod is where it is: what every node says to it, and whether it may be moved at all."""

from collections.abc import Iterator
from contextlib import nullcontext

import numpy as np

from rescheduler.model.moves import Mode
from rescheduler.model.objects import Part
from rescheduler.model.snapshot import Floats, Snapshot
from rescheduler.planning.context import DEFAULT_CONTEXT, PlanningContext
from rescheduler.planning.feasibility.checker import FeasibilityChecker
from rescheduler.planning.movability.movability import Movability
from rescheduler.planning.node_load import NodeLoad
from rescheduler.settings import Policy


class NodeVerdict(Part, frozen=True, omit_defaults=False):
    """Whether one node accepts the pod, and how loaded it is before and after."""

    node: str
    accepted: bool
    accepted_beside_old_pod: bool
    plugin: str
    """The scheduler plugin that refuses, or nothing."""
    reason: str
    load_before: float
    load_after: float


class Explanation(Part, frozen=True, omit_defaults=False):
    """Where a pod could run, and whether it may be moved."""

    pod: str
    node: str
    may_move: bool
    blocker: str
    detail: str
    mode: Mode
    nodes: tuple[NodeVerdict, ...]


class Acceptance(Part, frozen=True, omit_defaults=False):
    """Which nodes accept a pod, and which plugin refuses it on each of the others."""

    pod: str
    fits: list[str]
    why: dict[str, str]


def explain(
    snapshot: Snapshot,
    policy: Policy,
    pod: int,
    context: PlanningContext = DEFAULT_CONTEXT,
    *,
    beside_old_pod: bool = False,
) -> Explanation:
    """What every node says to this pod; `accepted` is without the old pod, unless it is to stay."""
    checker, movability = FeasibilityChecker(snapshot), Movability(snapshot, policy, context)
    template = int(snapshot.pods.template[pod])
    source = int(snapshot.pods.node[pod])
    # A pod without a node may still be nominated to one. Its own room is not kept from it.
    with checker.without(pod) if source < 0 else nullcontext():
        with_old_pod = checker.refusals(template)
    with nullcontext() if beside_old_pod and source >= 0 else checker.without(pod):
        asked = checker.refusals(template)
        reasons = {int(node): checker.reason(template, int(node)) for node in np.flatnonzero(asked)}
    now, then = _loads(snapshot, template, source)
    blocker = movability.blocker(pod)
    return Explanation(
        pod=snapshot.pods.keys[pod],
        node=snapshot.nodes.names[source] if source >= 0 else "",
        may_move=blocker is None,
        blocker=blocker.name if blocker is not None else "",
        detail=blocker.detail if blocker is not None else "",
        mode=movability.mode(template),
        nodes=tuple(
            NodeVerdict(
                node=name,
                accepted=not asked[row],
                accepted_beside_old_pod=not with_old_pod[row],
                plugin=checker.plugins[asked[row] - 1].name if asked[row] else "",
                reason=reasons.get(row, ""),
                load_before=float(now[row]),
                load_after=float(then[row]),
            )
            for row, name in enumerate(snapshot.nodes.names)
        ),
    )


def _loads(snapshot: Snapshot, template: int, source: int) -> tuple[Floats, Floats]:
    """How loaded each node is, and would be with the pod; its own node has it already."""
    load = NodeLoad(snapshot)
    now = load.load(load.used)
    then = load.load(load.used + load.demand[:, template][:, None])
    if source >= 0:
        then[source] = now[source]
    return now, then


def acceptances(snapshot: Snapshot, *, beside_old_pod: bool = False) -> Iterator[Acceptance]:
    """Where each bound, unfinished pod could run, pod by pod."""
    checker = FeasibilityChecker(snapshot)
    names = snapshot.nodes.names
    plugins = [plugin.name for plugin in checker.plugins]
    for pod in np.flatnonzero(snapshot.pods.placed).tolist():
        template = int(snapshot.pods.template[pod])
        refusals = checker.refusals(template) if beside_old_pod else checker.refusals_without(pod)
        yield Acceptance(
            pod=snapshot.pods.keys[pod],
            fits=[names[node] for node in np.flatnonzero(refusals == 0)],
            why={names[node]: plugins[refusals[node] - 1] for node in np.flatnonzero(refusals)},
        )
