"""What a move disrupts, as a number: 1 for an ordinary pod, one of many that nobody will miss.

Factors multiply, for what is bad by itself is worse together: evicting the only replica of a
database is not a little worse than evicting some database's pod. All pods of a template share
their price, which keeps them interchangeable; which of them goes first is a question of age.
"""

from math import isfinite

import numpy as np

from rescheduler.model.moves import Mode
from rescheduler.model.snapshot import Floats, Snapshot
from rescheduler.planning.context import PlanningContext
from rescheduler.planning.movability.movability import Movability

# Priorities are only an order: some people use 1 to 10, others up to a million. So it is the
# number of digits that counts: at 0.25 each, a pod of priority 1,000 costs three quarters more.
PRIORITY_PER_DIGIT = 0.25
# One of two is half of the service for as long as the new one warms up, one of ten is little. By
# the square of the replicas, this is 3 for one, 1.5 for two and hardly more than 1 for ten.
ONLY_REPLICA_EXTRA = 2.0
# It has to detach its volume, catch up, perhaps elect a leader.
STATEFUL = 3.0
# There is a gap in between, and no return if the target turns out bad.
EVICTION = 2.0
# While the last disruption is used for us, the application cannot afford a node that fails.
TIGHT_BUDGET = 1.5
# A pod that has just started is still warming up and may well be one that was just moved; moved
# at once, it costs double. In ten minutes, half of that is over.
JUST_STARTED_EXTRA = 1.0
YOUTH_HALF_LIFE_SECONDS = 600.0
# More than any improvement is worth, and less than what people ask for.
MOST_STATED_COST = 10_000.0

_TIGHT = 1
_GOLDEN_RATIO = 0.6180339887498949


def disruption_costs(
    snapshot: Snapshot, context: PlanningContext, movability: Movability
) -> Floats:
    """What the move of one pod of each template disrupts."""
    cost = _by_priority(snapshot)
    cost *= _by_replicas(movability)
    cost *= _by_youth(snapshot, context.now)
    cost *= _by_owner_and_mode(snapshot, movability)
    cost *= _by_budgets(snapshot, movability)
    cost += [_stated_cost(template.annotations.move_cost) for template in snapshot.templates]
    return cost


def age_order(snapshot: Snapshot, now: float) -> Floats:
    """A key per pod: of the pods of a template, those with the smallest go first.

    Old ones go first. A moved pod starts again at age zero, so every replica is moved once before
    one is moved twice. Only the magnitude of the age counts: between ten days and eleven, chance
    decides, or it would always be those whose names come first.
    """
    created = snapshot.pods.created
    if not isfinite(now):
        now = float(np.nanmax(created, initial=0.0))
    age = np.maximum(np.nan_to_num(now - created, nan=np.inf), 1.0)
    magnitude = np.minimum(np.floor(np.log2(age)), _OLDEST)
    chance = np.arange(len(created)) * _GOLDEN_RATIO % 1.0
    return np.asarray(chance - magnitude)


# The magnitude of any age that is not known: older than everything else.
_OLDEST = 64.0


def _by_priority(snapshot: Snapshot) -> Floats:
    priority = np.array([template.priority for template in snapshot.templates], np.float64)
    factor = 1.0 + PRIORITY_PER_DIGIT * np.log10(1.0 + np.abs(priority))
    return np.asarray(np.where(priority >= 0, factor, 1.0 / factor))


def _by_replicas(movability: Movability) -> Floats:
    replicas = np.maximum(np.array(movability.workloads.replicas, np.float64), 1.0)
    return np.asarray(1.0 + ONLY_REPLICA_EXTRA / replicas**2)


def _by_youth(snapshot: Snapshot, now: float) -> Floats:
    """The mean over the pods of each template. Those of unknown age count as old."""
    age = np.maximum(now - snapshot.pods.created, 0.0)
    youth = np.nan_to_num(np.exp2(-age / YOUTH_HALF_LIFE_SECONDS))
    size = len(snapshot.templates)
    total = np.bincount(snapshot.pods.template, weights=youth, minlength=size)
    count = np.bincount(snapshot.pods.template, minlength=size)
    return np.asarray(1.0 + JUST_STARTED_EXTRA * total / np.maximum(count, 1))


def _by_owner_and_mode(snapshot: Snapshot, movability: Movability) -> Floats:
    return np.array(
        [
            (STATEFUL if pod.owner is not None and pod.owner.kind == "StatefulSet" else 1.0)
            * (EVICTION if movability.mode(template) == Mode.EVICT else 1.0)
            for template, pod in enumerate(snapshot.templates)
        ],
        np.float64,
    )


def _by_budgets(snapshot: Snapshot, movability: Movability) -> Floats:
    if not snapshot.budgets:
        return np.ones(len(snapshot.templates))
    return np.array(
        [
            TIGHT_BUDGET
            if any(
                budget.status.disruptions_allowed <= _TIGHT for budget in movability.budgets(number)
            )
            else 1.0
            for number in range(len(snapshot.templates))
        ],
        np.float64,
    )


def _stated_cost(text: str) -> float:
    """What an annotation adds; nothing if it is not a number from 0 upwards.

    Whoever owns a pod writes it, and must not keep a node under maintenance from being emptied.
    """
    try:
        cost = float(text) if text else 0.0
    except ValueError:
        return 0.0
    return min(cost, MOST_STATED_COST) if isfinite(cost) and cost >= 0 else 0.0
