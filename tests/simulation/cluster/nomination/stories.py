"""Stories about gated and nominated pods; each returns what it saw.

A pod that is created later and bound shows that the scheduler has looked at those before it: a
pod that still waits then, waits for a reason.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from tests.simulation.cluster.nomination.story_cluster import StoryCluster

Story = Callable[[StoryCluster], Awaitable[Any]]

OURS, FOREIGN = "rescheduler.dev/placing", "example.com/quota"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
HOSTNAME = "kubernetes.io/hostname"


async def a_gated_pod_waits(cluster: StoryCluster) -> Any:
    await cluster.nodes(a="4")
    await cluster.pod("gated", gates=(OURS,))
    await cluster.pod("later")
    return await cluster.bound("later"), await cluster.see("gated")


async def an_opened_pod_is_scheduled(cluster: StoryCluster) -> Any:
    await cluster.nodes(a="4")
    await cluster.pod("gated", gates=(OURS,))
    await cluster.set_gates("gated")
    return await cluster.bound("gated")


async def a_pod_goes_to_its_nominated_node(cluster: StoryCluster) -> Any:
    """The other node is emptier: without a nomination, pods go there."""
    await cluster.nodes(a="4", b="64")
    await cluster.pod("plain")
    await cluster.pod("gated", gates=(OURS,))
    await cluster.nominate("gated", "a")
    before = await cluster.see("gated")
    await cluster.set_gates("gated")
    return before, await cluster.bound("gated"), await cluster.bound("plain")


async def a_pod_goes_elsewhere_if_its_nominated_node_is_full(cluster: StoryCluster) -> Any:
    await cluster.nodes(a="1", b="4")
    await cluster.pod("first", nodeSelector=cluster.only("a"))
    await cluster.bound("first")
    await cluster.pod("gated", gates=(OURS,))
    await cluster.nominate("gated", "a")
    await cluster.set_gates("gated")
    return await cluster.bound("gated")


async def a_pod_goes_elsewhere_if_its_nominated_node_does_not_exist(cluster: StoryCluster) -> Any:
    await cluster.nodes(a="4")
    await cluster.pod("gated", gates=(OURS,))
    await cluster.nominate("gated", "missing")
    await cluster.set_gates("gated")
    return await cluster.bound("gated")


async def a_pod_goes_elsewhere_if_its_nominated_node_is_cordoned(cluster: StoryCluster) -> Any:
    await cluster.nodes(a="64", b="4")
    await cluster.cordon("a")
    await cluster.pod("gated", gates=(OURS,))
    await cluster.nominate("gated", "a")
    await cluster.set_gates("gated")
    return await cluster.bound("gated")


async def a_nomination_keeps_room_from_pods_of_the_same_priority(cluster: StoryCluster) -> Any:
    await cluster.nodes(a="1")
    await cluster.pod("gated", gates=(OURS,))
    await cluster.nominate("gated", "a")
    await cluster.pod("rival")
    rival = await cluster.refused("rival")
    await cluster.set_gates("gated")
    return rival, await cluster.bound("gated"), await cluster.see("rival")


async def a_nomination_keeps_room_from_pods_of_lower_priority(cluster: StoryCluster) -> Any:
    await cluster.priority_classes()
    await cluster.nodes(a="1")
    await cluster.pod("gated", gates=(OURS,))
    await cluster.nominate("gated", "a")
    await cluster.pod("rival", priorityClassName="story-low")
    return await cluster.refused("rival")


async def a_nomination_keeps_no_room_from_pods_of_higher_priority(cluster: StoryCluster) -> Any:
    await cluster.priority_classes()
    await cluster.nodes(a="1")
    await cluster.pod("gated", gates=(OURS,))
    await cluster.nominate("gated", "a")
    await cluster.pod("rival", priorityClassName="story-high")
    rival = await cluster.bound("rival")
    await cluster.set_gates("gated")
    await cluster.refused("gated")
    return rival, await cluster.without_nomination("gated")


async def a_nomination_keeps_only_the_room_that_the_pod_asks_for(cluster: StoryCluster) -> Any:
    await cluster.nodes(a="3")
    await cluster.pod("gated", cpu="2", gates=(OURS,))
    await cluster.nominate("gated", "a")
    await cluster.pod("small", cpu="1")
    small = await cluster.bound("small")
    await cluster.pod("another", cpu="1")
    return small, await cluster.refused("another")


async def two_pods_with_one_place_keep_each_other_away(cluster: StoryCluster) -> Any:
    await cluster.nodes(a="1")
    for name in ("one", "other"):
        await cluster.pod(name, gates=(OURS,))
        await cluster.nominate(name, "a")
    await cluster.set_gates("one")
    await cluster.refused("one")
    refused = await cluster.without_nomination("one")
    await cluster.set_gates("other")
    return refused, await cluster.bound("other")


async def a_foreign_gate_stays_and_so_does_the_nomination(cluster: StoryCluster) -> Any:
    await cluster.nodes(a="1", b="64")
    await cluster.pod("gated", gates=(OURS, FOREIGN))
    await cluster.nominate("gated", "a")
    await cluster.set_gates("gated", FOREIGN)
    await cluster.pod("later", cpu="100m")
    await cluster.bound("later")
    waiting = await cluster.see("gated")
    await cluster.set_gates("gated")
    return waiting, await cluster.bound("gated")


async def the_second_of_two_nominations_counts(cluster: StoryCluster) -> Any:
    await cluster.nodes(a="1", b="1")
    await cluster.pod("gated", gates=(OURS,))
    await cluster.nominate("gated", "a")
    await cluster.pod("wide", cpu="1")
    wide = await cluster.bound("wide")
    await cluster.pod("rival", cpu="1")
    await cluster.refused("rival")
    await cluster.nominate("gated", "b")
    rival = await cluster.bound("rival")
    await cluster.delete("wide")
    await cluster.set_gates("gated")
    return wide, rival, await cluster.bound("gated")


async def a_nomination_that_is_taken_back_frees_its_room(cluster: StoryCluster) -> Any:
    await cluster.nodes(a="1")
    await cluster.pod("gated", gates=(OURS,))
    await cluster.nominate("gated", "a")
    await cluster.pod("rival")
    await cluster.refused("rival")
    await cluster.nominate("gated", "")
    return await cluster.bound("rival"), await cluster.see("gated")


async def a_gated_pod_that_is_deleted_frees_its_room(cluster: StoryCluster) -> Any:
    await cluster.nodes(a="1")
    await cluster.pod("gated", gates=(OURS,))
    await cluster.nominate("gated", "a")
    await cluster.pod("rival")
    await cluster.refused("rival")
    await cluster.delete("gated")
    return await cluster.bound("rival")


async def a_replicaset_creates_gated_pods(cluster: StoryCluster) -> Any:
    await cluster.nodes(a="4", b="64")
    await cluster.replicaset("web", 2, (OURS,))
    names = await cluster.pods_of("web", 2)
    gated = [await cluster.see(name) for name in names]
    for name in names:
        await cluster.nominate(name, "a")
        await cluster.set_gates(name)
    return gated, [await cluster.bound(name) for name in names]


async def a_refused_pod_loses_its_nomination(cluster: StoryCluster) -> Any:
    """Preemption was tried and found nothing: the scheduler takes the nomination back."""
    await cluster.nodes(a="1")
    await cluster.pod("gated", cpu="2", gates=(OURS,))
    await cluster.nominate("gated", "a")
    await cluster.set_gates("gated")
    await cluster.refused("gated")
    lost = await cluster.without_nomination("gated")
    await cluster.pod("later", cpu="1")
    return lost, await cluster.bound("later")


async def a_refused_pod_that_never_preempts_keeps_its_nomination(cluster: StoryCluster) -> Any:
    await cluster.priority_classes()
    await cluster.nodes(a="1")
    await cluster.pod("gated", cpu="2", gates=(OURS,), priorityClassName="story-high")
    await cluster.nominate("gated", "a")
    await cluster.set_gates("gated")
    kept = await cluster.refused("gated")
    await cluster.pod("rival", cpu="1")
    return kept, await cluster.refused("rival")


async def a_pending_pod_can_be_nominated_too(cluster: StoryCluster) -> Any:
    """Its nomination keeps room. It ends on another node, of which the rival is not always told."""
    await cluster.priority_classes()
    await cluster.nodes(a="1", b="2")
    await cluster.pod("first", cpu="2")
    await cluster.bound("first")
    await cluster.pod("waiting", cpu="2", priorityClassName="story-high")
    await cluster.refused("waiting")
    await cluster.nominate("waiting", "a")
    await cluster.pod("rival", cpu="1", nodeSelector=cluster.only("a"))
    rival = await cluster.refused("rival")
    await cluster.delete("first")
    return rival, await cluster.bound("waiting")


async def ports_of_a_nominated_pod_are_taken(cluster: StoryCluster) -> Any:
    await cluster.nodes(a="8")
    container = {
        "name": "app",
        "image": "registry.example/app:1.0",
        "ports": [{"containerPort": 80, "hostPort": 8080}],
    }
    await cluster.pod("gated", gates=(OURS,), containers=[container])
    await cluster.nominate("gated", "a")
    await cluster.pod("rival", containers=[container])
    return await cluster.refused("rival")


async def anti_affinity_with_a_nominated_pod_counts(cluster: StoryCluster) -> Any:
    await cluster.nodes(a="8")
    term = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": "web"}}}
    apart = {"podAntiAffinity": {REQUIRED: [term]}}
    await cluster.pod("gated", gates=(OURS,), labels={"app": "web"})
    await cluster.nominate("gated", "a")
    await cluster.pod("rival", affinity=apart)
    return await cluster.refused("rival")


async def anti_affinity_of_a_nominated_pod_counts_only_if_that_of_a_running_one_does(
    cluster: StoryCluster,
) -> Any:
    """The scheduler skips the plugin as long as no running pod minds the new one."""
    await cluster.nodes(a="8", b="8")
    term = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": "web"}}}
    apart = {"podAntiAffinity": {REQUIRED: [term]}}
    only: dict[str, Any] = {"nodeSelector": cluster.only("a"), "labels": {"app": "web"}}
    await cluster.pod("gated", gates=(OURS,), affinity=apart)
    await cluster.nominate("gated", "a")
    await cluster.pod("first", **only)
    first = await cluster.bound("first")
    await cluster.delete("first")
    await cluster.pod("running", affinity=apart, nodeSelector=cluster.only("b"))
    await cluster.bound("running")
    await cluster.pod("second", **only)
    return first, await cluster.refused("second")


async def affinity_with_a_nominated_pod_is_not_enough(cluster: StoryCluster) -> Any:
    await cluster.nodes(a="8")
    term = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": "web"}}}
    near = {"podAffinity": {REQUIRED: [term]}}
    await cluster.pod("gated", gates=(OURS,), labels={"app": "web"})
    await cluster.nominate("gated", "a")
    await cluster.pod("friend", affinity=near)
    alone = await cluster.refused("friend")
    await cluster.set_gates("gated")
    await cluster.bound("gated")
    return alone, await cluster.bound("friend")


# ------------------------------------------------------------ what the server refuses


async def gates_cannot_be_added(cluster: StoryCluster) -> Any:
    await cluster.nodes(a="4")
    await cluster.pod("gated", gates=(OURS,))
    await cluster.pod("plain")
    await cluster.bound("plain")
    return (
        await cluster.answer_to(cluster.set_gates("gated", OURS, FOREIGN)),
        await cluster.answer_to(cluster.set_gates("gated", FOREIGN)),
        await cluster.answer_to(cluster.set_gates("plain", OURS)),
        await cluster.answer_to(cluster.set_gates("plain")),
        await cluster.see("gated"),
    )


async def gates_must_be_valid(cluster: StoryCluster) -> Any:
    await cluster.nodes(a="4")
    node = cluster.node("a")
    return (
        await cluster.answer_to(cluster.pod("twice", gates=(OURS, OURS))),
        await cluster.answer_to(cluster.pod("bound", gates=(OURS,), nodeName=node)),
    )


async def a_gated_pod_cannot_be_bound(cluster: StoryCluster) -> Any:
    await cluster.nodes(a="4")
    await cluster.pod("gated", gates=(OURS,))
    await cluster.pod("plain")
    await cluster.bound("plain")
    return (
        await cluster.answer_to(cluster.bind("gated", "a")),
        await cluster.answer_to(cluster.bind("plain", "a")),
    )


async def a_bound_pod_cannot_be_nominated(cluster: StoryCluster) -> Any:
    await cluster.nodes(a="4", b="4")
    await cluster.pod("plain", nodeSelector=cluster.only("a"))
    await cluster.bound("plain")
    return (
        await cluster.answer_to(cluster.nominate("plain", "b")),
        await cluster.answer_to(cluster.nominate("plain", "a")),
        await cluster.answer_to(cluster.nominate("plain", "")),
    )


async def a_nomination_must_be_the_name_of_a_node(cluster: StoryCluster) -> Any:
    await cluster.pod("gated", gates=(OURS,))
    return await cluster.answer_to(cluster.nominate("gated", "No_Node"))


async def a_status_patch_checks_the_version_and_may_change_labels(cluster: StoryCluster) -> Any:
    await cluster.nodes(a="4")
    await cluster.pod("gated", gates=(OURS,))
    version = (await cluster.read("gated"))["metadata"]["resourceVersion"]
    await cluster.nominate("gated", "a", resourceVersion=version, labels={"x": "y"})
    stale = await cluster.answer_to(cluster.nominate("gated", "a", resourceVersion=version))
    metadata = (await cluster.read("gated"))["metadata"]
    missing = await cluster.answer_to(cluster.nominate("missing", "a"))
    return stale, missing, metadata["labels"], await cluster.see("gated")


STORIES: tuple[Story, ...] = (
    a_gated_pod_waits,
    an_opened_pod_is_scheduled,
    a_pod_goes_to_its_nominated_node,
    a_pod_goes_elsewhere_if_its_nominated_node_is_full,
    a_pod_goes_elsewhere_if_its_nominated_node_does_not_exist,
    a_pod_goes_elsewhere_if_its_nominated_node_is_cordoned,
    a_nomination_keeps_room_from_pods_of_the_same_priority,
    a_nomination_keeps_room_from_pods_of_lower_priority,
    a_nomination_keeps_no_room_from_pods_of_higher_priority,
    a_nomination_keeps_only_the_room_that_the_pod_asks_for,
    two_pods_with_one_place_keep_each_other_away,
    a_foreign_gate_stays_and_so_does_the_nomination,
    the_second_of_two_nominations_counts,
    a_nomination_that_is_taken_back_frees_its_room,
    a_gated_pod_that_is_deleted_frees_its_room,
    a_replicaset_creates_gated_pods,
    a_refused_pod_loses_its_nomination,
    a_refused_pod_that_never_preempts_keeps_its_nomination,
    a_pending_pod_can_be_nominated_too,
    ports_of_a_nominated_pod_are_taken,
    anti_affinity_with_a_nominated_pod_counts,
    anti_affinity_of_a_nominated_pod_counts_only_if_that_of_a_running_one_does,
    affinity_with_a_nominated_pod_is_not_enough,
    gates_cannot_be_added,
    gates_must_be_valid,
    a_gated_pod_cannot_be_bound,
    a_bound_pod_cannot_be_nominated,
    a_nomination_must_be_the_name_of_a_node,
    a_status_patch_checks_the_version_and_may_change_labels,
)
