"""Ask the oracle: kube-scheduler's own filters, run over clusters.

It knows no clock and no luck: the same cluster always gets the same verdicts.
"""

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path

from testcluster.build import ensure_binary
from testcluster.client import JsonObject
from tests.planning.feasibility.generated_clusters import GeneratedCluster, is_placed

CLUSTERS_PER_RUN = 12
# Runs are short: collecting garbage, and a second thread to do it, cost more than they give.
_ENVIRONMENT = {"GOGC": "400", "GOMAXPROCS": "1"}


@dataclass(frozen=True)
class Verdict:
    """Where a pod's replacement could run, and which plugin refused the other nodes."""

    fits: frozenset[str]
    refused_by: dict[str, str]


def ask(clusters: Sequence[GeneratedCluster], with_old_pod: bool) -> list[dict[str, Verdict]]:
    """For each cluster the oracle's verdict on each placed pod, by `namespace/name`."""
    arguments = ["oracle", "--with-old-pod"] if with_old_pod else ["oracle"]
    return [
        verdicts
        for start in range(0, len(clusters), CLUSTERS_PER_RUN)
        for verdicts in _run(arguments, clusters[start : start + CLUSTERS_PER_RUN])
    ]


def _run(
    arguments: list[str], clusters: Sequence[GeneratedCluster]
) -> Iterator[dict[str, Verdict]]:
    answer = subprocess.run(
        [_binary(), *arguments],
        input="\n".join(json.dumps({"items": _known_to_the_scheduler(each)}) for each in clusters),
        env={**os.environ, **_ENVIRONMENT},
        capture_output=True,
        text=True,
        check=False,
    )
    # It says nothing on standard error unless it failed or a plugin stumbled over an object.
    assert not answer.stderr, f"the oracle on seeds {_seeds(clusters)}: {answer.stderr[-3000:]}"
    assert answer.returncode == 0, f"the oracle failed on seeds {_seeds(clusters)}"
    lines = (line for line in answer.stdout.splitlines() if line)
    for cluster in clusters:
        yield dict(_verdict(line) for line in islice(lines, len(_placed(cluster))))


def _seeds(clusters: Sequence[GeneratedCluster]) -> list[int]:
    return [cluster.seed for cluster in clusters]


@cache
def _binary() -> Path:
    return ensure_binary()


def _known_to_the_scheduler(cluster: GeneratedCluster) -> list[JsonObject]:
    """The scheduler's own cache holds no pods without a node, nor those of nodes it lost."""
    return [*cluster.nodes, *cluster.others, *_placed(cluster)]


def _placed(cluster: GeneratedCluster) -> list[JsonObject]:
    names = {node["metadata"]["name"] for node in cluster.nodes}
    return [pod for pod in cluster.pods if is_placed(pod, names)]


def _verdict(line: str) -> tuple[str, Verdict]:
    found = json.loads(line)
    refused_by = {node: _plugin(why) for node, why in found["why"].items()}
    return found["pod"], Verdict(frozenset(found["fits"]), refused_by)


def _plugin(why: str) -> str:
    """The plugin's name; only NodeAffinity narrows the nodes before they are filtered."""
    return "NodeAffinity" if why == "prefilter" else why.removesuffix("/prefilter")
