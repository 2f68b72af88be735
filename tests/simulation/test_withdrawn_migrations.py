"""A planned Migration that does not start in time is withdrawn, and that is no secret."""

import asyncio
from datetime import timedelta

from rescheduler.controller.controller_observer import Observers
from rescheduler.controller.program import Program
from rescheduler.controller.stale_migrations import MAX_PENDING_SECONDS
from rescheduler.migration.migration_object import API_VERSION
from rescheduler.monitoring.monitoring import Monitoring
from rescheduler.settings import Policy, Seconds
from rescheduler.simulation.cluster.cluster import SimulatedCluster
from testcluster.builders import node, statefulset
from tests.monitoring.scraping import Scrape, scrape_of
from tests.simulation.simulated_clusters import START, in_simulated_cluster

POLICY = Policy(enabled_strategies=("LoadBalancing",), rescheduling_interval_seconds=Seconds(60))
LATER = (START + timedelta(hours=2)).isoformat()


def create_waiting(cluster: SimulatedCluster, pod: str, failures: int) -> None:
    """A planned Migration that may not start for hours."""
    uid = cluster.list("Pod")[f"shop/{pod}"]["metadata"]["uid"]
    cluster.create(
        {
            "apiVersion": API_VERSION,
            "kind": "Migration",
            "metadata": {"name": f"move-{pod}", "namespace": "shop"},
            "spec": {
                "pod": {"name": pod, "uid": uid},
                "targetNode": "b",
                "mode": "Evict",
                "strategy": "LoadBalancing",
            },
        }
    )
    status = {"failures": failures, "retryAt": LATER, "message": "the budget is used up"}
    cluster.patch("Migration", f"shop/move-{pod}", {"status": status}, status=True)


def test_a_migration_that_does_not_start_in_time_is_counted_and_has_an_event() -> None:
    async def run(cluster: SimulatedCluster) -> tuple[dict[str, str], Scrape, dict[str, str]]:
        # Only now, so that no pod runs there.
        cluster.create(node("b", cpu="8"))
        create_waiting(cluster, "db-0", failures=0)
        create_waiting(cluster, "db-1", failures=1)
        monitoring = Monitoring(POLICY)
        observer = Observers(monitoring.controller)
        program = Program(cluster.server, POLICY, clock=cluster.clock, observer=observer)
        running = asyncio.create_task(program.run())
        await asyncio.sleep(MAX_PENDING_SECONDS + 120)
        program.stop()
        await running
        phases = {
            name: migration["status"]["phase"]
            for name, migration in cluster.list("Migration").items()
        }
        events = {
            event["involvedObject"]["name"]: event["message"]
            for event in cluster.list("Event").values()
            if event["reason"] in ("MigrationFailed", "MigrationCancelled")
        }
        return phases, scrape_of(monitoring.written(monitoring.gauges()).decode()), events

    objects = [node("a", cpu="8"), statefulset("shop/db", 2, "1")]
    phases, found, events = in_simulated_cluster(objects, run)
    assert phases == {"shop/move-db-1": "Failed"}
    for outcome in ("Withdrawn", "Failed"):
        assert found.value("migrations_finished_total", mode="Evict", outcome=outcome) == 1
    withdrawn = "withdrawn, because it did not start within 5 min: the budget is used up."
    given_up = "given up, because it did not start again within 5 min: the budget is used up."
    for name, text in (("db-0", withdrawn), ("db-1", given_up)):
        assert events[name].endswith(text)
        assert events[f"move-{name}"] == events[name]
