"""A real kube-scheduler with the configuration that we ship asks our extender."""

import os
import signal
import statistics
from pathlib import Path

import yaml

from testcluster.applying import apply
from testcluster.builders import deployment, pod
from testcluster.client import JsonObject
from testcluster.serving import serve, shipped_configuration
from testcluster.waiting import wait_until
from tests.conftest import Start
from tests.extender.kube_scheduler import (
    OURS,
    OtherExtender,
    Pods,
    log_of,
    serving,
)
from tests.migration.support import Sandbox, node_of

MAINTENANCE = {"scheduler.alpha.kubernetes.io/maintenance": "true"}
# Ten Deployments for so many nodes: 25 pods per node.
NODES, REPLICAS = (20, 50) if os.environ.get("EXHAUSTIVE") == "1" else (8, 20)
EXAMPLE_POLICY = Path(__file__).parents[2] / "examples" / "policy.yaml"


def fill(sandbox: Sandbox, node: str, cpu: str, memory: str = "1Gi") -> None:
    """Take so much of a node."""
    key = f"{sandbox.namespace}/on-{node}"
    apply(sandbox.cluster, pod(key, on=node, cpu=cpu, memory=memory))


def test_overloaded_nodes_and_those_under_maintenance_are_avoided_and_the_pod_says_why(
    sandbox: Sandbox, start: Start, tmp_path: Path
) -> None:
    full, free = sandbox.add_nodes("full", "free", cpu="10")
    sandbox.add_nodes("maintained", cpu="10", labels=MAINTENANCE)
    fill(sandbox, full, "7500m")
    served = serve(start, tmp_path / "tls", "strictFilter: true")
    pods = Pods(sandbox)
    with sandbox.cluster.extra_scheduler(served.configuration()):
        places = [pods.place(f"p{number}", cpu="2") for number in range(4)]
        assert places == [free] * 4
        pods.create("late", cpu="2")
        why = wait_until(lambda: pods.why_not("late"), what="the reason is known")
        assert "1 node(s) were under maintenance" in why
        assert "2 node(s) would have CPU above 80% with this pod" in why
        sandbox.outside.delete(sandbox.path("pods", "p0"))
        assert pods.placed("late") == free


def test_overloaded_nodes_are_used_for_want_of_others_and_an_event_says_so(
    sandbox: Sandbox, start: Start, tmp_path: Path
) -> None:
    full, fuller = sandbox.add_nodes("full", "fuller", cpu="10", memory="10Gi")
    fill(sandbox, full, "8", "8Gi")
    fill(sandbox, fuller, "8900m", "8900Mi")
    served = serve(start, tmp_path / "tls")
    pods = Pods(sandbox)

    def messages() -> list[str]:
        """Those of our Events."""
        events = sandbox.all("events")
        return [event["message"] for event in events if event["reason"] == "AllNodesOverloaded"]

    with sandbox.cluster.extra_scheduler(served.configuration()):
        assert pods.place("late", cpu="1") == full
        wait_until(messages, what="an Event was created")
        # The next one waits, and is tried again and again, for want of CPU.
        pods.create("huge", cpu="1500m")
        wait_until(lambda: pods.why_not("huge"), what="it does not fit")
    (text,) = messages()
    assert f"the least loaded is {full} with CPU at 90%" in text


def test_a_skewed_cluster_is_evened_out_more_than_by_the_default_scheduler(
    sandbox: Sandbox, start: Start, tmp_path: Path
) -> None:
    """The same pods on the same nodes: half of these are taken to a third before they come."""
    groups = {"default-scheduler": "default", OURS: "ours"}
    for group in groups.values():
        names = [f"{group}-{number}" for number in range(NODES)]
        added = sandbox.add_nodes(*names, cpu="16", memory="64Gi", labels={"group": group})
        for name in added[::2]:
            fill(sandbox, name, "5500m", "22Gi")
    served = serve(start, tmp_path / "tls")
    with sandbox.cluster.extra_scheduler(served.configuration()):
        deviation = {
            scheduler: deviation_with(sandbox, scheduler, group)
            for scheduler, group in groups.items()
        }
    print(f"standard deviation of node load, in percentage points: {deviation}")
    assert deviation[OURS] < deviation["default-scheduler"]


def deviation_with(sandbox: Sandbox, scheduler: str, group: str) -> float:
    """How unevenly nodes are loaded when a scheduler has placed its pods, in percentage points."""
    template = sandbox.here(schedulerName=scheduler)
    template["nodeSelector"]["group"] = group

    def placed() -> list[JsonObject]:
        return [pod for pod in sandbox.pods() if f"-{group}-" in node_of(pod)]

    before = len(placed())
    for number in range(10):
        cpu, memory = [("100m", "400Mi"), ("200m", "1Gi"), ("300m", "1Gi")][number % 3]
        name = f"{sandbox.namespace}/{group}-{number}"
        apply(sandbox.cluster, deployment(name, REPLICAS, cpu, memory, template=template))
        wanted = before + REPLICAS * (number + 1)
        wait_until(lambda: len(placed()) == wanted, what=f"{wanted} pods are placed")  # noqa: B023
    pods = placed()
    loads = {name: 0.0 for name in sandbox.nodes if f"-{group}-" in name}
    for placed_pod in pods:
        (container,) = placed_pod["spec"]["containers"]
        requests = container["resources"]["requests"]
        share = cores(requests["cpu"]) / 16 + gib(requests["memory"]) / 64
        loads[node_of(placed_pod)] += share * 50
    return statistics.pstdev(loads.values())


def cores(quantity: str) -> float:
    return float(quantity.removesuffix("m")) / 1000


def gib(quantity: str) -> float:
    if quantity.endswith("Mi"):
        return float(quantity.removesuffix("Mi")) / 1024
    return float(quantity.removesuffix("Gi"))


def test_pods_are_bound_through_us_if_that_is_wanted(
    sandbox: Sandbox, start: Start, tmp_path: Path
) -> None:
    """Not ignorable, so that nobody else binds them if we do not."""
    (only,) = sandbox.add_nodes("only")
    served = serve(start, tmp_path / "tls")
    pods = Pods(sandbox)
    bound_by_us = served.configuration(bindVerb="bind", ignorable=False)
    with sandbox.cluster.extra_scheduler(bound_by_us) as scheduler:
        assert [pods.place(f"p{number}", cpu="10m") for number in range(3)] == [only] * 3
        served.process.kill()
        served.process.wait()
        pods.create("late", cpu="10m")
        wait_until(lambda: "connection refused" in log_of(scheduler), what="it was tried")
        assert not pods.node_of("late")


def test_pods_are_placed_whether_we_are_stopped_or_killed(
    sandbox: Sandbox, start: Start, tmp_path: Path
) -> None:
    (only,) = sandbox.add_nodes("only")
    served = serve(start, tmp_path / "tls")
    pods = Pods(sandbox)
    with sandbox.cluster.extra_scheduler(served.configuration(bindVerb="bind")) as scheduler:
        assert pods.place("before", cpu="10m") == only
        # It accepts connections and never responds.
        served.process.send_signal(signal.SIGSTOP)
        assert pods.place("while-hanging", cpu="10m") == only
        served.process.kill()
        served.process.wait()
        assert pods.place("after", cpu="10m") == only
        assert "has ignorable flag set" in log_of(scheduler)


def test_pods_are_placed_whatever_an_extender_responds(sandbox: Sandbox) -> None:
    # With a single node to choose from, the scheduler would skip prioritize.
    choice = sandbox.add_nodes("a", "b")
    others = [
        OtherExtender(0),
        OtherExtender(503, b'{"error": "the cluster is not loaded yet"}'),
        OtherExtender(200, b"<html>"),
        OtherExtender(200, b'{"NodeNames": ["a-node-that-was-not-in-the-request"]}'),
        OtherExtender(200, b'{"Error": "out of order"}'),
        OtherExtender(400, b""),
    ]
    pods = Pods(sandbox)
    configuration = shipped_configuration(*[other.extender for other in others])
    with serving(*others), sandbox.cluster.extra_scheduler(configuration):
        assert {pods.place(f"p{number}") for number in range(2)} <= set(choice)
    assert all(other.requests >= 4 for other in others), "all had requests for both pods"


def test_a_scheduler_takes_a_policy_file_and_leaves_our_part_alone(sandbox: Sandbox) -> None:
    """So one file can be for both."""
    (only,) = sandbox.add_nodes("only")
    policy = yaml.safe_load(EXAMPLE_POLICY.read_text())
    pods = Pods(sandbox)
    with sandbox.cluster.extra_scheduler({**shipped_configuration(), **policy}):
        assert pods.place("p", cpu="10m") == only
