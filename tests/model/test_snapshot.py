from typing import Any

import msgspec
import numpy as np
import pytest

from rescheduler.model.kinds import KIND_BY_NAME
from rescheduler.model.snapshot import Snapshot
from rescheduler.model.tables.cluster_tables import ClusterTables
from testcluster.builders import node, pod
from testcluster.snapshots import snapshot_of


def snapshot_of_all(*objects: dict[str, Any]) -> Snapshot:
    return snapshot_of(objects)


def test_requests_of_running_pods_are_summed_per_node() -> None:
    snapshot = snapshot_of_all(
        node("a", cpu="4", memory="8Gi"),
        node("b", cpu="4", memory="8Gi"),
        pod("x", on="a", cpu="500m", memory="1Gi"),
        pod("y", on="a", cpu="250m"),
        pod("done", on="a", cpu="2", phase="Succeeded"),
        pod("waiting", cpu="3"),
    )
    cpu, memory, pods = (snapshot.column(name) for name in ("cpu", "memory", "pods"))
    assert snapshot.requested[:, cpu].tolist() == [750, 0]
    assert snapshot.requested[:, memory].tolist() == [2**30, 0]
    assert snapshot.requested[:, pods].tolist() == [2, 0]


def test_pods_that_a_kubelet_evicted_hold_nothing_and_pods_it_is_silent_about_all_they_had() -> (
    None
):
    evicted = pod("evicted", on="a", cpu="1", phase="Failed")
    rejected = pod("rejected", on="a", cpu="1", phase="Failed")
    evicted["status"]["reason"], rejected["status"]["reason"] = "Evicted", "OutOfcpu"
    stuck = pod("stuck", on="a", cpu="500m", ready=False)
    stuck["metadata"]["deletionTimestamp"] = "2025-01-01T00:00:00Z"
    lost = pod("lost", on="a", cpu="250m", phase="Unknown")
    lost["status"]["reason"] = "NodeLost"
    snapshot = snapshot_of_all(node("a", ready=False), evicted, rejected, stuck, lost)
    assert snapshot.requested[0, snapshot.column("cpu")] == 750
    assert snapshot.requested[0, snapshot.column("pods")] == 2


def test_extended_resources_get_a_column_each() -> None:
    gpus = {"requests": {"nvidia.com/gpu": "2"}}
    snapshot = snapshot_of_all(
        node("a", resources={"nvidia.com/gpu": "4"}),
        pod("x", on="a", containers=[{"name": "c", "image": "i", "resources": gpus}]),
    )
    gpu = snapshot.column("nvidia.com/gpu")
    assert snapshot.nodes.allocatable[0, gpu] == 4
    assert snapshot.requested[0, gpu] == 2


def containers(*requests: str, restart: str | None = None) -> list[dict[str, Any]]:
    return [
        {"name": f"c{index}", "image": "i", "resources": {"requests": {"cpu": cpu}}}
        | ({"restartPolicy": restart} if restart else {})
        for index, cpu in enumerate(requests)
    ]


@pytest.mark.parametrize(
    ("spec", "millicores"),
    [
        ({"containers": containers("100m", "200m")}, 300),
        ({"containers": containers("100m"), "initContainers": containers("900m")}, 900),
        # A sidecar runs on beside the main containers and beside later init containers.
        (
            {"containers": containers("1"), "initContainers": containers("1", restart="Always")},
            2000,
        ),
        (
            {
                "containers": containers("1"),
                "initContainers": containers("1", restart="Always") + containers("3"),
            },
            4000,
        ),
        ({"containers": containers("100m"), "overhead": {"cpu": "50m"}}, 150),
        ({"containers": containers("1"), "resources": {"requests": {"cpu": "3"}}}, 3000),
        # Sums are exact before they are rounded: twice a tenth of a millicore is one, not two.
        ({"containers": containers("100u", "100u")}, 1),
    ],
)
def test_a_pod_asks_for_what_its_containers_need_together(
    spec: dict[str, Any], millicores: int
) -> None:
    snapshot = snapshot_of_all(node("a"), pod("x", on="a", **spec))
    assert snapshot.asked[0, snapshot.column("cpu")] == millicores


def resized(spec_cpu: str, has: str, allocated: str, infeasible: bool = False) -> dict[str, Any]:
    described = pod("x", on="a", cpu=spec_cpu)
    status = described["status"]["containerStatuses"][0]
    status |= {"resources": {"requests": {"cpu": has}}, "allocatedResources": {"cpu": allocated}}
    if infeasible:
        described["status"]["conditions"].append(
            {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
        )
    return described


@pytest.mark.parametrize(
    ("described", "held"),
    [
        (resized("2", "1", "1"), 2000),
        (resized("1", "2", "1"), 2000),
        (resized("1", "1", "3"), 3000),
        (resized("5", "1", "2", infeasible=True), 2000),
    ],
)
def test_a_resize_in_place_holds_the_most_it_may_come_to(
    described: dict[str, Any], held: int
) -> None:
    snapshot = snapshot_of_all(node("a"), described)
    assert snapshot.held[0, snapshot.column("cpu")] == held
    assert snapshot.requested[0, snapshot.column("cpu")] == held


def test_a_snapshot_cannot_be_changed() -> None:
    tables = ClusterTables()
    kind = KIND_BY_NAME["Node"]
    tables.of(kind).put(msgspec.convert(node("a"), kind.type))
    snapshot = tables.snapshot()
    with pytest.raises(ValueError, match="read-only"):
        snapshot.nodes.allocatable[0, 0] = 1
    tables.of(kind).put(msgspec.convert(node("b"), kind.type))
    assert snapshot.nodes.names == ("a",)


def test_equal_clusters_are_equal_and_different_ones_are_not() -> None:
    objects = [node("a"), node("b"), pod("x", on="a", cpu="1"), pod("y", on="b")]
    assert snapshot_of_all(*objects) == snapshot_of_all(*reversed(objects))
    assert snapshot_of_all(*objects) != snapshot_of_all(*objects[:-1])
    assert snapshot_of_all(*objects) != snapshot_of_all(*objects[:-1], pod("y", on="a"))


def test_a_cluster_of_nothing_is_a_snapshot_too() -> None:
    snapshot = ClusterTables().snapshot()
    assert len(snapshot.nodes) == len(snapshot.pods) == 0
    assert snapshot.requested.shape == (0, 4)
    assert snapshot.asked.dtype == np.int64


def test_a_pod_is_found_by_its_key_and_by_nothing_else() -> None:
    pods = snapshot_of_all(node("a"), pod("x/b", on="a"), pod("x/a"), pod("w/c")).pods
    assert [pods.find(key) for key in ("w/c", "x/a", "x/b")] == [0, 1, 2]
    assert [pods.find(key) for key in ("", "a", "w", "x/aa", "z/z")] == [None] * 5
