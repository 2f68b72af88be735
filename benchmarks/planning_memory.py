"""The memory that the whole program takes to read 150,000 pods and plan for them.

They are read through the real client from a server in another process, for generating them takes
memory of its own.
"""

import asyncio
import tempfile
from pathlib import Path

from benchmarks.figures import Figure, peak_megabytes, report
from benchmarks.reading import NODES, PODS, kubeconfig_for, replayed_cluster
from rescheduler.cli.commands.plan import share_used
from rescheduler.kube.auth.loader import load_credentials
from rescheduler.kube.client import Client
from rescheduler.kube.live_store import LiveStore
from rescheduler.model.tables.cluster_tables import ClusterTables
from rescheduler.planning.context import DEFAULT_CONTEXT
from rescheduler.planning.planner import make_plan
from rescheduler.settings import Policy, Seconds, StrategyName


def main() -> None:
    tables = ClusterTables()
    with (
        replayed_cluster(NODES, PODS, "--with-rules") as server,
        tempfile.TemporaryDirectory() as folder,
    ):
        kubeconfig = Path(folder) / "kubeconfig"
        kubeconfig.write_text(kubeconfig_for(server))
        asyncio.run(read(tables, kubeconfig))
    snapshot = tables.snapshot()
    figures = [Figure("planning: memory before, cluster read", peak_megabytes(), "MB")]
    for moves in (10, 1_000):
        make_plan(snapshot, Policy(max_reschedule_pods=moves))
        name = f"planning {moves:,} moves, {PODS:,} pods: peak memory"
        figures.append(Figure(name, peak_megabytes(), "MB", 250))
    policy = Policy(
        enabled_strategies=(StrategyName.COST_OPTIMIZATION,),
        max_reschedule_pods=500,
        planning_timeout_seconds=Seconds(3),
    )
    used = share_used(policy.planning_timeout_seconds)
    make_plan(snapshot, policy, DEFAULT_CONTEXT, {}, used)
    name = f"CostOptimization, 500 moves, {PODS:,} pods"
    figures.append(Figure(f"{name}: peak memory", peak_megabytes(), "MB", 250))
    figures.append(Figure(f"{name}: share of planningTimeout", used(), "", 1.1))
    report(figures)


async def read(tables: ClusterTables, kubeconfig: Path) -> None:
    async with Client(load_credentials(kubeconfig)) as client:
        await LiveStore(client, tables).list_once()


if __name__ == "__main__":
    main()
