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
    """Two zones; the pods of cart mind each other in their zone."""
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


def test_every_node_answers_and_says_why(command: Command, cluster_file: Path) -> None:
    result = command("explain", "shop/cart-5d-1", "-s", cluster_file, "-o", "json")
    told = json.loads(result.out)
    assert (told["node"], told["mayMove"], told["mode"]) == ("a", True, "Handoff")
    answers = {each["node"]: (each["accepted"], each["plugin"]) for each in told["nodes"]}
    assert answers == {"a": (True, ""), "b": (True, ""), "c": (False, "TaintToleration")}
    assert all(each["acceptedBesideOldPod"] is False for each in told["nodes"])


def test_the_picture_tells_what_only_fits_once_the_old_pod_is_gone(
    command: Command, cluster_file: Path
) -> None:
    result = command("explain", "cart-5d-1", "-s", cluster_file)
    assert "only once the old pod is gone" in result.out
    assert "does not tolerate the node's taint reserved:NoSchedule" in " ".join(result.out.split())
    assert "2 of 3 nodes accept it; refused by TaintToleration 1." in result.out


def test_beside_the_old_pod_it_minds_its_own_shadow(command: Command, cluster_file: Path) -> None:
    result = command(
        "explain", "shop/cart-5d-1", "-s", cluster_file, "--with-old-pod", "-o", "json"
    )
    plugins = {each["node"]: each["plugin"] for each in json.loads(result.out)["nodes"]}
    assert plugins == {"a": "InterPodAffinity", "b": "InterPodAffinity", "c": "TaintToleration"}


def test_what_keeps_a_pod_is_named(command: Command, cluster_file: Path) -> None:
    result = command("explain", "shop/bare", "-s", cluster_file)
    assert "stays where it is: BarePod, no controller would bring it back" in result.out


def test_a_waiting_pod_can_be_explained_too(command: Command, cluster_file: Path) -> None:
    told = json.loads(command("explain", "waiting", "-s", cluster_file, "-o", "json").out)
    assert (told["node"], told["blocker"]) == ("", "BarePod")
    assert [each["node"] for each in told["nodes"] if each["accepted"]] == ["a", "b"]


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
        (["bare"], "expected NAMESPACE/NAME, for there are other/bare, shop/bare"),
        (["shop/done"], "it has finished"),
        ([], "expected either a pod or --all"),
        (["shop/bare", "--all"], "expected either a pod or --all"),
        (["--all", "-p", "policy.yaml"], "--all asks nodes only"),
        (["shop/bare", "-s", "-", "-s", "-"], "can be read only once"),
        (["shop/bare", "-s", "-", "-p", "-"], "can be read only once"),
    ],
)
def test_a_pod_that_cannot_be_explained_is_named(
    command: Command, cluster_file: Path, arguments: list[str], message: str
) -> None:
    result = command("explain", *arguments, "-s", cluster_file)
    assert result.code == 2
    assert result.out == ""
    assert message in result.err
