"""Pods that were moved are as their replicas, unless somebody looks at what tells them apart."""

import gc
import tracemalloc
import uuid
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.files.cluster_file import encode_object, read_cluster
from rescheduler.labels import (
    MIGRATED_FROM,
    MIGRATION_ID,
    MIGRATION_LABELS,
    MIGRATION_NAME,
    MIGRATION_REASON,
    MIGRATION_STATUS,
    ORIGINAL_POD,
    STEERED_BY,
)
from rescheduler.model.kinds import KIND_BY_NAME, SERVICE
from rescheduler.model.objects import LabelSelector, Pod, Service
from rescheduler.model.quantities import BadQuantity
from rescheduler.model.selectors import selects
from rescheduler.model.snapshot import Snapshot
from rescheduler.model.tables.cluster_tables import ClusterTables
from testcluster.builders import budget, node, pod, replicaset, uid_of
from testcluster.snapshots import snapshot_of

JsonObject = dict[str, Any]

OWNER = replicaset("shop/web", replicas=3)
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def labels_of_move(number: int) -> dict[str, str]:
    return {
        MIGRATION_ID: uid_of("Migration", str(number)),
        MIGRATION_STATUS: "completed",
        MIGRATED_FROM: f"n{number % 50}",
        MIGRATION_REASON: "LoadBalancing",
    }


def replica(number: int, moved: bool = True, **options: Any) -> JsonObject:
    labels = {"app": "web", **(labels_of_move(number) if moved else {})}
    annotations = {ORIGINAL_POD: str(uuid.uuid4()), MIGRATION_NAME: f"m{number}"} if moved else {}
    options = {"on": "n0", "cpu": "100m", **options}
    name = f"shop/web-{number:05}"
    return pod(name, owner=OWNER, labels=labels, annotations=annotations, **options)


def filled(objects: Iterable[JsonObject]) -> ClusterTables:
    tables = ClusterTables()
    for item in objects:
        put(tables, item)
    return tables


def put(tables: ClusterTables, item: JsonObject) -> None:
    kind = KIND_BY_NAME[item["kind"]]
    tables.of(kind).put(msgspec.convert(item, kind.type))


def remove(tables: ClusterTables, item: JsonObject) -> None:
    kind = KIND_BY_NAME[item["kind"]]
    tables.of(kind).remove(msgspec.convert(item, kind.type))


def templates_by_pod(snapshot: Snapshot) -> dict[str, int]:
    return dict(zip(snapshot.pods.keys, snapshot.pods.template.tolist(), strict=True))


# ------------------------------------------------------------ labels that nobody looks at


def test_ten_thousand_moved_pods_take_the_memory_of_as_many_that_stayed() -> None:
    snapshot_of([replica(0)])  # imports what is imported late
    stayed = bytes_taken_by(moved=False)
    assert bytes_taken_by(moved=True) < 1.2 * stayed


def bytes_taken_by(moved: bool) -> int:
    """What the table keeps of 10,000 pods."""
    lines = [msgspec.json.encode(replica(number, moved)) for number in range(10_000)]
    decode = msgspec.json.Decoder(Pod).decode
    gc.collect()
    tracemalloc.start()
    try:
        tables = ClusterTables()
        for line in lines:
            tables.pods.put(decode(line))
        assert len(tables.snapshot().templates) == 1
        gc.collect()
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def test_what_migrations_write_on_pods_is_in_the_snapshot_all_the_same() -> None:
    snapshot = snapshot_of([replica(0, moved=False), replica(1), replica(2)])
    labels = [snapshot.pods.move_labels[row] for row in range(3)]
    assert labels == [{}, labels_of_move(1), labels_of_move(2)]
    assert snapshot.templates[0].labels == {"app": "web"}


def test_a_label_that_is_gone_again_is_forgotten() -> None:
    tables = filled([replica(0)])
    put(tables, replica(0, moved=False))
    assert tables.snapshot() == snapshot_of([replica(0, moved=False)])


# ------------------------------------------------------------ labels that somebody looks at


def anti_affinity(key: str) -> JsonObject:
    selector = {"matchExpressions": [{"key": key, "operator": "Exists"}]}
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}
    return {"podAntiAffinity": {REQUIRED: [term]}}


def spread(**constraint: Any) -> list[JsonObject]:
    return [{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule", **constraint}]


def with_selector(item: JsonObject, selector: JsonObject) -> JsonObject:
    return {**item, "spec": {**item["spec"], "selector": selector}}


SELECTING: list[JsonObject] = [
    budget("shop/moved", selector={MIGRATED_FROM: "n1"}),
    with_selector(
        budget("shop/not-moved"),
        {"matchExpressions": [{"key": MIGRATION_ID, "operator": "DoesNotExist"}]},
    ),
    pod("shop/lonely", on="n1", affinity=anti_affinity(MIGRATION_STATUS)),
    pod(
        "shop/spread",
        on="n1",
        topologySpreadConstraints=spread(labelSelector={"matchLabels": {MIGRATION_REASON: "x"}}),
    ),
    pod(
        "shop/keyed",
        on="n1",
        labels=labels_of_move(7),
        topologySpreadConstraints=spread(
            labelSelector={"matchLabels": {"app": "web"}}, matchLabelKeys=[MIGRATION_ID]
        ),
    ),
    with_selector(
        replicaset("shop/odd", replicas=1), {"matchLabels": {MIGRATION_STATUS: "completed"}}
    ),
]


def selector_of(item: JsonObject) -> LabelSelector:
    spec = item["spec"]
    if "selector" in spec:
        found = spec["selector"]
    elif "affinity" in spec:
        found = spec["affinity"]["podAntiAffinity"][REQUIRED][0]["labelSelector"]
    else:
        found = spec["topologySpreadConstraints"][0]["labelSelector"]
    return msgspec.convert(found, LabelSelector)


@given(st.permutations([*SELECTING, *(replica(number, number > 0) for number in range(4))]))
def test_selectors_match_templates_as_they_match_pods_whatever_came_first(
    objects: list[JsonObject],
) -> None:
    snapshot = filled(objects).snapshot()
    pods = [item for item in objects if item["kind"] == "Pod"]
    for item in pods:
        template = snapshot.templates[templates_by_pod(snapshot)[key_of(item)]]
        for selecting in SELECTING:
            selector = selector_of(selecting)
            labels = item["metadata"].get("labels", {})
            assert selects(selector, template.labels) == selects(selector, labels), selecting


def key_of(item: JsonObject) -> str:
    return f"{item['metadata']['namespace']}/{item['metadata']['name']}"


def in_versions(item: JsonObject, version: int) -> JsonObject:
    metadata = {**item["metadata"], "resourceVersion": str(version)}
    return {**item, "metadata": metadata}


EVERYTHING = [*SELECTING, *(replica(number, number > 1) for number in range(5))]


@given(st.lists(st.tuples(st.booleans(), st.sampled_from(range(len(EVERYTHING)))), max_size=40))
def test_a_snapshot_does_not_depend_on_selectors_that_came_and_went(
    steps: list[tuple[bool, int]],
) -> None:
    tables, there = ClusterTables(), {}
    for version, (comes, which) in enumerate(steps, start=1):
        item = in_versions(EVERYTHING[which], version)
        if comes:
            put(tables, item)
            there[which] = item
        else:
            remove(tables, item)
            there.pop(which, None)
    assert tables.snapshot() == snapshot_of(there.values())


NAMES = ["Pod shop/a", "Pod shop/b", "PodDisruptionBudget shop/c", "ReplicaSet shop/d"]


def object_named(name: str, selected: str | None, generation: int = 0) -> JsonObject:
    """An object that selects by this label; each generation is another one of the same name."""
    kind, _, key = name.partition(" ")
    match = {selected or "app": "x"}
    if kind == "Pod":
        affinity = anti_affinity(selected) if selected else {}
        item = pod(key, on="n1", labels=labels_of_move(8), affinity=affinity)
    elif kind == "ReplicaSet":
        item = with_selector(replicaset(key, replicas=1), {"matchLabels": match})
    else:
        item = budget(key, selector=match)
    item["metadata"]["uid"] = uid_of(kind, f"{key} {generation}")
    return item


GENERATIONS = st.builds(
    object_named,
    st.sampled_from(NAMES),
    st.sampled_from([None, MIGRATION_STATUS, MIGRATED_FROM]),
    st.integers(0, 1),
)


@given(st.lists(st.tuples(st.booleans(), GENERATIONS), max_size=20))
def test_a_snapshot_does_not_depend_on_predecessors_of_the_same_name(
    steps: list[tuple[bool, JsonObject]],
) -> None:
    tables = ClusterTables()
    there: dict[str, JsonObject] = {}
    for version, (comes, described) in enumerate(steps, start=1):
        item = in_versions(described, version)
        if comes:
            put(tables, item)
            there[key_of(item)] = item
        else:
            remove(tables, item)
            found = there.get(key_of(item))
            if found is not None and found["metadata"]["uid"] == item["metadata"]["uid"]:
                del there[key_of(item)]
    assert tables.snapshot() == snapshot_of(there.values())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("labels", [(MIGRATION_STATUS, None), (None, MIGRATION_STATUS)])
def test_labels_that_only_a_predecessor_or_only_its_successor_selects_by(
    name: str, labels: tuple[str | None, str | None]
) -> None:
    old, new = (
        in_versions(object_named(name, label, generation=number), number + 1)
        for number, label in enumerate(labels)
    )
    others = [replica(1), replica(2)]
    assert filled([*others, old, new]).snapshot() == snapshot_of([*others, new])


def test_a_successor_that_cannot_be_read_leaves_its_predecessor_in_place() -> None:
    old = in_versions(object_named("Pod shop/a", MIGRATION_STATUS), 1)
    tables = filled([old])
    new = in_versions(object_named("Pod shop/a", None, generation=1), 2)
    new["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "lots"}}
    with pytest.raises(BadQuantity):
        put(tables, new)
    assert tables.snapshot() == snapshot_of([old])


def test_only_the_label_that_is_looked_at_splits_templates() -> None:
    tables = filled(replica(number) for number in range(200))
    put(tables, SELECTING[0])
    snapshot = tables.snapshot()
    assert len(snapshot.templates) == 50
    assert set(snapshot.templates[0].labels) == {"app", MIGRATED_FROM}
    remove(tables, SELECTING[0])
    assert len(tables.snapshot().templates) == 1


def test_a_service_of_the_simulated_scheduler_counts_too() -> None:
    tables = filled([replica(0), replica(1)])
    services = tables.selector_table(SERVICE)
    metadata = {"name": "s", "namespace": "shop", "uid": "1", "resourceVersion": "1"}
    body = {"metadata": metadata, "spec": {"selector": {MIGRATION_ID: "x"}}}
    services.put(msgspec.convert(body, Service))
    assert len(tables.snapshot().templates) == 2


def test_a_cluster_file_gives_the_same_snapshot() -> None:
    objects = [node("n0"), node("n1"), *EVERYTHING]
    encoded = [
        encode_object(kind, msgspec.convert(item, kind.type))
        for item in objects
        for kind in [KIND_BY_NAME[item["kind"]]]
    ]
    data = b'{"apiVersion":"v1","kind":"List","items":[' + b",".join(encoded) + b"]}"
    assert read_cluster([("cluster.json", data)]) == snapshot_of(objects)


# ------------------------------------------------------------ pods that earlier versions pinned


def by_name(name: str, operator: str = "In") -> JsonObject:
    return {"key": "metadata.name", "operator": operator, "values": [name]}


def in_zones(*zones: str) -> JsonObject:
    return {"key": "zone", "operator": "In", "values": list(zones)}


def required(*terms: JsonObject) -> JsonObject:
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}


def test_a_pin_of_ours_does_not_show() -> None:
    pinned = replica(1, affinity=required({"matchFields": [by_name("n0")]}))
    assert snapshot_of([pinned]).templates == snapshot_of([replica(0, moved=False)]).templates


def test_what_the_user_requires_and_prefers_stays() -> None:
    own = required(
        {"matchExpressions": [in_zones("a")]},
        {"matchExpressions": [in_zones("b")], "matchFields": [by_name("n9", "NotIn")]},
    )
    own["nodeAffinity"][PREFERRED] = [
        {"weight": 1, "preference": {"matchExpressions": [in_zones("a")]}}
    ]
    own["podAntiAffinity"] = anti_affinity("app")["podAntiAffinity"]
    pinned = msgspec.json.decode(msgspec.json.encode(own))
    for term in pinned["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]:
        term["matchFields"] = [*term.get("matchFields", []), by_name("n0")]
    snapshot = snapshot_of([replica(0, moved=False, affinity=own), replica(1, affinity=pinned)])
    assert len(snapshot.templates) == 1


def test_only_what_pins_every_term_to_one_node_is_ours() -> None:
    terms = [{"matchFields": [by_name("n0")]}, {"matchFields": [by_name("n1")]}]
    others = [
        required(*terms),
        required(terms[0], {"matchExpressions": [in_zones("a")]}),
        required({"matchFields": [by_name("n0", "NotIn")]}),
    ]
    for affinity in others:
        moved, stayed = replica(1, affinity=affinity), replica(0, moved=False, affinity=affinity)
        assert snapshot_of([moved]).templates == snapshot_of([stayed]).templates


def test_a_pod_without_our_mark_stays_pinned() -> None:
    pinned = replica(0, moved=False, affinity=required({"matchFields": [by_name("n0")]}))
    (template,) = snapshot_of([pinned]).templates
    assert template.affinity is not None


def test_a_pin_holds_until_the_pod_is_bound() -> None:
    affinity = required({"matchFields": [by_name("n0")]})
    (template,) = snapshot_of([replica(1, on=None, affinity=affinity)]).templates
    assert template.affinity is not None


def test_preferences_of_a_replacement_that_was_steered_do_not_show() -> None:
    steering = [
        {"weight": 100, "preference": {"matchFields": [by_name("n0")]}},
        {"weight": 50, "preference": {"matchFields": [by_name("n1", "NotIn")]}},
    ]
    own = [{"weight": 3, "preference": {"matchExpressions": [in_zones("a")]}}]
    steered = replica(1, affinity={"nodeAffinity": {PREFERRED: [*own, *steering]}})
    steered["metadata"]["annotations"][STEERED_BY] = labels_of_move(1)[MIGRATION_ID]
    stayed = replica(0, moved=False, affinity={"nodeAffinity": {PREFERRED: own}})
    assert len(snapshot_of([steered, stayed]).templates) == 1
    steered["spec"]["affinity"]["nodeAffinity"][PREFERRED] = steering
    assert len(snapshot_of([steered, replica(0, moved=False)]).templates) == 1


# ------------------------------------------------------------ nodes that are gone


def test_the_name_of_a_node_is_forgotten_with_the_node_and_its_last_pod() -> None:
    tables = ClusterTables()
    for number in range(1000):
        spot, its_pod = node(f"spot-{number}"), replica(number, on=f"spot-{number}", moved=False)
        for item in (spot, its_pod):
            put(tables, item)
        remove(tables, spot)
        assert tables.pods.node_of(key_of(its_pod)) == f"spot-{number}"
        remove(tables, its_pod)
    # The empty name, of pods without a node, is one.
    assert len(tables.pods.node_numbers) == 1
    assert len(tables.pods.node_numbers.values) <= 3


def test_a_node_without_pods_keeps_its_number() -> None:
    tables = filled([node("a"), node("b")])
    number = tables.pods.number_of_node("a")
    put(tables, replica(0, on="a", moved=False))
    remove(tables, replica(0, on="a", moved=False))
    put(tables, node("c"))
    assert tables.pods.number_of_node("a") == number
    assert tables.pods.held_on("cpu")[number] == 0


def test_every_label_of_migrations_is_known() -> None:
    assert set(labels_of_move(0)) == set(MIGRATION_LABELS)
