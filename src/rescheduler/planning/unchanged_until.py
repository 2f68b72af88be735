"""Until when an empty plan stays the same, if nothing but the time changes."""

import numpy as np

from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.context import PlanningContext
from rescheduler.planning.movability.move_history import SEEN_GONE_AFTER, MoveHistory
from rescheduler.settings import Policy


def same_until(snapshot: Snapshot, policy: Policy, context: PlanningContext) -> float:
    """The moment until which exactly the same pods may be moved, if nothing else changes.

    Pods become old enough, cooldowns after moves end, and pods may go to nodes again.
    Nothing of it depends on anything but the time. Which strategies are urgent is not asked: a
    moment too many costs one more plan.
    """
    old_enough = snapshot.pods.created + policy.min_pod_age_seconds
    now = context.now
    cooldowns = MoveHistory(context.history, now).ends
    seen_gone = [at for move in context.history if (at := move.at + SEEN_GONE_AFTER) > now]
    return float(np.min([*old_enough[old_enough > now], *cooldowns, *seen_gone], initial=np.inf))
