"""The responses of filter and prioritize. They are written in the thread of the HTTP server."""

from dataclasses import dataclass

import msgspec

from rescheduler.extender.filter import FilterDecision
from rescheduler.extender.prioritize import Scores
from rescheduler.extender.protocol import ExtenderFilterResult, HostPriority, NodeList
from rescheduler.extender.scheduling_request import SchedulingRequest


@dataclass(frozen=True, eq=False)
class FilteredNodes:
    """The nodes of a request that passed, and why the others did not."""

    request: SchedulingRequest
    decision: FilterDecision

    def encoded(self) -> bytes:
        """The response of `filter`."""
        return msgspec.json.encode(self._result())

    def _result(self) -> ExtenderFilterResult:
        """Nodes by name or whole, as they were sent."""
        args, names = self.request.args, self.request.names
        refused = {names[index]: reason for index, reason in self.decision.refused.items()}
        passed = self.decision.passed.tolist()
        if args.node_names is not None:
            passed_names = [names[index] for index in passed]
            return ExtenderFilterResult(refused, refused, node_names=passed_names)
        items = args.items
        nodes = NodeList([items[index] for index in passed])
        return ExtenderFilterResult(refused, refused, nodes=nodes)


@dataclass(frozen=True, eq=False)
class ScoredNodes:
    """The nodes of a request with their scores."""

    request: SchedulingRequest
    scores: Scores

    def encoded(self) -> bytes:
        """The response of `prioritize`."""
        scores = map(HostPriority, self.request.names, self.scores.tolist())
        return msgspec.json.encode(list(scores))
