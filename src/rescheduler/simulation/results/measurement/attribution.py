"""What caused a shortage: a move of ours, or something else.

A shortage is attributed once, when it begins, to

- `Scaling`: the desired count was raised;
- `NodeFailure`: the pod's node is not ready, or was deleted;
- a move: the controller evicted the pod (mode Evict or Recreate), or its workload deleted one of
  its pods while another was being moved (mode Handoff), unless by a rollout;
- `Rollout`: two versions of the Deployment run at the same time;
- `Start`: the pod was missing from the start;
- `Other`: anything else, such as a preempted pod.
"""

from dataclasses import dataclass
from enum import StrEnum

from rescheduler.model.moves import Mode
from rescheduler.simulation.results.measurement.moves import MoveLog
from rescheduler.simulation.results.measurement.node_usage import NodeUsage
from rescheduler.simulation.results.measurement.pod_facts import PodFacts
from rescheduler.simulation.results.measurement.workload_counts import DesiredCounts


class ShortageCause(StrEnum):
    """What a shortage is attributed to, if not to a move."""

    SCALING = "Scaling"
    NODE_FAILURE = "NodeFailure"
    ROLLOUT = "Rollout"
    START = "Start"
    OTHER = "Other"


@dataclass(frozen=True)
class Attribution:
    """What caused a shortage: a move, named by its mode, or a `ShortageCause`."""

    is_move: bool
    cause: str


@dataclass(frozen=True)
class Attributor:
    """Finds what caused the loss of a Ready pod, from what has been measured so far."""

    usage: NodeUsage
    moves: MoveLog
    desired: DesiredCounts

    def attribution(self, before: PodFacts, after: PodFacts) -> Attribution:
        """What caused the loss; `after` is the pod as it is now or, if deleted, as it was last."""
        if self.usage.has_failed(before.node):
            return Attribution(False, ShortageCause.NODE_FAILURE)
        move = self.moves.by_uid.get(after.migration or before.migration)
        if move is not None and move.is_in_flight and move.mode in (Mode.EVICT, Mode.RECREATE):
            return Attribution(True, move.mode)
        if self.desired.is_rolling_out(before.workload):
            return Attribution(False, ShortageCause.ROLLOUT)
        if move is not None or self.moves.in_flight_of[before.owner] > 0:
            return Attribution(True, move.mode if move is not None else Mode.HANDOFF)
        return Attribution(False, ShortageCause.OTHER)
