"""Anonymised clusters: nothing of the old names is left, and everything still agrees."""

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rescheduler.files.anonymizer import Anonymizer
from rescheduler.files.cluster_file import encode_object, read_cluster
from rescheduler.model.kinds import KIND_BY_NAME
from rescheduler.model.selectors import selects
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.planner import make_plan
from rescheduler.settings import Policy
from testcluster.builders import (
    budget,
    daemonset,
    deployment,
    namespace,
    node,
    pod,
    replicaset,
    statefulset,
)

HOSTNAME = "kubernetes.io/hostname"
LABEL_VALUE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def storage(kind: str, name: str, **parts: Any) -> dict[str, Any]:
    version = "v1" if kind.startswith("Persistent") else "storage.k8s.io/v1"
    metadata = {"name": name, "uid": f"uid-of-acme-{name}", **parts.pop("metadata", {})}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **parts}


CART = deployment("acme-shop/acme-cart", replicas=2)
CART_SET = replicaset("acme-shop/acme-cart-5d9f", replicas=2, owner=CART)
DATABASE = statefulset("acme-shop/acme-db")
AGENT = daemonset("kube-system/acme-agent")
CUSTOM = {
    "apiVersion": "databases.acme.example/v1",
    "kind": "AcmeDatabase",
    "metadata": {"name": "acme-main", "uid": "uid-acme-main"},
}

OBJECTS = [
    namespace("acme-shop", labels={"acme.example/team": "acme-checkout"}),
    node(
        "acme-node-a",
        zone="acme-zone-1",
        labels={"acme.example/pool": "acme-fast", "disks": "4"},
        taints=[{"key": "acme.example/dedicated", "value": "acme-db", "effect": "NoSchedule"}],
        providerID="aws:///acme-zone-1/i-acme",
    ),
    node(
        "acme-node-b",
        zone="acme-zone-2",
        labels={"scheduler.alpha.kubernetes.io/maintenance": "true"},
        resources={"nvidia.com/gpu": "2"},
    ),
    CART,
    CART_SET,
    DATABASE,
    AGENT,
    budget("acme-shop/acme-cart", min_available="50%", allowed=1, selector={"app": "acme-cart"}),
    pod(
        "acme-shop/acme-cart-5d9f-x1",
        on="acme-node-a",
        cpu="500m",
        memory="1Gi",
        owner=CART_SET,
        labels={
            "app": "acme-cart",
            "acme.example/tier": "acme-front",
            "scheduler.alpha.kubernetes.io/migrated-from": "acme-node-b",
        },
        tolerations=[{"key": "acme.example/dedicated", "operator": "Equal", "value": "acme-db"}],
        priorityClassName="acme-high",
        topologySpreadConstraints=[
            {
                "maxSkew": 1,
                "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "acme-cart"}},
                "matchLabelKeys": ["acme.example/tier"],
            }
        ],
        affinity={
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {
                            "matchExpressions": [
                                {"key": "disks", "operator": "Gt", "values": ["2"]},
                                {
                                    "key": "acme.example/pool",
                                    "operator": "In",
                                    "values": ["acme-fast"],
                                },
                            ]
                        }
                    ]
                }
            },
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "topologyKey": "acme.example/rack",
                        "namespaces": ["acme-shop"],
                        "labelSelector": {
                            "matchExpressions": [
                                {"key": "app", "operator": "In", "values": ["acme-cart"]}
                            ]
                        },
                    }
                ]
            },
        },
    ),
    pod(
        "acme-shop/acme-db-0",
        on="acme-node-b",
        cpu="2",
        owner=DATABASE,
        labels={"scheduler.alpha.kubernetes.io/rescheduling": "disabled"},
        annotations={"rescheduler.dev/handoff": "never"},
        volumes=[
            {"name": "acme-data", "persistentVolumeClaim": {"claimName": "acme-data-acme-db-0"}},
            {"name": "acme-scratch", "ephemeral": {"volumeClaimTemplate": {}}},
        ],
    ),
    pod(
        "kube-system/acme-agent-1",
        on="acme-node-a",
        owner=AGENT,
        affinity={
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {
                            "matchFields": [
                                {
                                    "key": "metadata.name",
                                    "operator": "In",
                                    "values": ["acme-node-a"],
                                }
                            ]
                        }
                    ]
                }
            }
        },
        containers=[
            {
                "name": "acme-agent",
                "image": "acme/agent",
                "ports": [{"containerPort": 80, "hostPort": 80, "hostIP": "10.20.30.40"}],
            }
        ],
    ),
    pod("acme-shop/acme-custom", cpu="1", owner=CUSTOM, schedulerName="acme-scheduler"),
    storage(
        "PersistentVolume",
        "acme-pv",
        metadata={"labels": {"topology.kubernetes.io/zone": "acme-zone-1__acme-zone-2"}},
        spec={
            "capacity": {"storage": "10Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "acme-ssd",
            "claimRef": {"namespace": "acme-shop", "name": "acme-data-acme-db-0", "uid": "acme-1"},
            "csi": {"driver": "csi.acme.example", "volumeHandle": "vol-acme"},
        },
    ),
    storage(
        "PersistentVolumeClaim",
        "acme-data-acme-db-0",
        metadata={"namespace": "acme-shop"},
        spec={"storageClassName": "acme-ssd", "volumeName": "acme-pv"},
    ),
    storage(
        "PersistentVolumeClaim",
        "acme-db-0-acme-scratch",
        metadata={"namespace": "acme-shop"},
        spec={"storageClassName": "acme-ssd"},
    ),
    storage("StorageClass", "acme-ssd", provisioner="csi.acme.example"),
    storage("StorageClass", "acme-local", provisioner="kubernetes.io/no-provisioner"),
    storage("CSIDriver", "csi.acme.example"),
    storage("CSINode", "acme-node-a", spec={"drivers": [{"name": "csi.acme.example"}]}),
]


def written(built: dict[str, Any]) -> dict[str, Any]:
    """The object as a snapshot file has it."""
    kind = KIND_BY_NAME[built["kind"]]
    content: dict[str, Any] = json.loads(encode_object(kind, msgspec.convert(built, kind.type)))
    return content


def snapshot_of(objects: list[dict[str, Any]]) -> Snapshot:
    return read_cluster([("x", json.dumps({"kind": "List", "items": objects}).encode())])


@pytest.fixture(scope="module")
def anonymizer() -> Anonymizer:
    return Anonymizer(b"salt")


@pytest.fixture(scope="module")
def renamed(anonymizer: Anonymizer) -> list[dict[str, Any]]:
    return [anonymizer.anonymized(written(built)) for built in OBJECTS]


@pytest.fixture(scope="module")
def before() -> Snapshot:
    return snapshot_of([written(built) for built in OBJECTS])


@pytest.fixture(scope="module")
def after(renamed: list[dict[str, Any]]) -> Snapshot:
    return snapshot_of(renamed)


def find(objects: list[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    return next(obj for obj in objects if (obj["kind"], obj["metadata"]["name"]) == (kind, name))


def test_nothing_of_the_old_names_is_left(renamed: list[dict[str, Any]]) -> None:
    text = json.dumps(renamed).lower()
    assert "acme" not in text
    assert "10.20.30.40" not in text
    for built in OBJECTS:
        uid = built["metadata"].get("uid")
        assert uid is None or uid not in text


def test_numbers_stay_with_their_nodes(
    before: Snapshot, after: Snapshot, anonymizer: Anonymizer
) -> None:
    assert after.resources == before.resources
    row_of = [after.nodes.index[anonymizer.name(name)] for name in before.nodes.names]
    assert np.array_equal(after.nodes.allocatable[row_of], before.nodes.allocatable)
    assert np.array_equal(after.requested[row_of], before.requested)
    assert np.array_equal(after.nodes.ready[row_of], before.nodes.ready)


def test_numbers_stay_with_their_pods(
    before: Snapshot, after: Snapshot, anonymizer: Anonymizer
) -> None:
    keys = ["/".join(map(anonymizer.name, key.split("/"))) for key in before.pods.keys]
    row_of = [after.pods.keys.index(key) for key in keys]
    for column in ("phase", "ready", "deleting", "created"):
        assert np.array_equal(
            getattr(after.pods, column)[row_of], getattr(before.pods, column), equal_nan=True
        )
    assert np.array_equal(
        after.asked[after.pods.template[row_of]], before.asked[before.pods.template]
    )
    names_before = [before.nodes.names[row] for row in before.pods.node if row >= 0]
    names_after = [after.nodes.names[row] for row in after.pods.node[row_of] if row >= 0]
    assert names_after == [anonymizer.name(name) for name in names_before]


def test_budgets_still_select_their_pods(after: Snapshot, anonymizer: Anonymizer) -> None:
    (selector,) = [budget.spec.selector for budget in after.budgets.values()]
    selected = [template for template in after.templates if selects(selector, template.labels)]
    assert [template.owner.name for template in selected if template.owner] == [
        anonymizer.name("acme-cart-5d9f")
    ]


def test_a_name_is_the_same_in_every_role(
    renamed: list[dict[str, Any]], anonymizer: Anonymizer
) -> None:
    host = anonymizer.name("acme-node-a")
    agent = find(renamed, "Pod", anonymizer.name("acme-agent-1"))
    affinity = agent["spec"]["affinity"]["nodeAffinity"]
    (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert agent["spec"]["nodeName"] == host
    assert term["matchFields"] == [{"key": "metadata.name", "operator": "In", "values": [host]}]
    assert find(renamed, "Node", host)["metadata"]["labels"][HOSTNAME] == host
    assert find(renamed, "CSINode", host)


def test_private_label_keys_agree_wherever_they_are_used(
    renamed: list[dict[str, Any]], anonymizer: Anonymizer
) -> None:
    cart = find(renamed, "Pod", anonymizer.name("acme-cart-5d9f-x1"))
    tier = anonymizer.name("acme.example/tier")
    (spread,) = cart["spec"]["topologySpreadConstraints"]
    assert cart["metadata"]["labels"][tier] == anonymizer.name("acme-front")
    assert spread["matchLabelKeys"] == [tier]
    assert spread["topologyKey"] == "topology.kubernetes.io/zone"
    taint = find(renamed, "Node", anonymizer.name("acme-node-a"))["spec"]["taints"][0]
    toleration = cart["spec"]["tolerations"][0]
    assert (taint["key"], taint["value"]) == (toleration["key"], toleration["value"])


def test_the_claim_of_an_ephemeral_volume_is_found_by_its_name(
    renamed: list[dict[str, Any]], anonymizer: Anonymizer
) -> None:
    database = find(renamed, "Pod", anonymizer.name("acme-db-0"))
    scratch = database["spec"]["volumes"][1]["name"]
    name = f"{database['metadata']['name']}-{scratch}"
    assert find(renamed, "PersistentVolumeClaim", name)


def test_several_zones_in_one_label_are_renamed_one_by_one(
    renamed: list[dict[str, Any]], anonymizer: Anonymizer
) -> None:
    volume = find(renamed, "PersistentVolume", anonymizer.name("acme-pv"))
    zones = volume["metadata"]["labels"]["topology.kubernetes.io/zone"]
    assert zones.split("__") == [anonymizer.name("acme-zone-1"), anonymizer.name("acme-zone-2")]


def test_what_has_a_meaning_of_its_own_stays(
    renamed: list[dict[str, Any]], anonymizer: Anonymizer
) -> None:
    database = find(renamed, "Pod", anonymizer.name("acme-db-0"))
    assert database["metadata"]["labels"] == {
        "scheduler.alpha.kubernetes.io/rescheduling": "disabled"
    }
    assert database["metadata"]["annotations"] == {"rescheduler.dev/handoff": "never"}
    maintained = find(renamed, "Node", anonymizer.name("acme-node-b"))
    assert maintained["metadata"]["labels"]["scheduler.alpha.kubernetes.io/maintenance"] == "true"
    assert maintained["status"]["allocatable"]["nvidia.com/gpu"] == "2"
    assert find(renamed, "Pod", anonymizer.name("acme-agent-1"))["metadata"]["namespace"] == (
        "kube-system"
    )
    local = find(renamed, "StorageClass", anonymizer.name("acme-local"))
    assert local["provisioner"] == "kubernetes.io/no-provisioner"


@pytest.mark.parametrize(
    "kept",
    [
        *("", "true", "false", "42", "-1", "default", "system-node-critical", "0.0.0.0"),
        *("default-scheduler", "node.kubernetes.io/not-ready", "topology.ebs.csi.aws.com/zone"),
    ],
)
def test_well_known_words_and_numbers_stay(kept: str, anonymizer: Anonymizer) -> None:
    assert anonymizer.name(kept) == kept


def test_custom_roles_of_nodes_are_renamed_and_still_agree(anonymizer: Anonymizer) -> None:
    role = "node-role.kubernetes.io/acme-payments"
    labels = {role: "", "node-role.kubernetes.io/control-plane": ""}
    machine = anonymizer.anonymized(written(node("a", labels=labels)))
    bound = anonymizer.anonymized(written(pod("shop/x", nodeSelector={role: ""})))
    (renamed,) = bound["spec"]["nodeSelector"]
    assert renamed.startswith("node-role.kubernetes.io/")
    assert "acme" not in renamed
    assert {renamed, "node-role.kubernetes.io/control-plane"} <= set(machine["metadata"]["labels"])


def test_names_of_conditions_are_renamed_unless_kubernetes_defines_them(
    anonymizer: Anonymizer,
) -> None:
    machine = node("a")
    machine["status"]["conditions"] += [
        {"type": "AcmeFirmwareOutdated", "status": "True", "reason": "AcmeFleet"},
        {"type": "MemoryPressure", "status": "Unknown"},
    ]
    conditions = anonymizer.anonymized(written(machine))["status"]["conditions"]
    assert "acme" not in json.dumps(conditions).lower()
    assert [each["type"] for each in conditions if not each["type"].startswith("x")] == [
        "Ready",
        "MemoryPressure",
    ]
    assert {each["status"] for each in conditions} == {"True", "Unknown"}


def test_numbers_that_may_identify_someone_are_renamed(anonymizer: Anonymizer) -> None:
    built = pod("4711/db-0", labels={"account": "123456789012", "shard": "7"})
    renamed = anonymizer.anonymized(written(built))
    assert renamed["metadata"]["namespace"] == anonymizer.name("4711") != "4711"
    assert set(renamed["metadata"]["labels"].values()) == {anonymizer.name("123456789012"), "7"}
    assert "123456789012" not in json.dumps(renamed)
    assert "4711" not in json.dumps(renamed)


def test_sizes_of_machines_can_still_be_compared(anonymizer: Anonymizer) -> None:
    key, secret = "karpenter.k8s.aws/instance-memory", "acme.example/account"
    machine = anonymizer.anonymized(written(node("a", labels={key: "65536", secret: "65536"})))
    assert machine["metadata"]["labels"][key] == "65536"
    assert machine["metadata"]["labels"][anonymizer.name(secret)] != "65536"
    larger = {"key": key, "operator": "Gt", "values": ["32768"]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [larger]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    renamed = anonymizer.anonymized(written(pod("shop/x", affinity=affinity)))
    assert json.dumps(larger) in json.dumps(renamed)
    listed = {"key": secret, "operator": "Exists", "values": []}
    assert "acme" not in json.dumps(anonymizer.anonymized({"matchExpressions": [listed]}))


@pytest.mark.parametrize(
    "private",
    [
        "web-0",
        "4711",
        "-1234",
        "node-restriction.kubernetes.io/acme",
        "notkubernetes.io/x",
        "k8s.io.acme.example/x",
        "aws:///zone/i-0",
        "1.5",
        "ä" * 80,
    ],
)
def test_everything_else_becomes_a_valid_name(private: str, anonymizer: Anonymizer) -> None:
    name = anonymizer.name(private)
    assert name != private
    assert LABEL_VALUE.fullmatch(name.rpartition("/")[2])


def test_another_salt_gives_other_names() -> None:
    assert Anonymizer(b"one").name("web-0") != Anonymizer(b"two").name("web-0")
    assert Anonymizer(b"one").name("web-0") == Anonymizer(b"one").name("web-0")


def test_twenty_thousand_names_do_not_collide(anonymizer: Anonymizer) -> None:
    assert len({anonymizer.name(f"pod-{number}") for number in range(20_000)}) == 20_000


def test_planning_finds_the_same_answers(
    before: Snapshot, after: Snapshot, anonymizer: Anonymizer
) -> None:
    """Ties are broken by name, so the moves may be others, but not what they achieve."""
    plan, renamed_plan = make_plan(before, Policy()), make_plan(after, Policy())
    assert len(renamed_plan.moves) == len(plan.moves)
    assert renamed_plan.before.objective == pytest.approx(plan.before.objective)
    assert renamed_plan.after.objective == pytest.approx(plan.after.objective)
    blockers = {(blocked.blocker, blocked.pod.rpartition("/")[2]) for blocked in plan.blocked}
    renamed_blockers = {
        (blocked.blocker, blocked.pod.rpartition("/")[2]) for blocked in renamed_plan.blocked
    }
    assert renamed_blockers == {(blocker, anonymizer.name(pod)) for blocker, pod in blockers}


def test_pods_that_a_budget_has_let_go_are_renamed_like_all_others() -> None:
    disrupted = budget("shop/db", max_unavailable=1, allowed=0)
    disrupted["status"]["disruptedPods"] = {"db-secret-0": "2025-01-01T00:00:00Z"}
    anonymizer = Anonymizer(b"salt")
    renamed = anonymizer.anonymized(disrupted)["status"]["disruptedPods"]
    assert list(renamed) == [anonymizer.name("db-secret-0")]


# ---------------------------------------------------------------- a secret anywhere

SECRET = "zanzibar"
FORMS = (
    "{}",
    "{}-1",
    "kubernetes.io/{}",
    "kubernetes.io/cluster/prod-{}",
    "{}.k8s.io/x",
    "{}.com/gpu",
    "{}corp/gpu",
    "nvidia.com/{}",
    "feature.node.kubernetes.io/custom-{}",
    "node-role.kubernetes.io/{}",
    "rescheduler.dev/{}",
    "karpenter.sh/{}",
    "hugepages-{}",
    "attachable-volumes-csi-{}",
    "{}/v1",
    "apps/v1{}",
    "10 {}",
    "true {}",
    "2026-01-01T00:00:00Z{}",
    "zone-a__{}",
)
MAPS = {"labels", "annotations", "matchLabels", "nodeSelector", "disruptedPods"}
AMOUNTS = {"allocatable", "capacity", "requests", "limits", "overhead"}
MEANINGFUL = (
    "rescheduler.dev/move-cost",
    "rescheduler.dev/node-cost",
    "rescheduler.dev/handoff",
    "karpenter.sh/do-not-disrupt",
    "cluster-autoscaler.kubernetes.io/safe-to-evict",
    "scheduler.alpha.kubernetes.io/maintenance",
    "scheduler.alpha.kubernetes.io/rescheduling",
    "karpenter.k8s.aws/instance-memory",
)
Place = tuple[tuple[str | int, ...], bool]
"""Where a text is, and whether it is the key there."""


def places(content: Any, path: tuple[str | int, ...] = ()) -> Iterator[Place]:
    """Every text of an object, and every key that people choose."""
    if isinstance(content, str):
        yield path, False
    elif isinstance(content, dict):
        for key, value in content.items():
            if path and path[-1] in MAPS | AMOUNTS:
                yield (*path, key), True
            yield from places(value, (*path, key))
    elif isinstance(content, list):
        for number, value in enumerate(content):
            yield from places(value, (*path, number))


def with_text(content: Any, place: Place, text: str) -> Any:
    (first, *rest), is_key = place
    copied: Any = dict(content) if isinstance(content, dict) else list(content)
    if rest:
        copied[first] = with_text(content[first], (tuple(rest), is_key), text)
    elif is_key:
        return {text if key == first else key: value for key, value in content.items()}
    else:
        copied[first] = text
    return copied


@given(st.data())
@settings(max_examples=400)
def test_a_secret_is_not_found_wherever_it_was(data: st.DataObject) -> None:
    built = data.draw(st.sampled_from(OBJECTS))
    metadata = dict(built["metadata"])
    metadata["annotations"] = {
        **metadata.get("annotations", {}),
        data.draw(st.sampled_from(MEANINGFUL)): "1",
    }
    built = {**built, "metadata": metadata}
    place = data.draw(st.sampled_from(list(places(built))))
    text = data.draw(st.sampled_from(FORMS)).format(SECRET)
    renamed = json.dumps(Anonymizer(b"salt").anonymized(with_text(built, place, text)))
    assert SECRET not in renamed, (place, text)


def test_owners_of_unknown_kinds_are_renamed_whatever_their_group() -> None:
    for version in ("v1", "apps/v1", "zanzibar/v1", "batch/v1", "zanzibar.k8s.io/v1"):
        owner = {"apiVersion": version, "kind": "ZanzibarThing", "metadata": {"name": "z"}}
        text = json.dumps(Anonymizer(b"salt").anonymized(written(pod("a/b", owner=owner))))
        assert SECRET not in text.lower()


def test_private_resources_are_renamed_and_counted_as_before() -> None:
    machine = node("a", resources={"zanzibar.com/gpu": "4", "nvidia.com/gpu": "2"})
    request = {"resources": {"requests": {"zanzibar.com/gpu": "3", "cpu": "1"}}}
    asking = pod("shop/x", on="a", containers=[{"name": "c", "image": "i", **request}])
    anonymizer = Anonymizer(b"salt")
    objects = [anonymizer.anonymized(written(built)) for built in (machine, asking)]
    assert SECRET not in json.dumps(objects)
    cluster = snapshot_of(objects)
    assert "nvidia.com/gpu" in cluster.resources
    (private,) = {name for name in cluster.resources if ".example/" in name}
    column = cluster.resources.index(private)
    assert cluster.nodes.allocatable[0][column] == 4
    assert cluster.requested[0][column] == 3


def test_what_was_kept_can_be_looked_at() -> None:
    anonymizer = Anonymizer(b"salt")
    anonymizer.anonymized(written(node("a", zone="z", resources={"nvidia.com/gpu": "2"})))
    assert {"nvidia.com/gpu", "topology.kubernetes.io/zone", "Node"} <= anonymizer.kept
    assert not {name for name in anonymizer.kept if name.startswith("x")}
