"""StatefulSets, DaemonSets, Jobs, nodes, claims and the scheduler's queue in memory."""

import asyncio

import pytest

from rescheduler.labels import RUNS_FOR_SECONDS, STARTS_IN_SECONDS
from rescheduler.simulation.cluster.cluster import SimulatedCluster
from rescheduler.simulation.cluster.json_objects import (
    Json,
    condition_of,
    is_active,
    is_deleting,
    phase_of,
)
from rescheduler.simulation.cluster.timings import RandomSeconds, Timings
from testcluster.builders import daemonset, deployment, job, node, pod, statefulset
from tests.simulation.simulated_clusters import (
    ReadyCountRange,
    in_simulated_cluster,
    names_of,
    pods_of,
    ready_of,
    set_node_ready,
)

# ------------------------------------------------------------ StatefulSets


def test_a_statefulset_makes_its_pods_one_after_the_other() -> None:
    async def steps(cluster: SimulatedCluster) -> None:
        assert names_of(cluster, "db") == {"db-0"}
        await asyncio.sleep(5)
        assert names_of(cluster, "db") == {"db-0", "db-1"}
        await asyncio.sleep(30)
        assert ready_of(cluster, "db") == 3

    in_simulated_cluster(
        [node("a"), statefulset("shop/db", 3, podManagementPolicy="OrderedReady")], steps, settle=3
    )


def test_a_statefulset_shrinks_from_the_end() -> None:
    async def steps(cluster: SimulatedCluster) -> None:
        cluster.patch("StatefulSet", "shop/db", {"spec": {"replicas": 1}})
        await asyncio.sleep(30)
        assert names_of(cluster, "db") == {"db-0"}

    in_simulated_cluster([node("a"), statefulset("shop/db", 3)], steps)


def test_a_statefulset_rolls_out_from_the_end_with_one_pod_missing() -> None:
    async def steps(cluster: SimulatedCluster) -> None:
        seen = ReadyCountRange(cluster, "db")
        order: list[str] = []

        def note(old: Json | None, new: Json | None) -> None:
            if old is not None and new is not None and is_deleting(new) != is_deleting(old):
                order.append(new["metadata"]["name"])

        cluster.subscribe("Pod", note)
        template = {"metadata": {"annotations": {"version": "2"}}}
        cluster.patch("StatefulSet", "shop/db", {"spec": {"template": template}})
        await asyncio.sleep(90)
        assert order == ["db-2", "db-1", "db-0"]
        assert seen.lowest == 2
        notes = [member["metadata"]["annotations"] for member in pods_of(cluster, "db")]
        assert notes == [{"version": "2"}] * 3

    in_simulated_cluster([node("a"), statefulset("shop/db", 3)], steps)


def test_a_statefulsets_pod_comes_back_under_its_name_with_its_claim() -> None:
    async def steps(cluster: SimulatedCluster) -> None:
        claim = cluster.list("PersistentVolumeClaim")["shop/data-db-0"]
        assert claim["status"]["phase"] == "Bound"
        uid = cluster.list("Pod")["shop/db-0"]["metadata"]["uid"]
        cluster.delete("Pod", "shop/db-0")
        await asyncio.sleep(30)
        back = cluster.list("Pod")["shop/db-0"]
        assert back["metadata"]["uid"] != uid
        assert back["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"] == "data-db-0"
        assert list(cluster.list("PersistentVolumeClaim")) == ["shop/data-db-0"]

    made = statefulset("shop/db", 1)
    made["spec"]["volumeClaimTemplates"] = [
        {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    ]
    in_simulated_cluster([node("a"), made], steps)


# ------------------------------------------------------------ DaemonSets and Jobs


def test_a_daemonset_has_a_pod_on_every_node_that_takes_one() -> None:
    async def steps(cluster: SimulatedCluster) -> None:
        def nodes() -> set[str]:
            return {member["spec"]["nodeName"] for member in pods_of(cluster, "agent")}

        assert nodes() == {"a", "b"}
        cluster.create(node("c"))
        cluster.delete("Node", "a")
        await asyncio.sleep(90)
        assert nodes() == {"b", "c"}

    tainted = node("tainted", taints=[{"key": "x", "effect": "NoSchedule"}])
    in_simulated_cluster([node("a"), node("b"), tainted, daemonset("shop/agent")], steps)


def test_a_job_runs_as_often_as_it_says_and_no_more_at_once() -> None:
    async def steps(cluster: SimulatedCluster) -> None:
        most = [0]

        def look(old: Json | None, new: Json | None) -> None:
            most.append(sum(map(is_active, cluster.list("Pod").values())))

        cluster.subscribe("Pod", look)
        cluster.create(made)
        await asyncio.sleep(600)
        phases = [phase_of(member) for member in cluster.list("Pod").values()]
        assert phases == ["Succeeded"] * 5
        assert max(most) == 2
        done = cluster.list("Job")["shop/work"]
        assert condition_of(done, "Complete") is not None

    made = job("shop/work", completions=5, parallelism=2)
    made["spec"]["template"]["metadata"]["annotations"] = {RUNS_FOR_SECONDS: "60"}
    in_simulated_cluster([node("a")], steps, settle=1)


# ------------------------------------------------------------ nodes


def test_pods_of_a_node_that_fails_no_longer_serve_and_are_replaced_after_their_patience() -> None:
    async def steps(cluster: SimulatedCluster) -> None:
        cluster.create(node("b"))
        set_node_ready(cluster, "a", "Unknown")
        await asyncio.sleep(10)
        assert ready_of(cluster, "web") == 0
        taints = {taint["key"] for taint in cluster.list("Node")["a"]["spec"]["taints"]}
        assert taints == {"node.kubernetes.io/unreachable"}
        assert len(names_of(cluster, "web")) == 2
        await asyncio.sleep(320)
        assert {member["spec"]["nodeName"] for member in pods_of(cluster, "web")} == {"b"}
        assert sum(map(is_deleting, cluster.list("Pod").values())) == 2
        set_node_ready(cluster, "a", "True")
        await asyncio.sleep(30)
        assert len(cluster.list("Pod")) == 2
        assert not cluster.list("Node")["a"]["spec"].get("taints")

    in_simulated_cluster([node("a"), deployment("shop/web", 2)], steps)


def test_a_node_that_comes_back_in_time_keeps_its_pods() -> None:
    async def steps(cluster: SimulatedCluster) -> None:
        before = names_of(cluster, "web")
        set_node_ready(cluster, "a", "False")
        await asyncio.sleep(100)
        set_node_ready(cluster, "a", "True")
        await asyncio.sleep(100)
        assert names_of(cluster, "web") == before
        assert ready_of(cluster, "web") == 2
        await asyncio.sleep(400)
        assert names_of(cluster, "web") == before

    in_simulated_cluster([node("a"), deployment("shop/web", 2)], steps)


def test_pods_of_a_node_that_is_removed_are_cleared_away() -> None:
    async def steps(cluster: SimulatedCluster) -> None:
        cluster.create(node("b"))
        cluster.delete("Node", "a")
        await asyncio.sleep(120)
        assert {member["spec"]["nodeName"] for member in cluster.list("Pod").values()} == {"b"}
        assert ready_of(cluster, "web") == 2

    in_simulated_cluster([node("a"), deployment("shop/web", 2)], steps)


def test_a_cordoned_node_gets_the_taint_that_says_so() -> None:
    async def steps(cluster: SimulatedCluster) -> None:
        cluster.patch("Node", "a", {"spec": {"unschedulable": True}})
        await asyncio.sleep(1)
        (taint,) = cluster.list("Node")["a"]["spec"]["taints"]
        assert taint["key"] == "node.kubernetes.io/unschedulable"
        cluster.patch("Node", "a", {"spec": {"unschedulable": None}})
        await asyncio.sleep(1)
        assert cluster.list("Node")["a"]["spec"]["taints"] == []

    in_simulated_cluster([node("a")], steps)


# ------------------------------------------------------------ times and the scheduler's queue


def test_a_pod_takes_its_time_to_start_and_to_stop() -> None:
    async def steps(cluster: SimulatedCluster) -> None:
        seen: list[tuple[float, str]] = []

        def note(old: Json | None, new: Json | None) -> None:
            what = "gone" if new is None else "deleted" if is_deleting(new) else phase_of(new)
            seen.append((round(cluster.clock.seconds(), 1), what))

        cluster.subscribe("Pod", note)
        cluster.create(pod("shop/one"))
        await asyncio.sleep(10)
        cluster.delete("Pod", "shop/one")
        await asyncio.sleep(10)
        assert [what for _, what in seen] == ["Pending", "Pending", "Running", "deleted", "gone"]
        made, bound, ready, deleted, gone = [at for at, _ in seen]
        taken = (bound - made, ready - bound, gone - deleted)
        assert taken == pytest.approx((0.1, 5.0, 2.0))

    in_simulated_cluster([node("a")], steps, settle=1, timings=without_reaction_time())


def without_reaction_time() -> Timings:
    return Timings(
        ready=RandomSeconds(5.0),
        stop=RandomSeconds(2.0),
        scheduling=RandomSeconds(0.1),
        reaction=0.0,
    )


def test_a_pods_own_annotations_say_how_long_it_starts() -> None:
    async def steps(cluster: SimulatedCluster) -> None:
        assert ready_of(cluster, "never") == 0
        assert ready_of(cluster, "slow") == 0
        await asyncio.sleep(50)
        assert ready_of(cluster, "never") == 0
        assert ready_of(cluster, "slow") == 1

    def starting(name: str, seconds: str) -> Json:
        made = deployment(f"shop/{name}", 1)
        made["spec"]["template"]["metadata"]["annotations"] = {STARTS_IN_SECONDS: seconds}
        return made

    in_simulated_cluster([node("a"), starting("never", "never"), starting("slow", "90")], steps)


def test_a_pod_that_does_not_fit_says_why_and_is_tried_again_when_there_is_room() -> None:
    async def steps(cluster: SimulatedCluster) -> None:
        waiting = cluster.list("Pod")["shop/big"]
        said = condition_of(waiting, "PodScheduled")
        assert said is not None
        assert (said["status"], said["reason"]) == ("False", "Unschedulable")
        assert said["message"].startswith("0/1 nodes are available: 1 Insufficient cpu")
        cluster.delete("Pod", "shop/small")
        await asyncio.sleep(30)
        assert cluster.list("Pod")["shop/big"]["spec"]["nodeName"] == "a"

    pods = [pod("shop/small", on="a", cpu="6"), pod("shop/big", cpu="6")]
    in_simulated_cluster([node("a", cpu="8"), *pods], steps)


def test_pods_that_are_pending_together_are_scheduled_together() -> None:
    async def steps(cluster: SimulatedCluster) -> dict[str, float]:
        bound: dict[str, float] = {}

        def record(old: Json | None, new: Json | None) -> None:
            if new is not None and new["spec"].get("nodeName"):
                bound.setdefault(new["metadata"]["name"], round(cluster.clock.seconds() - start, 3))

        cluster.subscribe("Pod", record)
        start = cluster.clock.seconds()
        for name in "xyz":
            cluster.create(pod(f"shop/{name}"))
            await asyncio.sleep(0.04)
        await asyncio.sleep(5)
        return bound

    # The first waits for 0.1 s; those that came later are scheduled with it.
    bound = in_simulated_cluster([node("a")], steps, timings=without_reaction_time())
    assert bound == {"x": 0.1, "y": 0.1, "z": 0.1}


def test_the_same_seed_gives_the_same_run() -> None:
    def changes(seed: int) -> list[str]:
        async def steps(cluster: SimulatedCluster) -> list[str]:
            seen: list[str] = []
            cluster.subscribe(
                "Pod", lambda old, new: seen.append(f"{cluster.clock.seconds()} {new}")
            )
            cluster.patch("Deployment", "shop/web", {"spec": {"replicas": 6}})
            await asyncio.sleep(60)
            return seen

        objects = [node("a"), node("b"), deployment("shop/web", 3)]
        return in_simulated_cluster(objects, steps, timings=Timings(), seed=seed)

    assert changes(1) == changes(1)
    assert changes(1) != changes(2)
