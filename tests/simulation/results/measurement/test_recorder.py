"""Series follow every change of nodes and pods."""

import pytest

from rescheduler.model.rules.node_availability import DEFAULT_MAINTENANCE_LABEL, NodeLabel
from rescheduler.simulation.results.measurement.recorder import ResultRecorder
from testcluster.builders import daemonset, node, pod

GIB = 1024**3


def sampled(recorder: ResultRecorder, name: str) -> float:
    recorder.sample()
    return recorder.series(name)[-1].value


@pytest.fixture
def recorder() -> ResultRecorder:
    made = ResultRecorder(lambda: 0.0, 3600.0, {"big": 4.0}, DEFAULT_MAINTENANCE_LABEL)
    labels = {"node.kubernetes.io/instance-type": "big"}
    made.usage.node_changed(None, node("a", cpu="4", memory="4Gi", labels=labels))
    made.usage.node_changed(None, node("b", cpu="4", memory="4Gi", labels=labels))
    return made


def test_imbalance_is_the_gap_between_the_fullest_and_the_emptiest(
    recorder: ResultRecorder,
) -> None:
    recorder.pod_changed(None, pod("shop/web", on="a", cpu="2", memory="1Gi"))
    assert sampled(recorder, "imbalance") == pytest.approx((2 / 4 + 1 / 4) / 2)


def test_nodes_that_take_no_pods_do_not_count_as_empty(recorder: ResultRecorder) -> None:
    recorder.pod_changed(None, pod("shop/web", on="a", cpu="2"))
    recorder.usage.node_changed(None, node("b", cpu="4", memory="4Gi", unschedulable=True))
    assert sampled(recorder, "imbalance") == 0


def test_the_policy_says_which_label_marks_a_node_that_is_being_emptied() -> None:
    recorder = ResultRecorder(lambda: 0.0, 3600.0, {}, NodeLabel("drain=now"))
    recorder.usage.node_changed(None, node("a", cpu="4", memory="4Gi"))
    recorder.usage.node_changed(None, node("b", cpu="4", memory="4Gi", labels={"drain": "now"}))
    recorder.pod_changed(None, pod("shop/web", on="a", cpu="2"))
    assert sampled(recorder, "imbalance") == 0


def test_a_node_is_in_use_and_paid_for_while_it_has_a_pod_not_its_own(
    recorder: ResultRecorder,
) -> None:
    agents = daemonset("kube-system/agent")
    recorder.pod_changed(None, pod("kube-system/agent-a", on="a", owner=agents))
    assert sampled(recorder, "nodes_in_use") == 0
    web = pod("shop/web", on="b")
    recorder.pod_changed(None, web)
    assert sampled(recorder, "nodes_in_use") == 1
    assert sampled(recorder, "cost") == 4.0
    recorder.pod_changed(web, None)
    assert sampled(recorder, "cost") == 0


def test_a_pod_that_ended_holds_nothing(recorder: ResultRecorder) -> None:
    recorder.pod_changed(None, pod("shop/job", on="a", cpu="2"))
    recorder.pod_changed(None, pod("shop/job", on="a", cpu="2", phase="Succeeded"))
    assert sampled(recorder, "imbalance") == 0


def test_what_was_pending_between_two_looks_is_seen(recorder: ResultRecorder) -> None:
    recorder.pod_changed(None, pod("shop/web"))
    recorder.pod_changed(None, pod("shop/web", on="a"))
    assert sampled(recorder, "pods_pending") == 1
    assert sampled(recorder, "pods_pending") == 0
    assert recorder.pending().pods == 1


def test_sums_after_many_changes_are_those_of_what_is_left(recorder: ResultRecorder) -> None:
    for number in range(20):
        recorder.pod_changed(None, pod(f"shop/web-{number}", on="ab"[number % 2], cpu="100m"))
    for number in range(19):
        recorder.pod_changed(pod(f"shop/web-{number}"), None)
    usage = recorder.usage.sample()
    assert usage.loads.tolist() == [0, pytest.approx(0.1 / 4 / 2)]
