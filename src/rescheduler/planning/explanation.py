"""Why a pod is where it is: what every node says to it, and whether it may be moved at all."""

from collections.abc import Iterator

import numpy as np

from rescheduler.model.objects import Part
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.feasibility.judge import Judge
from rescheduler.planning.load import NodeLoad, load_of
from rescheduler.planning.movability import Movability
from rescheduler.planning.plan import Mode
from rescheduler.settings import Policy


class NodeVerdict(Part, frozen=True, omit_defaults=False):
    """What one node says to the pod, and how loaded it is before and after taking it."""

    node: str
    accepted: bool
    accepted_beside_old_pod: bool
    plugin: str
    """The scheduler plugin that refuses, or nothing."""
    reason: str
    load_before: float
    load_after: float


class Explanation(Part, frozen=True, omit_defaults=False):
    """All there is to say about where a pod could be."""

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
    snapshot: Snapshot, policy: Policy, pod: int, *, beside_old_pod: bool = False
) -> Explanation:
    """What every node says to this pod; `accepted` is with the old pod gone, unless beside it."""
    judge, movability, load = Judge(snapshot), Movability(snapshot, policy), NodeLoad(snapshot)
    template = int(snapshot.pods.template[pod])
    beside = judge.refusals(template)
    gone = judge.refusals_without(pod)
    asked = beside if beside_old_pod else gone
    if beside_old_pod:
        reasons = _reasons(judge, template, asked)
    else:
        with judge.without(pod):
            reasons = _reasons(judge, template, asked)
    source = int(snapshot.pods.node[pod])
    share = load.demand[template] / load.capacity
    now = load_of(load.utilization)
    then = load_of(load.utilization + share)
    then[source] = now[source]
    blocker = movability.blocker(pod)
    return Explanation(
        pod=snapshot.pods.keys[pod],
        node=snapshot.nodes.names[source],
        may_move=blocker is None,
        blocker=blocker.name if blocker is not None else "",
        detail=blocker.detail if blocker is not None else "",
        mode=movability.mode(template),
        nodes=tuple(
            NodeVerdict(
                node=name,
                accepted=not asked[row],
                accepted_beside_old_pod=not beside[row],
                plugin=judge.rules[asked[row] - 1].name if asked[row] else "",
                reason=reasons.get(row, ""),
                load_before=float(now[row]),
                load_after=float(then[row]),
            )
            for row, name in enumerate(snapshot.nodes.names)
        ),
    )


def acceptances(snapshot: Snapshot, *, beside_old_pod: bool = False) -> Iterator[Acceptance]:
    """Where each bound, unfinished pod could run, pod by pod."""
    judge = Judge(snapshot)
    names = snapshot.nodes.names
    plugins = [rule.name for rule in judge.rules]
    for pod in np.flatnonzero(snapshot.pods.placed).tolist():
        template = int(snapshot.pods.template[pod])
        refusals = judge.refusals(template) if beside_old_pod else judge.refusals_without(pod)
        yield Acceptance(
            pod=snapshot.pods.keys[pod],
            fits=[names[node] for node in np.flatnonzero(refusals == 0)],
            why={names[node]: plugins[refusals[node] - 1] for node in np.flatnonzero(refusals)},
        )


def _reasons(judge: Judge, template: int, refusals: np.ndarray) -> dict[int, str]:
    return {int(node): judge.reason(template, int(node)) for node in np.flatnonzero(refusals)}
