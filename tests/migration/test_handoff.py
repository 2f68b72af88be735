"""A pod of a workload is moved by handoff, on a real control plane."""

from testcluster.applying import apply
from testcluster.builders import budget
from tests.migration.support import Corner, controller_on, node_of, other_node


async def test_a_pod_that_no_eviction_can_move_is_moved_without_a_gap(corner: Corner) -> None:
    corner.add_nodes("a", "b", "c")
    pods = corner.deploy("web", 3)
    apply(corner.cluster, budget(f"{corner.namespace}/web", min_available=3))
    target = other_node(corner, pods[0])
    async with controller_on(corner.cluster):
        name = corner.migrate(pods[0], target)
        (status,) = await corner.finished(name)
    assert (status["phase"], status["outcome"]) == ("Completed", "Landed"), status
    assert corner.pod(pods[0]["metadata"]["name"]) is None
    new = corner.pod(status["newPod"])
    assert new is not None
    assert node_of(new) == target
    assert new["metadata"]["ownerReferences"][0]["kind"] == "ReplicaSet"
    assert len(corner.pods("web")) == 3
    assert corner.leftovers() == []
