"""Two controllers at once, without any election: still one copy of everything, and no gap."""

from rescheduler.settings import Limit, MigrationOptions, Seconds
from testcluster.applying import apply
from testcluster.builders import budget, deployment
from tests.migration.ready_pod_watch import ReadyPodWatch
from tests.migration.support import Corner, controller_on, is_ready, node_of

APPS, REPLICAS = 10, 3
OPTIONS = MigrationOptions(
    max_per_node=50, max_per_workload=Limit("3"), retry_delay_seconds=Seconds(0.05), max_retries=10
)


async def test_two_controllers_create_no_second_copy_and_leave_no_gap(corner: Corner) -> None:
    corner.add_nodes("a", cpu="16")
    apps = [f"app-{number}" for number in range(APPS)]
    for app in apps:
        key = f"{corner.namespace}/{app}"
        body = deployment(key, REPLICAS, "100m", template=corner.here())
        apply(corner.cluster, body, budget(key, min_available=REPLICAS))
    count = APPS * REPLICAS
    await corner.until(lambda: sum(map(is_ready, corner.pods())) == count)
    (target,) = corner.add_nodes("b", cpu="16")
    with ReadyPodWatch(corner.cluster, corner.namespace) as watcher:
        async with (
            controller_on(corner.cluster, OPTIONS),
            controller_on(corner.cluster, OPTIONS),
        ):
            names = [corner.migrate(pod, target) for pod in corner.pods()]
            statuses = await corner.finished(*names)
            await corner.until(lambda: not corner.leftovers(), "nothing is left behind")
        await corner.until(lambda: len(corner.pods()) == count, "the old pods are deleted")
    assert {status.get("outcome") for status in statuses} == {"Landed"}, statuses
    assert {node_of(pod) for pod in corner.pods()} == {target}
    assert {app: watcher.fewest[app] for app in apps} == dict.fromkeys(apps, REPLICAS)
    # All three pods of an app may be moved at once, each with one new pod.
    assert max(watcher.most.values()) <= 2 * REPLICAS
    assert watcher.problems == []
