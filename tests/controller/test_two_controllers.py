"""Two controllers at once, without any election: still one copy of everything, and no gap."""

from rescheduler.settings import Limit, MigrationOptions, Seconds
from testcluster.applying import apply
from testcluster.builders import budget, deployment
from tests.migration.ready_pod_watch import ReadyPodWatch
from tests.migration.support import Sandbox, controller_on, is_ready, node_of

APPS, REPLICAS = 10, 3
OPTIONS = MigrationOptions(
    max_per_node=50, max_per_workload=Limit("3"), retry_delay_seconds=Seconds(0.05), max_retries=10
)


async def test_two_controllers_create_no_second_copy_and_leave_no_gap(sandbox: Sandbox) -> None:
    sandbox.add_nodes("a", cpu="16")
    apps = [f"app-{number}" for number in range(APPS)]
    for app in apps:
        key = f"{sandbox.namespace}/{app}"
        body = deployment(key, REPLICAS, "100m", template=sandbox.here())
        apply(sandbox.cluster, body, budget(key, min_available=REPLICAS))
    count = APPS * REPLICAS
    await sandbox.until(lambda: sum(map(is_ready, sandbox.pods())) == count)
    (target,) = sandbox.add_nodes("b", cpu="16")
    with ReadyPodWatch(sandbox.cluster, sandbox.namespace) as watcher:
        async with (
            controller_on(sandbox.cluster, OPTIONS),
            controller_on(sandbox.cluster, OPTIONS),
        ):
            names = [sandbox.migrate(pod, target) for pod in sandbox.pods()]
            statuses = await sandbox.finished(*names)
            await sandbox.until(lambda: not sandbox.leftovers(), "nothing is left behind")
        await sandbox.until(lambda: len(sandbox.pods()) == count, "the old pods are deleted")
    assert {status.get("outcome") for status in statuses} == {"Landed"}, statuses
    assert {node_of(pod) for pod in sandbox.pods()} == {target}
    assert {app: watcher.fewest[app] for app in apps} == dict.fromkeys(apps, REPLICAS)
    # All three pods of an app may be moved at once, each with one new pod.
    assert max(watcher.most.values()) <= 2 * REPLICAS
    assert watcher.problems == []
