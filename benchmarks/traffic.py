"""Drain a real node under load, and move a pod: how many requests fail, beside `kubectl drain`.

One application at a time gets 300 requests a second from another node. `--runs 10` repeats
everything ten times and adds the requests up.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.figures import Figure, report
from rescheduler.migration.memory.move_record_crd import ALL_CRDS
from testcluster import TestCluster
from testcluster.client import JsonObject
from testcluster.realnodes.requirements import missing_requirement
from testcluster.realnodes.web_apps import Traffic, WebApp, traffic_during

RATE = 300.0
LONGEST_SECONDS = 300.0
NAMESPACE = "shop"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
RESCHEDULER = Path(sys.executable).with_name("rescheduler")

Action = Callable[[TestCluster], object]


@dataclass(frozen=True)
class Row:
    """An application, and what is done to its pods."""

    title: str
    app: WebApp
    action: Action
    is_ours: bool = True


@dataclass
class Total:
    """What came of all runs of a row."""

    sent: int = 0
    failed: int = 0
    fewest_ready: int | None = None

    def add(self, traffic: Traffic) -> None:
        """Add one more run."""
        self.sent += traffic.load.sent
        self.failed += traffic.load.failed
        fewest = traffic.fewest_ready
        self.fewest_ready = fewest if self.fewest_ready is None else min(fewest, self.fewest_ready)


def drain(cluster: TestCluster) -> None:
    """Empty the first node."""
    rescheduler(cluster, "drain", cluster.nodes.names[0], "--here")


def move(cluster: TestCluster) -> None:
    """Move one pod of the first node to the last."""
    first, *_, last = cluster.nodes.names
    pods = cluster.client.get(f"/api/v1/namespaces/{NAMESPACE}/pods")["items"]
    found: JsonObject = next(pod for pod in pods if pod["spec"]["nodeName"] == first)
    rescheduler(cluster, "move", f"{NAMESPACE}/{found['metadata']['name']}", "--to", last, "--here")


def kubectl_drain(cluster: TestCluster) -> None:
    """Empty the first node as everybody does."""
    cluster.kubectl("drain", cluster.nodes.names[0], "--ignore-daemonsets")


ROWS = (
    Row("drain, preStop 3 s", WebApp("web", pre_stop_seconds=3), drain),
    Row("drain, graceful", WebApp("web"), drain),
    Row("drain, exits at SIGTERM", WebApp("web", abrupt=True), drain),
    Row("drain, all 4 on that node", WebApp("web", abrupt=True, on_one_node=True), drain),
    Row("drain, 1 replica", WebApp("web", 1, on_one_node=True, abrupt=True), drain),
    Row("drain, keep-alive", WebApp("web", keep_alive=True), drain),
    Row("drain, keep-alive, exits", WebApp("web", keep_alive=True, abrupt=True), drain),
    Row("drain, 2 ports", WebApp("web", ports=2, abrupt=True), drain),
    Row("drain, headless", WebApp("web", headless=True, abrupt=True), drain),
    Row("move, exits at SIGTERM", WebApp("web", abrupt=True), move),
    Row("kubectl drain, graceful", WebApp("web", has_budget=False), kubectl_drain, False),
    Row(
        "kubectl drain, all 4 on that node",
        WebApp("web", on_one_node=True, has_budget=False),
        kubectl_drain,
        False,
    ),
)


def rescheduler(cluster: TestCluster, *arguments: str) -> None:
    """Run our command on the cluster; raises if it fails."""
    subprocess.run(
        [RESCHEDULER, *arguments],
        env={**os.environ, "KUBECONFIG": str(cluster.kubeconfig)},
        stdout=subprocess.DEVNULL,
        check=True,
        timeout=LONGEST_SECONDS,
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.traffic", description=__doc__)
    parser.add_argument("--runs", type=int, default=1, help="how often everything is done")
    runs: int = parser.parse_args().runs
    if reason := missing_requirement():
        print(f"    left out: {reason}", file=sys.stderr)
        report([])
        return
    totals = [Total() for _ in ROWS]
    with TestCluster(real_nodes=3) as cluster:
        for crd in ALL_CRDS:
            cluster.client.create(CRDS, crd)
        cluster.kubectl("wait", "--for=condition=Established", "crd/migrations.rescheduler.dev")
        for run in range(1, runs + 1):
            for row, total in zip(ROWS, totals, strict=True):
                (traffic,) = traffic_during(
                    partial(row.action, cluster), cluster, NAMESPACE, [row.app], RATE
                )
                total.add(traffic)
                say(f"{run}/{runs}  {row.title}", traffic)
    report(
        [figure for row, total in zip(ROWS, totals, strict=True) for figure in figures(row, total)]
    )


def say(title: str, traffic: Traffic) -> None:
    """One line for people, as soon as it is known."""
    load = traffic.load
    print(
        f"    {title:<40} {load.failed:>6,} of {load.sent:>7,} requests failed, "
        f"least ready {traffic.fewest_ready} of {traffic.app.replicas}",
        file=sys.stderr,
        flush=True,
    )
    for kind, count in sorted(load.kinds.items()):
        print(f"        {count:>6,}  {kind}", file=sys.stderr, flush=True)


def figures(row: Row, total: Total) -> list[Figure]:
    """What was measured for a row."""
    limit = 0.0 if row.is_ours else None
    missing = row.app.replicas - (total.fewest_ready or 0)
    return [
        Figure(f"{row.title}: failed of {total.sent:,}", total.failed, "requests", limit),
        Figure(f"{row.title}: too few Ready", max(0, missing), "pods", limit),
    ]


if __name__ == "__main__":
    main()
