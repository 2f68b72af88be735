"""Our own answers about a generated cluster, in the shape of the oracle's."""

from collections.abc import Iterator
from dataclasses import dataclass

from rescheduler.planning.feasibility.checker import FeasibilityChecker, Refusals
from testcluster.client import JsonObject
from testcluster.snapshots import snapshot_of
from tests.planning.feasibility.oracle import Verdict


@dataclass(frozen=True)
class OurAnswers:
    """What the checker says of each placed pod, with the pod gone and with it still there."""

    checker: FeasibilityChecker

    @classmethod
    def about(cls, items: list[JsonObject]) -> "OurAnswers":
        """Judge the cluster that these objects make up."""
        return cls(FeasibilityChecker(snapshot_of(items)))

    def verdicts(self, with_old_pod: bool) -> dict[str, Verdict]:
        """Where the replacement of each placed pod could run, by `namespace/name`."""
        pods = self.checker.snapshot.pods
        return {
            pods.keys[row]: self._verdict(self._refusals(row, with_old_pod))
            for row in pods.placed.nonzero()[0].tolist()
        }

    def reason(self, pod: str, node: str) -> str:
        """Why a pod may not run on a node, in the checker's features."""
        snapshot = self.checker.snapshot
        template = int(snapshot.pods.template[snapshot.pods.keys.index(pod)])
        return self.checker.reason(template, snapshot.nodes.index[node])

    def refusals_without_reason(self) -> Iterator[str]:
        """Refusals without a sentence why; one of each template and rule is tried."""
        for template in range(len(self.checker.snapshot.templates)):
            numbers = self.checker.refusals(template).tolist()
            for number in set(numbers) - {0}:
                node = numbers.index(number)
                if not self.checker.reason(template, node).strip():
                    plugin = self.checker.plugins[number - 1].name
                    yield f"{plugin}: template {template}, node {node}"

    def _refusals(self, pod: int, with_old_pod: bool) -> Refusals:
        if with_old_pod:
            return self.checker.refusals(int(self.checker.snapshot.pods.template[pod]))
        return self.checker.refusals_without(pod)

    def _verdict(self, refusals: Refusals) -> Verdict:
        fits, refused_by = set(), {}
        for name, number in zip(self.checker.snapshot.nodes.names, refusals.tolist(), strict=True):
            if number == 0:
                fits.add(name)
            else:
                refused_by[name] = self.checker.plugins[number - 1].name
        return Verdict(frozenset(fits), refused_by)
