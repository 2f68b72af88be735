"""Judge 10,000 pending pods of a tenant beside 5,000 nodes and 150,000 pods, before every plan."""

from collections.abc import Iterator

from benchmarks.clusters import with_pod_rules
from benchmarks.figures import Figure, median_times, report
from rescheduler.planning.safety_checks import failed_safety_check
from rescheduler.settings import Policy
from testcluster.builders import pod
from testcluster.client import JsonObject
from testcluster.large import generate_large_cluster
from testcluster.snapshots import snapshot_of

NODES, PODS = 5_000, 150_000
NAMESPACES, PENDING = 4, 2_500
REPEAT = 5


def main() -> None:
    report(
        [
            *figures("that no node could take, all different", unplaceable(), at_most=1),
            *figures("that fit on an empty node, all equal", placeable(), at_most=0.5),
        ]
    )


def figures(name: str, tenants: Iterator[JsonObject], at_most: float) -> list[Figure]:
    """How long it takes to find that pending pods stop nothing, or which ones do."""
    cluster = generate_large_cluster(NODES, PODS, templates=NODES)
    snapshot = snapshot_of([*with_pod_rules(cluster), *tenants])
    wall, _ = median_times(lambda: failed_safety_check(snapshot, Policy()), REPEAT)
    pending = NAMESPACES * PENDING
    return [Figure(f"judge {pending:,} pending pods {name}", wall, "s", at_most)]


def unplaceable() -> Iterator[JsonObject]:
    """In enough namespaces to reach the limit together, if a node could take them."""
    for namespace in range(NAMESPACES):
        for number in range(PENDING):
            wanted = {"tenant.example.com/wanted": str(number)}
            yield pod(f"tenant-{namespace}/p{number}", labels=wanted, nodeSelector=wanted)


def placeable() -> Iterator[JsonObject]:
    for namespace in range(NAMESPACES):
        for number in range(PENDING):
            yield pod(f"tenant-{namespace}/p{number}", cpu="8")


if __name__ == "__main__":
    main()
