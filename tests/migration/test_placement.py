"""New pods are placed by nomination: on their target, and with nothing left of it."""

import asyncio
from itertools import count
from typing import Any

import msgspec

from rescheduler.labels import PLACING_GATE
from rescheduler.settings.value_types import Seconds
from testcluster.applying import apply
from testcluster.builders import deployment, pod
from testcluster.client import JsonObject
from tests.migration.support import (
    QUICK_OPTIONS,
    Sandbox,
    controller_on,
    is_ready,
    node_of,
    other_node,
)

ONCE = msgspec.structs.replace(QUICK_OPTIONS, max_retries=0)
NEVER_EQUAL = ("nodeName",)


def spec_of(pod: JsonObject) -> JsonObject:
    """The spec without what differs between any two replicas: the node and the token's volume."""
    spec = {key: value for key, value in pod["spec"].items() if key not in NEVER_EQUAL}
    tokens = [
        volume["name"] for volume in spec["volumes"] if volume["name"].startswith("kube-api-access")
    ]
    text = msgspec.json.encode(spec).decode()
    for token in tokens:
        text = text.replace(token, "token")
    plain: JsonObject = msgspec.json.decode(text)
    return plain


async def test_the_spec_of_a_moved_pod_is_that_of_its_replica(sandbox: Sandbox) -> None:
    sandbox.add_nodes("a", "b", labels={"disk": "fast"})
    term = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["fast"]}]}
    affinity = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]},
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 5, "preference": term}],
        }
    }
    old, other = sandbox.deploy("web", 2, {"affinity": affinity})
    async with controller_on(sandbox.cluster):
        target = other_node(sandbox, old)
        (status,) = await sandbox.finished(sandbox.migrate(old, target))
    assert (status["mode"], status["outcome"]) == ("Handoff", "Landed")
    new = sandbox.pod(status["newPod"])
    assert new is not None
    assert node_of(new) == target
    assert spec_of(new) == spec_of(other) == spec_of(old)
    assert new["metadata"]["ownerReferences"] == other["metadata"]["ownerReferences"]
    assert "nominatedNodeName" not in new["status"]


async def test_selectors_of_a_moved_pod_match_its_own_version_only(sandbox: Sandbox) -> None:
    """The server adds the template's hash to them when a pod is created with its label."""
    sandbox.add_nodes("a", "b", "c")
    one_at_a_time = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    template = selecting_own_version("web", "pod-template-hash")
    pods = sandbox.deploy("web", 2, template, strategy=one_at_a_time)
    async with controller_on(sandbox.cluster):
        for old in pods:
            used = {node_of(found) for found in sandbox.wait_ready("web", 2)}
            (free,) = set(sandbox.nodes) - used
            (status,) = await sandbox.finished(sandbox.migrate(old, free))
            assert (status["mode"], status["outcome"]) == ("Handoff", "Landed"), status
            new = sandbox.pod(status["newPod"])
            assert new is not None
            assert spec_of(new) == spec_of(pods[0]) == spec_of(pods[1])
    used = {node_of(found) for found in sandbox.wait_ready("web", 2)}
    (free,) = set(sandbox.nodes) - used
    sandbox.outside.patch(f"/api/v1/nodes/{free}", {"spec": {"unschedulable": True}})
    second_version = {"spec": {"template": {"metadata": {"annotations": {"version": "2"}}}}}
    sandbox.outside.patch(sandbox.path("deployments", "web"), second_version)

    def is_rolled_out() -> bool:
        found = sandbox.pods("web")
        versions = [pod["metadata"].get("annotations", {}).get("version") for pod in found]
        return versions == ["2", "2"] and all(map(is_ready, found))

    await sandbox.until(is_rolled_out, "the next version replaces the moved pods")


async def test_a_moved_pod_can_be_moved_again_and_back(sandbox: Sandbox) -> None:
    sandbox.add_nodes("a", "b", "c")
    (current,) = sandbox.deploy("web", 1)
    home = node_of(current)
    away = [node for node in sandbox.nodes if node != home]
    async with controller_on(sandbox.cluster):
        for target in (*away, home):
            (status,) = await sandbox.finished(sandbox.migrate(current, target))
            assert status["outcome"] == "Landed", status
            (current,) = sandbox.wait_ready("web", 1)
            assert node_of(current) == target


async def test_the_room_on_the_target_is_kept_while_the_new_pod_is_gated(sandbox: Sandbox) -> None:
    """Pods of the same priority arrive all the time, and would take the only place there is."""
    sandbox.add_nodes("a", cpu="4")
    (old,) = sandbox.deploy("web", 1, resources_of("2"))
    (target,) = sandbox.add_nodes("b", cpu="2")
    numbers = count(1)
    nominated = asyncio.Event()

    def arrive() -> None:
        name = f"{sandbox.namespace}/arrival-{next(numbers)}"
        body = pod(name, cpu="1", nodeSelector={"kubernetes.io/hostname": target})
        apply(sandbox.cluster, unbound(body))

    def reached(point: str, key: str) -> None:
        # Whatever the pace of the others, these come at the worst moments.
        if point in ("after-nominate", "after-label-old", "before-open-gate"):
            arrive()
            nominated.set()

    async def keep_arriving() -> None:
        await nominated.wait()
        while True:
            await asyncio.to_thread(arrive)

    async with controller_on(sandbox.cluster, ONCE, reached):
        arriving = asyncio.create_task(keep_arriving())
        (status,) = await sandbox.finished(sandbox.migrate(old, target))
        arriving.cancel()
        await asyncio.gather(arriving, return_exceptions=True)
    assert status["outcome"] == "Landed", status
    on_target = [found for found in sandbox.pods() if node_of(found) == target]
    assert [found["metadata"]["name"] for found in on_target] == [status["newPod"]]


async def test_a_target_that_filled_up_fails_the_attempt_and_nobody_is_preempted(
    sandbox: Sandbox,
) -> None:
    """The new pod has a higher priority than all others, and fits nowhere."""
    sandbox.add_nodes("a", cpu="4")
    important = priority_class(sandbox, 1000)
    (old,) = sandbox.deploy("web", 1, {**resources_of("3"), "priorityClassName": important})
    (target,) = sandbox.add_nodes("b", cpu="4")
    lowly = unbound(pod(f"{sandbox.namespace}/lowly", cpu="2", nodeName=target))
    apply(sandbox.cluster, lowly)
    async with controller_on(sandbox.cluster, ONCE):
        (status,) = await sandbox.finished(sandbox.migrate(old, target, mode="Handoff"))
    assert (status["phase"], status["failures"]) == ("Failed", 1)
    assert "does not fit" in status["message"]
    assert {found["metadata"]["name"] for found in sandbox.pods()} == {
        old["metadata"]["name"],
        "lowly",
    }
    assert sandbox.leftovers() == []


async def test_a_pod_that_landed_elsewhere_is_deleted_and_the_attempt_counts(
    sandbox: Sandbox,
) -> None:
    """Its target fills up in the last moment, with a pod that no reservation holds off."""
    sandbox.add_nodes("a", cpu="4")
    (old,) = sandbox.deploy("web", 1, resources_of("2"))
    (target,) = sandbox.add_nodes("b", cpu="2")

    def fill(point: str, key: str) -> None:
        if point == "before-open-gate":
            thief = pod(f"{sandbox.namespace}/thief", cpu="2", nodeName=target)
            apply(sandbox.cluster, unbound(thief))

    async with controller_on(sandbox.cluster, ONCE, fill):
        (status,) = await sandbox.finished(sandbox.migrate(old, target, mode="Handoff"))
    assert (status["phase"], status["failures"]) == ("Failed", 1)
    assert f"was placed on {node_of(old)} instead of {target}" in status["message"]
    (left,) = sandbox.pods("web")
    assert left["metadata"]["uid"] == old["metadata"]["uid"]
    assert sandbox.leftovers() == []


async def test_only_our_own_gate_is_opened(sandbox: Sandbox) -> None:
    sandbox.add_nodes("a", "b")
    queue = {"name": "example.com/queue"}
    template = sandbox.here(schedulingGates=[queue])
    apply(sandbox.cluster, deployment(f"{sandbox.namespace}/web", template=template))
    await sandbox.until(lambda: sandbox.pods("web"), "the first pod is there")
    open_gates(sandbox, sandbox.pods("web")[0]["metadata"]["name"])
    (old,) = sandbox.wait_ready("web", 1)
    async with controller_on(sandbox.cluster):
        name = sandbox.migrate(old, other_node(sandbox, old))
        await sandbox.until(
            lambda: "example.com/queue" in sandbox.status(name).get("message", ""), "it waits"
        )
        new = sandbox.pod(sandbox.status(name)["newPod"])
        assert new is not None
        assert queue in new["spec"]["schedulingGates"]
        assert new["status"]["nominatedNodeName"] == other_node(sandbox, old)
        remaining = [{"name": PLACING_GATE}]
        path = sandbox.path("pods", new["metadata"]["name"])
        sandbox.outside.patch(path, {"spec": {"schedulingGates": remaining}})
        (status,) = await sandbox.finished(name)
    assert status["outcome"] == "Landed", status


async def test_gates_of_others_are_not_waited_for_for_ever(sandbox: Sandbox) -> None:
    sandbox.add_nodes("a", "b")
    template = sandbox.here(schedulingGates=[{"name": "example.com/queue"}])
    apply(sandbox.cluster, deployment(f"{sandbox.namespace}/web", template=template))
    await sandbox.until(lambda: sandbox.pods("web"), "the first pod is there")
    open_gates(sandbox, sandbox.pods("web")[0]["metadata"]["name"])
    (old,) = sandbox.wait_ready("web", 1)
    patient = msgspec.structs.replace(ONCE, timeout_seconds=Seconds(600))
    async with controller_on(sandbox.cluster, patient):
        target = other_node(sandbox, old)
        name = sandbox.migrate(old, target, mode="Handoff")
        await sandbox.until(lambda: nominations(sandbox) == [target], "it is nominated")
        sandbox.end_step(name)
        (status,) = await sandbox.finished(name)
    assert status["phase"] == "Failed"
    expected = "after 600s new pod has scheduling gates of others: example.com/queue"
    assert status["message"] == expected
    assert len(sandbox.pods("web")) == 1


def nominations(sandbox: Sandbox) -> list[str]:
    """The nodes for which pods are nominated."""
    names = [pod["status"].get("nominatedNodeName") for pod in sandbox.pods("web")]
    return [name for name in names if name]


async def test_a_scheduler_that_ignores_nominations_is_remembered_for_the_workload(
    sandbox: Sandbox,
) -> None:
    home, target, favourite = sandbox.add_nodes("home", "target", "favourite")
    placing = asyncio.create_task(schedule_all(sandbox, favourite, first=home))
    try:
        template = sandbox.here(schedulerName="headstrong")
        apply(sandbox.cluster, deployment(f"{sandbox.namespace}/web", template=template))
        await sandbox.until(lambda: any(map(is_ready, sandbox.pods("web"))), "it is Ready")
        (old,) = sandbox.pods("web")
        async with controller_on(sandbox.cluster):
            (status,) = await sandbox.finished(sandbox.migrate(old, target, "first"))
            await sandbox.until(
                lambda: [is_ready(found) for found in sandbox.pods("web")] == [True], "replaced"
            )
            (again,) = sandbox.pods("web")
            (second,) = await sandbox.finished(sandbox.migrate(again, target, "second"))
    finally:
        placing.cancel()
    assert (status["mode"], status["failures"]) == ("Evict", 2), status
    (remembered,) = [
        condition for condition in status["conditions"] if condition["type"] == "PlacedAsNominated"
    ]
    assert remembered["reason"] == "NominationIgnored"
    assert "scheduler headstrong does not look at nominated nodes" in remembered["message"]
    assert (second["mode"], second["attempts"]) == ("Evict", 1), second


async def schedule_all(sandbox: Sandbox, node: str, first: str) -> None:
    """A scheduler that has its own mind about where pods belong."""
    bound: set[str] = set()
    while True:
        for found in sandbox.pods():
            name, uid = found["metadata"]["name"], found["metadata"]["uid"]
            if not node_of(found) and not found["spec"].get("schedulingGates") and uid not in bound:
                body = {
                    "apiVersion": "v1",
                    "kind": "Binding",
                    "metadata": {"name": name},
                    "target": {"kind": "Node", "name": node if bound else first},
                }
                sandbox.outside.create(f"{sandbox.path('pods', name)}/binding", body)
                bound.add(uid)
        await asyncio.sleep(0.02)


async def test_a_handoff_does_not_undo_a_resize(sandbox: Sandbox) -> None:
    sandbox.add_nodes("a", "b")
    (old,) = sandbox.deploy("web", 1, resources_of("1"))
    larger = {**old["spec"]["containers"][0], "resources": {"requests": {"cpu": "1500m"}}}
    path = sandbox.path("pods", old["metadata"]["name"])
    # A kubelet that can resize containers reports what they have.
    status = {**old["status"]["containerStatuses"][0], "resources": {"requests": {"cpu": "1"}}}
    sandbox.outside.patch(f"{path}/status", {"status": {"containerStatuses": [status]}})
    sandbox.outside.patch(f"{path}/resize", {"spec": {"containers": [larger]}})
    async with controller_on(sandbox.cluster):
        (status,) = await sandbox.finished(sandbox.migrate(old, other_node(sandbox, old)))
    assert status["outcome"] == "Landed", status
    new = sandbox.pod(status["newPod"])
    assert new is not None
    assert new["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "1500m"


async def test_a_copy_has_the_spec_of_its_original(sandbox: Sandbox) -> None:
    sandbox.add_nodes("a")
    apply(
        sandbox.cluster,
        unbound(pod(f"{sandbox.namespace}/solo", labels={"app": "solo"}, **sandbox.here())),
    )
    (old,) = sandbox.wait_ready("solo", 1)
    (target,) = sandbox.add_nodes("b")
    async with controller_on(sandbox.cluster, allow_bare_pods=True):
        (status,) = await sandbox.finished(sandbox.migrate(old, target))
    assert (status["mode"], status["outcome"]) == ("Recreate", "Landed")
    (new,) = sandbox.pods("solo")
    assert spec_of(new) == spec_of(old)
    assert "nominatedNodeName" not in new["status"]


async def test_a_copy_of_a_pod_that_selects_by_its_own_label_has_the_same_spec(
    sandbox: Sandbox,
) -> None:
    """The server has added the label to its selectors, and will again."""
    sandbox.add_nodes("a")
    name, labels = f"{sandbox.namespace}/solo", {"app": "solo", "version": "1"}
    template = sandbox.here(**selecting_own_version("solo", "version"))
    apply(sandbox.cluster, unbound(pod(name, labels=labels, **template)))
    (old,) = sandbox.wait_ready("solo", 1)
    (target,) = sandbox.add_nodes("b")
    async with controller_on(sandbox.cluster, ONCE, allow_bare_pods=True):
        (status,) = await sandbox.finished(sandbox.migrate(old, target))
    assert (status["mode"], status["outcome"]) == ("Recreate", "Landed"), status
    (new,) = sandbox.pods("solo")
    assert spec_of(new) == spec_of(old)


def selecting_own_version(app: str, key: str) -> dict[str, Any]:
    """A template with all kinds of selectors that may refer to the pod's own value of a label."""
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app": app}},
    }
    other = {"topologyKey": "zone", "labelSelector": {}, "mismatchLabelKeys": [key]}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    own = {**term, "matchLabelKeys": [key]}
    return {
        "affinity": {
            "podAntiAffinity": {
                required: [own],
                preferred: [{"weight": 1, "podAffinityTerm": other}],
            },
            "podAffinity": {preferred: [{"weight": 1, "podAffinityTerm": other}]},
        },
        "topologySpreadConstraints": [
            {**own, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"},
            {**term, "maxSkew": 2, "whenUnsatisfiable": "ScheduleAnyway"},
        ],
    }


def resources_of(cpu: str) -> dict[str, Any]:
    resources = {"requests": {"cpu": cpu}}
    return {"containers": [{"name": "app", "image": "x", "resources": resources}]}


def unbound(body: JsonObject) -> JsonObject:
    """A pod as a person would create it: without a status."""
    body.pop("status", None)
    return body


def open_gates(sandbox: Sandbox, name: str) -> None:
    sandbox.outside.patch(sandbox.path("pods", name), {"spec": {"schedulingGates": None}})


def priority_class(sandbox: Sandbox, value: int) -> str:
    name = f"{sandbox.namespace}-important"
    apply(
        sandbox.cluster,
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
        },
    )
    return name
