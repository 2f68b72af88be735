"""Compare our answers about generated clusters with the oracle's."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from testcluster.client import JsonObject
from tests.planning.feasibility import oracle
from tests.planning.feasibility.checker_answers import OurAnswers
from tests.planning.feasibility.coverage import Coverage
from tests.planning.feasibility.generated_clusters import (
    GeneratedCluster,
    generate_cluster,
    key_of,
)
from tests.planning.feasibility.oracle import Verdict

REPRODUCE = (
    "SEED={} .venv/bin/python -m pytest tests/planning/feasibility/test_against_the_oracle.py"
)


@dataclass
class Comparison:
    """What was compared, and where the two answers differ."""

    clusters: int = 0
    pairs: int = 0
    """Pairs of pod and node, each answered by both."""
    gone: list[str] = field(default_factory=list)
    """Disagreements about pods that have left their node."""
    with_old_pod: list[str] = field(default_factory=list)
    """Disagreements about pods that start while the old one still runs."""
    without_reason: list[str] = field(default_factory=list)
    """Refusals that cannot be explained."""
    coverage: Coverage = field(default_factory=Coverage)

    def merge(self, other: "Comparison") -> None:
        """Add what was compared elsewhere."""
        self.clusters += other.clusters
        self.pairs += other.pairs
        self.gone += other.gone
        self.with_old_pod += other.with_old_pod
        self.without_reason += other.without_reason
        self.coverage.merge(other.coverage)


def compare(seeds: Sequence[int]) -> Comparison:
    """Judge the clusters of these seeds by the oracle and by ourselves."""
    found = Comparison()
    clusters = [generate_cluster(seed) for seed in seeds]
    gone = oracle.ask(clusters, with_old_pod=False)
    with_old_pod = oracle.ask(clusters, with_old_pod=True)
    for cluster, theirs_gone, theirs_with in zip(clusters, gone, with_old_pod, strict=True):
        ours = OurAnswers.about(cluster.items)
        found.gone += _disagreements(cluster, ours, theirs_gone, with_old_pod=False)
        found.with_old_pod += _disagreements(cluster, ours, theirs_with, with_old_pod=True)
        found.without_reason += ours.refusals_without_reason()
        found.clusters += 1
        found.pairs += 2 * len(theirs_gone) * len(cluster.nodes)
        found.coverage.add(cluster, theirs_gone)
    return found


def _disagreements(
    cluster: GeneratedCluster, ours: OurAnswers, theirs: dict[str, Verdict], with_old_pod: bool
) -> Iterator[str]:
    our_verdicts = ours.verdicts(with_old_pod)
    assert our_verdicts.keys() == theirs.keys(), (
        f"seed {cluster.seed}: we and the oracle do not checker the same pods: "
        f"{our_verdicts.keys() ^ theirs.keys()}"
    )
    for pod, verdict in theirs.items():
        for node in sorted(verdict.fits ^ our_verdicts[pod].fits):
            oracle_says = verdict.refused_by.get(node, "it fits")
            we_say = our_verdicts[pod].refused_by.get(node, "it fits")
            if with_old_pod and node in our_verdicts[pod].refused_by:
                we_say += f" ({ours.reason(pod, node)})"
            yield _description(cluster, pod, node, oracle_says, we_say, with_old_pod)


def _description(
    cluster: GeneratedCluster,
    pod: str,
    node: str,
    oracle_says: str,
    we_say: str,
    with_old_pod: bool,
) -> str:
    found_pod = next(each for each in cluster.pods if key_of(each) == pod)
    found_node = next(each for each in cluster.nodes if each["metadata"]["name"] == node)
    while_what = "while it still runs" if with_old_pod else "once it is gone"
    return "\n".join(
        (
            f"seed {cluster.seed} ({cluster.focus}): a replacement of pod {pod} on {node}, "
            f"{while_what}",
            f"  the oracle says: {oracle_says}",
            f"  we say:          {we_say}",
            f"  pod:  labels {json.dumps(found_pod['metadata']['labels'])}",
            f"        spec {json.dumps(found_pod['spec'])}",
            f"        volumes' objects {json.dumps(_objects_behind(cluster, found_pod))}",
            f"  node: labels {json.dumps(found_node['metadata']['labels'])}",
            f"        spec {json.dumps(found_node['spec'])}",
            f"        status {json.dumps(found_node['status'])}",
            f"  again: {REPRODUCE.format(cluster.seed)}",
        )
    )


def _objects_behind(cluster: GeneratedCluster, pod: JsonObject) -> list[JsonObject]:
    """The claims that a pod names, and their volumes."""
    claims = {
        volume["persistentVolumeClaim"]["claimName"]
        for volume in pod["spec"].get("volumes", ())
        if "persistentVolumeClaim" in volume
    }
    found = [each for each in cluster.others if each["metadata"]["name"] in claims]
    volumes = {claim["spec"].get("volumeName") for claim in found}
    return found + [each for each in cluster.others if each["metadata"]["name"] in volumes]
