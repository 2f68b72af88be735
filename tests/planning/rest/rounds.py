"""Plan, carry the moves out in the model, plan again: as the controller does, without a cluster.

A moved pod keeps its name here, so that one that returns can be seen. As in a cluster, it is as
young as its move, and the planner is told of every move that is over.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from itertools import count
from typing import Any

import msgspec

from rescheduler.controller.move_requests import first_wave, later_moves
from rescheduler.model.moves import Outcome
from rescheduler.planning.context import LaterMove, PastMove, PlanningContext
from rescheduler.planning.plan import Move, Plan
from rescheduler.planning.planner import make_plan
from rescheduler.settings import Policy
from testcluster.client import JsonObject
from testcluster.snapshots import snapshot_of

NOW = 1748736000.0
SECONDS_PER_ROUND = 600.0
PATIENCE = 170
"""How often the planner may ask for the time until it is up: some searches are cut short."""
_KNOWS_STRATEGIES = "strategy" in {field.name for field in fields(PastMove)}


@dataclass(frozen=True)
class Round:
    """A cluster, and the plan for it."""

    objects: Sequence[JsonObject]
    plan: Plan


def rounds(
    objects: Sequence[JsonObject], policy: Policy, at_most: int, *, only_first_wave: bool = False
) -> Iterator[Round]:
    """Round after round, up to the first whose plan is empty and with that one.

    The controller carries out only the first wave of a plan, and plans again.
    """
    history: list[PastMove] = []
    later: tuple[LaterMove, ...] = ()
    for number in range(at_most):
        now = NOW + number * SECONDS_PER_ROUND
        context = PlanningContext(now=now, history=tuple(history), later_moves=later)
        plan = make_plan(snapshot_of(objects), policy, context, {}, _impatience())
        if only_first_wave:
            later = later_moves(plan)
            plan = msgspec.structs.replace(plan, moves=tuple(first_wave(plan.moves)))
        yield Round(objects, plan)
        if not plan.moves:
            return
        history += [_past(move, objects, now) for move in plan.moves]
        objects = after(objects, plan, now)


def _impatience() -> Callable[[], float]:
    """A clock that goes on whenever it is asked."""
    asked = count()
    return lambda: next(asked) / PATIENCE


def after(objects: Sequence[JsonObject], plan: Plan, now: float = NOW) -> list[JsonObject]:
    """The same cluster with all moves made."""
    moved = {move.pod: move.target for move in plan.moves}
    return [_moved(each, moved.get(key_of(each)), now) for each in objects]


def _moved(item: JsonObject, target: str | None, now: float) -> JsonObject:
    if item["kind"] != "Pod" or target is None:
        return item
    born = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        **item,
        "metadata": {**item["metadata"], "creationTimestamp": born},
        "spec": {**item["spec"], "nodeName": target},
    }


def _past(move: Move, objects: Sequence[JsonObject], now: float) -> PastMove:
    pod = next(each for each in objects if each["kind"] == "Pod" and key_of(each) == move.pod)
    known: dict[str, Any] = {"strategy": move.strategy} if _KNOWS_STRATEGIES else {}
    return PastMove(
        pod=move.pod,
        workload=workload_of(pod),
        source=move.source,
        target=move.target,
        outcome=Outcome.LANDED,
        at=now,
        **known,
    )


def key_of(item: JsonObject) -> str:
    """`namespace/name`."""
    return f"{item['metadata'].get('namespace', '')}/{item['metadata']['name']}"


def workload_of(pod: JsonObject) -> str:
    """`ReplicaSet/shop/web`, or nothing for a bare pod."""
    for owner in pod["metadata"]["ownerReferences"]:
        return f"{owner['kind']}/{pod['metadata']['namespace']}/{owner['name']}"
    return ""
