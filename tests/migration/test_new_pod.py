"""The name, spec and labels of a new pod."""

from typing import Any

from rescheduler.migration.new_pod import copy_name, label_to_withhold, pinned_to, replica_name
from rescheduler.migration.workload_objects import (
    ObservedWorkload,
    RawPodTemplate,
    TemplateMeta,
)
from rescheduler.model.objects import (
    BudgetSpec,
    Identity,
    LabelSelector,
    ObjectMeta,
    PodDisruptionBudget,
    ReplicaSet,
    Service,
    ServiceSpec,
)

HERE = {"key": "metadata.name", "operator": "In", "values": ["b"]}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def terms_of(spec: dict[str, Any]) -> list[Any]:
    found: list[Any] = spec["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    return found


def needing(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}}


def test_the_target_is_required_besides_everything_else() -> None:
    assert terms_of(pinned_to("b", {})) == [{"matchFields": [HERE]}]
    fast = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["fast"]}]}
    zone = {"matchExpressions": [{"key": "zone", "operator": "Exists"}], "matchFields": [HERE]}
    assert terms_of(pinned_to("b", needing(fast, zone))) == [
        {**fast, "matchFields": [HERE]},
        {**zone, "matchFields": [HERE, HERE]},
    ]


def test_preferences_and_pod_affinity_stay_as_they_are() -> None:
    affinity = {"podAntiAffinity": {REQUIRED: []}, "nodeAffinity": {"preferred": [1]}}
    pinned = pinned_to("b", {"affinity": affinity, "containers": []})
    assert pinned["affinity"]["podAntiAffinity"] == {REQUIRED: []}
    assert pinned["affinity"]["nodeAffinity"]["preferred"] == [1]
    assert affinity["nodeAffinity"] == {"preferred": [1]}


def test_names_are_the_same_for_the_same_attempt_and_differ_for_another() -> None:
    assert replica_name("web-5d4", "uid", 1) == replica_name("web-5d4", "uid", 1)
    assert replica_name("web-5d4", "uid", 1) != replica_name("web-5d4", "uid", 2)
    assert len(replica_name("w" * 300, "uid", 1)) == 253
    assert len(copy_name("p" * 253, "uid", 1)) == 253
    copy = copy_name("solo-1", "uid", 1)
    assert copy_name(copy, "other", 1).startswith("rescheduled-solo-1-")
    assert len(copy_name(copy, "other", 1)) == len(copy)


def workload(labels: dict[str, str]) -> ObservedWorkload:
    owner = ReplicaSet(Identity(name="web"))
    template = RawPodTemplate(TemplateMeta(labels=labels))
    return ObservedWorkload("ReplicaSet", owner, LabelSelector(match_labels=labels), template)


def service(**selector: str) -> Service:
    return Service(Identity(name="s"), ServiceSpec(selector))


def protection(**selector: str) -> PodDisruptionBudget:
    spec = BudgetSpec(selector=LabelSelector(match_labels=selector))
    return PodDisruptionBudget(ObjectMeta(name="p"), spec)


def test_a_deployments_hash_is_withheld() -> None:
    labels = {"app": "web", "pod-template-hash": "5d4"}
    assert label_to_withhold(workload(labels), (), ()) == "pod-template-hash"


def test_a_label_that_neither_services_nor_budgets_select_by_is_withheld() -> None:
    labels = {"a": "1", "b": "2", "c": "3"}
    assert label_to_withhold(workload(labels), [service(a="1")], [protection(b="2")]) == "c"
    assert label_to_withhold(workload(labels), [service(a="1", c="3")], [protection(b="2")]) == "a"
    assert label_to_withhold(workload(labels), [service(a="other")], ()) == "a"


def test_a_selector_that_needs_no_label_leaves_none_to_withhold() -> None:
    web = workload({"app": "web"})
    everything = ObservedWorkload(web.kind, web.owner, LabelSelector(), web.template)
    assert label_to_withhold(everything, (), ()) is None
