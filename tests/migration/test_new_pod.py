"""The name, spec and labels of a new pod."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from rescheduler.labels import ORIGINAL_POD, PLACING_GATE, PREVIOUS_MARKS
from rescheduler.migration.migration_object import (
    Migration,
    MigrationMeta,
    MigrationSpec,
    PodReference,
)
from rescheduler.migration.moving_pod import (
    MovingContainer,
    MovingPod,
    MovingPodSpec,
    PodMeta,
)
from rescheduler.migration.new_pod import (
    copy_name,
    gated_replica,
    label_to_withhold,
    original_spec,
    replica_name,
)
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
from rescheduler.model.rules.network_policies import (
    ApiGroup,
    ApiGroups,
    NetworkPolicy,
    policy_labels,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SPEC: dict[str, Any] = {
    "containers": [{"name": "main", "image": "a", "resources": {"requests": {"cpu": "1"}}}],
    "initContainers": [{"name": "sidecar", "image": "b", "restartPolicy": "Always"}],
    "affinity": {"nodeAffinity": {"preferred": [1]}},
}
HASH = "pod-template-hash"
LABELS = {"app": "web", HASH: "5d4"}
SPREAD = "topologySpreadConstraints"


def running(labels: dict[str, str] | None = None, **spec: Any) -> MovingPod:
    metadata = PodMeta(name="web-1", namespace="shop", uid="old", labels=labels or {})
    return MovingPod(metadata, MovingPodSpec(**spec))


def new_pod_of(old: MovingPod, spec: dict[str, Any] = SPEC) -> dict[str, Any]:
    template = RawPodTemplate(TemplateMeta(labels=LABELS), msgspec.Raw(msgspec.json.encode(spec)))
    owner = ReplicaSet(Identity(name="web-5d4"))
    observed = ObservedWorkload("ReplicaSet", owner, LabelSelector(match_labels=LABELS), template)
    migration = Migration(
        MigrationMeta(name="m", namespace="shop", uid="mig"),
        MigrationSpec(PodReference("web-1", "old"), "b"),
    )
    return gated_replica(migration, observed, old, HASH, NOW)


def test_the_spec_of_a_new_pod_is_its_template_with_our_gate_and_nothing_else() -> None:
    created = new_pod_of(running())["spec"]
    assert created.pop("schedulingGates") == [{"name": PLACING_GATE}]
    created["initContainers"][0].pop("resources")
    assert created == SPEC


def test_a_copy_of_a_pod_that_an_earlier_version_pinned_is_not_pinned() -> None:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    pin = {"key": "metadata.name", "operator": "In", "values": ["b"]}
    own = {"key": "disk", "operator": "In", "values": ["ssd"]}

    def copied(annotation: str, *terms: dict[str, Any]) -> Any:
        affinity = {"nodeAffinity": {required: {"nodeSelectorTerms": list(terms)}}}
        pod = {"metadata": {"annotations": {annotation: f'{{"{ORIGINAL_POD}":"7"}}'}}}
        return original_spec({**pod, "spec": {"containers": [], "affinity": affinity}}).get(
            "affinity"
        )

    for annotation in (ORIGINAL_POD, PREVIOUS_MARKS):
        assert copied(annotation, {"matchFields": [pin]}) is None
        kept = copied(annotation, {"matchExpressions": [own], "matchFields": [pin]})
        (term,) = kept["nodeAffinity"][required]["nodeSelectorTerms"]
        assert term["matchExpressions"] == [own]
        assert not term["matchFields"]
    assert copied("example.com/other", {"matchFields": [pin]}) is not None


def test_a_copy_leaves_out_only_the_token_that_admission_adds_again() -> None:
    token = {"sources": [{"serviceAccountToken": {"path": "token"}}, {"configMap": {"name": "ca"}}]}
    sources: dict[str, Any] = {
        "kube-api-access-x7k2q": {"projected": token},
        "kube-api-access-data": {"fc": {"targetWWNs": ["50060e801049cfd1"], "lun": 0}},
        "kube-api-access-ca": {"projected": {"sources": [{"configMap": {"name": "ca"}}]}},
        "vault": {"projected": token},
    }
    mounts = [{"name": name, "mountPath": f"/{name}"} for name in sources]
    spec: dict[str, Any] = {
        "volumes": [{"name": name, **source} for name, source in sources.items()],
        "containers": [{"name": "main", "image": "a", "volumeMounts": mounts}],
    }
    copied = original_spec({"metadata": {}, "spec": spec})
    assert copied["volumes"] == spec["volumes"][1:]
    assert copied["containers"][0]["volumeMounts"] == mounts[1:]


def spread(*expressions: dict[str, Any], keys: tuple[str, ...] = (HASH,)) -> dict[str, Any]:
    selector: dict[str, Any] = {"matchLabels": {"app": "web"}}
    if expressions:
        selector["matchExpressions"] = list(expressions)
    return {"topologyKey": "zone", "labelSelector": selector, "matchLabelKeys": list(keys)}


def expression(key: str, *values: str, operator: str = "In") -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


def test_a_new_pod_gets_what_the_server_has_added_to_the_old_one_for_the_withheld_label() -> None:
    merged, app = expression(HASH, "5d4"), expression("app", "web")

    def created(written: dict[str, Any], *running_terms: dict[str, Any]) -> Any:
        old = running(labels=LABELS, topology_spread_constraints=running_terms)
        (found,) = new_pod_of(old, {**SPEC, SPREAD: [written]})["spec"][SPREAD]
        return found

    own = expression("tier", operator="Exists")
    assert created(spread(own), spread(own, merged)) == spread(own, merged)
    assert created(spread(), spread(own, merged), spread(merged)) == spread(merged)
    # This server adds nothing, and would refuse such an expression.
    assert created(spread(), spread()) == spread()
    # The new pod has this label from the start, so the server adds it itself.
    both = ("app", HASH)
    assert created(spread(keys=both), spread(app, merged, keys=both)) == spread(merged, keys=both)


def test_a_copy_has_no_expression_that_the_server_will_add_again() -> None:
    def copied(*expressions: dict[str, Any]) -> Any:
        terms = [spread(*expressions)]
        pod = {"metadata": {"labels": LABELS}, "spec": {"containers": [], SPREAD: terms}}
        return original_spec(pod)[SPREAD][0]

    assert copied(expression(HASH, "5d4")) == spread()
    others = (
        expression(HASH, "5d4", operator="NotIn"),
        expression(HASH, "5d4", "other"),
        expression(HASH, "other"),
        expression("app", "web"),
        expression(HASH, operator="Exists"),
    )
    assert copied(*others, expression(HASH, "5d4")) == spread(*others)


def test_a_template_may_have_nulls() -> None:
    container = {"name": "main", "image": "a", "resources": None, "ports": None}
    spec = {
        **SPEC,
        "containers": [container],
        "schedulingGates": None,
        "volumes": None,
        SPREAD: None,
    }
    left_out = {**SPEC, "containers": [{"name": "main", "image": "a"}]}
    assert new_pod_of(running(), spec) == new_pod_of(running(), left_out)


def test_gates_of_the_template_stay() -> None:
    created = new_pod_of(running(), {**SPEC, "schedulingGates": [{"name": "queue"}]})["spec"]
    assert created["schedulingGates"] == [{"name": "queue"}, {"name": PLACING_GATE}]


def test_a_new_pod_gets_the_resources_that_the_running_pod_was_resized_to() -> None:
    resized = {"requests": {"cpu": "2"}, "limits": {"cpu": "4"}}
    small = {"requests": {"cpu": "10m"}}
    old = running(
        containers=(MovingContainer("main", resized), MovingContainer("other", small)),
        init_containers=(MovingContainer("sidecar", small),),
        resources={"requests": {"cpu": "3"}},
    )
    created = new_pod_of(old)["spec"]
    assert created["containers"] == [{"name": "main", "image": "a", "resources": resized}]
    assert created["initContainers"][0]["resources"] == small
    assert created["resources"] == {"requests": {"cpu": "3"}}


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
    assert label_to_withhold(workload(LABELS), (), ()) == HASH


def test_a_label_that_neither_services_nor_budgets_select_by_is_withheld() -> None:
    labels = {"a": "1", "b": "2", "c": "3"}
    assert label_to_withhold(workload(labels), [service(a="1")], [protection(b="2")]) == "c"
    assert label_to_withhold(workload(labels), [service(a="1", c="3")], [protection(b="2")]) == "a"
    assert label_to_withhold(workload(labels), [service(a="other")], ()) == "a"


def network_policy(namespace: str = "shop", **spec: Any) -> NetworkPolicy:
    metadata = {"name": "p", "namespace": namespace}
    return msgspec.convert({"metadata": metadata, "spec": spec}, NetworkPolicy)


def selecting(**labels: str) -> dict[str, Any]:
    return {"podSelector": {"matchLabels": labels}}


NO_GROUPS = ApiGroups()
EXCLUDING = {"matchExpressions": [{"key": "pci", "operator": "DoesNotExist"}]}
EVERYWHERE: dict[str, Any] = {"namespaceSelector": {}, **selecting(app="db")}


@pytest.mark.parametrize(
    ("policy", "withheld"),
    [
        (network_policy(**selecting(app="db")), "pci"),
        (network_policy(**selecting(app="other")), "pci"),
        (network_policy(podSelector=EXCLUDING), "app"),
        (network_policy(podSelector={}, ingress=[{"from": [selecting(app="db")]}]), "pci"),
        (network_policy(podSelector={}, egress=[{"to": [selecting(app="db")]}]), "pci"),
        (network_policy(**selecting(app="db", pci="true")), None),
        (network_policy("other", podSelector={}, ingress=[{"from": [EVERYWHERE]}]), "pci"),
        (network_policy("other", **selecting(app="db", pci="true")), "app"),
    ],
    ids=str,
)
def test_no_label_is_withheld_by_which_a_network_policy_selects(
    policy: NetworkPolicy, withheld: str | None
) -> None:
    plain = workload({"app": "db", "pci": "true"})
    labels = policy_labels("shop", [policy], NO_GROUPS)
    assert label_to_withhold(plain, (), (), labels) == withheld


def test_only_a_template_hash_is_withheld_where_policies_cannot_be_read() -> None:
    groups = ApiGroups((ApiGroup("apps"), ApiGroup("cilium.io")))
    unknown = policy_labels("shop", [], groups)
    assert unknown.unknown_because == "policies of cilium.io are not read"
    assert label_to_withhold(workload({"app": "db"}), (), (), unknown) is None
    rollout = workload({"app": "db", "rollouts-pod-template-hash": "7"})
    assert label_to_withhold(rollout, (), (), unknown) == "rollouts-pod-template-hash"


def test_a_selector_that_needs_no_label_leaves_none_to_withhold() -> None:
    web = workload({"app": "web"})
    everything = ObservedWorkload(web.kind, web.owner, LabelSelector(), web.template)
    assert label_to_withhold(everything, (), ()) is None
