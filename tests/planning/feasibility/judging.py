"""Our own answers about a generated cluster, in the shape of the oracle's."""

from collections.abc import Iterator
from dataclasses import dataclass

from rescheduler.planning.feasibility.checker import FeasibilityChecker, Refusals
from testcluster.client import JsonObject
from testcluster.snapshots import snapshot_of
from tests.planning.feasibility.oracle import Verdict


@dataclass(frozen=True)
class OurAnswers:
    """What the judge says of each placed pod, with the pod gone and with it still there."""

    judge: FeasibilityChecker

    @classmethod
    def about(cls, items: list[JsonObject]) -> "OurAnswers":
        """Judge the cluster that these objects make up."""
        return cls(FeasibilityChecker(snapshot_of(items)))

    def verdicts(self, with_old_pod: bool) -> dict[str, Verdict]:
        """Where the replacement of each placed pod could run, by `namespace/name`."""
        pods = self.judge.snapshot.pods
        return {
            pods.keys[row]: self._verdict(self._refusals(row, with_old_pod))
            for row in pods.placed.nonzero()[0].tolist()
        }

    def reason(self, pod: str, node: str) -> str:
        """Why a pod may not run on a node, in the judge's words."""
        snapshot = self.judge.snapshot
        template = int(snapshot.pods.template[snapshot.pods.keys.index(pod)])
        return self.judge.reason(template, snapshot.nodes.index[node])

    def refusals_without_reason(self) -> Iterator[str]:
        """Refusals without a sentence why; one of each template and rule is tried."""
        for template in range(len(self.judge.snapshot.templates)):
            numbers = self.judge.refusals(template).tolist()
            for number in set(numbers) - {0}:
                node = numbers.index(number)
                if not self.judge.reason(template, node).strip():
                    yield f"{self.judge.plugins[number - 1].name}: template {template}, node {node}"

    def _refusals(self, pod: int, with_old_pod: bool) -> Refusals:
        if with_old_pod:
            return self.judge.refusals(int(self.judge.snapshot.pods.template[pod]))
        return self.judge.refusals_without(pod)

    def _verdict(self, refusals: Refusals) -> Verdict:
        fits, refused_by = set(), {}
        for name, number in zip(self.judge.snapshot.nodes.names, refusals.tolist(), strict=True):
            if number == 0:
                fits.add(name)
            else:
                refused_by[name] = self.judge.plugins[number - 1].name
        return Verdict(frozenset(fits), refused_by)
