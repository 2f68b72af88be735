"""A cluster from a file gets everything that controllers need, and assumptions are noted."""

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rescheduler.errors import SnapshotError
from rescheduler.files.cluster_file import LIST_END, encode_object, list_start
from rescheduler.labels import MIGRATION_ID, MIGRATION_STATUS, ORIGINAL_POD, PLACING_GATE
from rescheduler.model.kinds import KIND_BY_NAME
from rescheduler.simulation.scenario.cluster_completion import CompletedCluster, complete_cluster
from rescheduler.simulation.scenario.cluster_input import objects_in
from rescheduler.simulation.scenario.example_cluster import example_cluster
from testcluster.builders import deployment, node, pod, replicaset

EXAMPLE = Path(__file__).parents[3] / "examples" / "uneven-cluster.yaml"


def as_snapshot(objects: list[dict[str, Any]]) -> bytes:
    """What `rescheduler snapshot` would write of a cluster with these objects."""
    kinds = [KIND_BY_NAME[value["kind"]] for value in objects]
    parts = [
        encode_object(kind, msgspec.convert(value, kind.type))
        for kind, value in zip(kinds, objects, strict=True)
    ]
    return list_start(datetime(2026, 1, 1, tzinfo=UTC)) + b",\n".join(parts) + LIST_END


def of(made: CompletedCluster, kind: str) -> dict[str, dict[str, Any]]:
    return {value["metadata"]["name"]: value for value in made.objects if value["kind"] == kind}


@pytest.fixture(scope="module")
def from_snapshot() -> CompletedCluster:
    return complete_cluster(objects_in([("snapshot.json", as_snapshot(example_cluster()))]))


def test_templates_that_a_snapshot_leaves_out_are_those_of_the_pods(
    from_snapshot: CompletedCluster,
) -> None:
    there = of(from_snapshot, "Deployment")
    original = next(
        value
        for value in example_cluster()
        if value["kind"] == "Deployment" and value["metadata"]["name"] == "web"
    )
    container = there["web"]["spec"]["template"]["spec"]["containers"][0]
    wanted = original["spec"]["template"]["spec"]["containers"][0]
    assert container["resources"] == wanted["resources"]
    assert there["web"]["spec"]["template"]["metadata"] == original["spec"]["template"]["metadata"]
    assert len(there) == 27


def test_a_template_has_nothing_of_a_migration_of_the_pod_that_it_is_derived_from() -> None:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    pin = {"key": "metadata.name", "operator": "In", "values": ["a"]}
    moved = pod(
        "shop/web-5d-1",
        on="a",
        owner=replicaset("shop/web-5d", replicas=1, owner=deployment("shop/web")),
        labels={"app": "web", MIGRATION_ID: "7", MIGRATION_STATUS: "completed"},
        annotations={ORIGINAL_POD: "6", "rescheduler.dev/move-cost": "3"},
        schedulingGates=[{"name": PLACING_GATE}],
        affinity={
            "nodeAffinity": {required: {"nodeSelectorTerms": [{"matchFields": [pin]}]}},
        },
    )
    made = complete_cluster(objects_in([("snapshot.json", as_snapshot([node("a"), moved]))]))
    template = of(made, "ReplicaSet")["web-5d"]["spec"]["template"]
    assert template["metadata"] == {
        "labels": {"app": "web"},
        "annotations": {"rescheduler.dev/move-cost": "3"},
    }
    assert not {"affinity", "schedulingGates"} & template["spec"].keys()


def test_a_snapshot_that_is_whole_needs_no_notes(from_snapshot: CompletedCluster) -> None:
    assert from_snapshot.notes == ()
    assert len(of(from_snapshot, "Pod")) == 600


def test_a_stateful_sets_own_claims_are_no_part_of_its_template(
    from_snapshot: CompletedCluster,
) -> None:
    (members,) = of(from_snapshot, "StatefulSet").values()
    assert not members["spec"]["template"]["spec"].get("volumes")
    assert members["spec"]["volumeClaimTemplates"][0]["metadata"]["name"] == "data"


def test_every_owner_that_is_named_is_there() -> None:
    made = complete_cluster(objects_in([("example", EXAMPLE.read_bytes())]))
    uids = {value["metadata"]["uid"] for value in made.objects}
    named = [
        ref for value in made.objects for ref in value["metadata"].get("ownerReferences") or ()
    ]
    assert named
    assert all(ref["uid"] in uids for ref in named)


def test_a_missing_replica_set_is_added_with_its_deployment() -> None:
    hashed = {"app": "web", "pod-template-hash": "5d8bc"}
    owner = replicaset("shop/web-5d8bc")
    pods = [pod(f"shop/web-5d8bc-{n}", on="a", labels=hashed, owner=owner) for n in range(3)]
    made = complete_cluster([node("a"), *pods])
    assert of(made, "ReplicaSet")["web-5d8bc"]["spec"]["replicas"] == 3
    (web,) = of(made, "Deployment").values()
    assert (web["metadata"]["name"], web["spec"]["replicas"]) == ("web", 3)
    assert web["spec"]["selector"] == {"matchLabels": {"app": "web"}}
    assert "1 Deployments, 1 ReplicaSets" in made.notes[0]


def test_finished_pods_are_left_out_and_noted() -> None:
    made = complete_cluster([node("a"), pod("shop/done", on="a", phase="Succeeded")])
    assert not of(made, "Pod")
    assert made.notes == ("1 pods that were finished or being deleted are left out.",)


def test_pods_on_nodes_that_are_gone_are_left_out_and_noted() -> None:
    made = complete_cluster([node("a"), pod("shop/x", on="a"), pod("shop/lost", on="gone")])
    assert list(of(made, "Pod")) == ["x"]
    assert made.notes == ("1 pods on nodes that are not in the file are left out.",)


def test_owners_of_kinds_that_are_not_simulated_are_noted() -> None:
    strange = {"apiVersion": "x/v1", "kind": "Clone", "metadata": {"name": "c", "uid": "c"}}
    made = complete_cluster([node("a"), pod("shop/web", on="a", owner=strange)])
    assert not of(made, "Pod")["web"]["metadata"]["ownerReferences"]
    assert "belong to a Clone" in made.notes[0]


def test_workloads_without_pods_and_template_are_left_out() -> None:
    bare = deployment("shop/web", replicas=2)
    del bare["spec"]["template"]
    made = complete_cluster([node("a"), bare])
    assert not of(made, "Deployment")
    assert "1 Deployments without pods are left out" in made.notes[0]


def test_it_starts_at_the_midnight_after_the_newest_object() -> None:
    late = pod("shop/web", on="a", created="2026-03-04T10:00:00Z")
    assert complete_cluster([node("a"), late]).start.isoformat() == "2026-03-05T00:00:00+00:00"


def test_a_file_that_is_no_cluster_is_refused() -> None:
    with pytest.raises(SnapshotError):
        objects_in([("bad.yaml", b"kind: Pod")])


def test_lists_within_lists_are_read() -> None:
    text = b"""
        {"kind": "List", "apiVersion": "v1", "items": [
            {"kind": "NodeList", "apiVersion": "v1", "items": [
                {"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}]}]}
    """
    assert Counter(value["kind"] for value in objects_in([("f", text)])) == {"Node": 2}
