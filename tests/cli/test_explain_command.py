import json
from collections.abc import Callable
from pathlib import Path

import pytest

from testcluster.builders import deployment, node, pod, replicaset
from tests.cli.conftest import Result

Command = Callable[..., Result]

APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {
                "topologyKey": "topology.kubernetes.io/zone",
                "labelSelector": {"matchLabels": {"app": "cart"}},
            }
        ]
    }
}


@pytest.fixture
def cluster_file(tmp_path: Path) -> Path:
    """Two zones; pods of cart must not share a zone."""
    owner = deployment("shop/cart", replicas=1)
    owned = replicaset("shop/cart-5d", owner=owner)
    objects = [
        node("a", zone="x"),
        node("b", zone="x"),
        node("c", zone="y", taints=[{"key": "reserved", "effect": "NoSchedule"}]),
        owner,
        owned,
        pod("shop/cart-5d-1", on="a", owner=owned, labels={"app": "cart"}, affinity=APART),
        pod("shop/bare", on="a", cpu="1"),
        pod("other/bare", on="b"),
        pod("shop/waiting", cpu="1"),
        pod("shop/done", on="a", phase="Succeeded"),
    ]
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": objects}))
    return file


def test_each_node_accepts_or_rejects_the_pod_with_a_reason(
    command: Command, cluster_file: Path
) -> None:
    result = command("explain", "shop/cart-5d-1", "-s", cluster_file, "-o", "json")
    explained = json.loads(result.out)
    assert (explained["node"], explained["mayMove"], explained["mode"]) == ("a", True, "Handoff")
    verdicts = {node["node"]: (node["accepted"], node["plugin"]) for node in explained["nodes"]}
    assert verdicts == {"a": (True, ""), "b": (True, ""), "c": (False, "TaintToleration")}
    assert all(node["acceptedBesideOldPod"] is False for node in explained["nodes"])


def test_the_table_names_nodes_that_accept_only_after_the_old_pod_is_deleted(
    command: Command, cluster_file: Path
) -> None:
    result = command("explain", "cart-5d-1", "-s", cluster_file)
    assert "only after the old pod is deleted" in result.out
    assert "does not tolerate the node's taint reserved:NoSchedule" in " ".join(result.out.split())
    assert "2 of 3 nodes accept the pod; rejected by TaintToleration (1)." in result.out


def test_with_the_old_pod_in_place_its_anti_affinity_rejects_its_own_zone(
    command: Command, cluster_file: Path
) -> None:
    result = command(
        "explain", "shop/cart-5d-1", "-s", cluster_file, "--with-old-pod", "-o", "json"
    )
    plugins = {node["node"]: node["plugin"] for node in json.loads(result.out)["nodes"]}
    assert plugins == {"a": "InterPodAffinity", "b": "InterPodAffinity", "c": "TaintToleration"}


def test_the_blocker_of_a_pod_is_named(command: Command, cluster_file: Path) -> None:
    result = command("explain", "shop/bare", "-s", cluster_file)
    assert "must not be moved, blocker BarePod: no controller would recreate it" in result.out


def test_a_pending_pod_can_be_explained_too(command: Command, cluster_file: Path) -> None:
    explained = json.loads(command("explain", "waiting", "-s", cluster_file, "-o", "json").out)
    assert (explained["node"], explained["blocker"]) == ("", "BarePod")
    assert [node["node"] for node in explained["nodes"] if node["accepted"]] == ["a", "b"]


def test_all_bound_and_unfinished_pods_get_a_line_each(
    command: Command, cluster_file: Path
) -> None:
    result = command("explain", "--all", "-s", cluster_file, "-o", "json")
    lines = [json.loads(line) for line in result.out.splitlines()]
    assert [line["pod"] for line in lines] == ["other/bare", "shop/bare", "shop/cart-5d-1"]
    assert lines[2] == {
        "pod": "shop/cart-5d-1",
        "fits": ["a", "b"],
        "why": {"c": "TaintToleration"},
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["shop/card-5d-1"], "did you mean shop/cart-5d-1?"),
        (["bare"], "found in several namespaces: other/bare, shop/bare; expected NAMESPACE/NAME"),
        (["shop/done"], "it has finished"),
        ([], "expected either a pod or --all"),
        (["shop/bare", "--all"], "expected either a pod or --all"),
        (["--all", "-p", "policy.yaml"], "--all does not use a policy"),
        (["shop/bare", "-s", "-", "-s", "-"], "can be read only once"),
        (["shop/bare", "-s", "-", "-p", "-"], "can be read only once"),
    ],
)
def test_bad_arguments_are_reported(
    command: Command, cluster_file: Path, arguments: list[str], message: str
) -> None:
    result = command("explain", *arguments, "-s", cluster_file)
    assert result.code == 2
    assert result.out == ""
    assert message in result.err
