"""`rescheduler plan`: from a file or from a live cluster, as a table, JSON and YAML."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from rescheduler.cli.commands.plan import share_used
from rescheduler.files.cluster_file import read_cluster
from rescheduler.files.policy_file import read_policy
from rescheduler.labels import SNAPSHOT_TIME
from rescheduler.planning.context import PlanningContext
from rescheduler.planning.plan import Plan
from rescheduler.planning.planner import make_plan
from testcluster import TestCluster
from testcluster.builders import node, pod, replicaset
from tests.cli.conftest import Result, StartProgram

Command = Callable[..., Result]

EXAMPLES = Path(__file__).parents[2] / "examples"
CLUSTER, POLICY = EXAMPLES / "uneven-cluster.yaml", EXAMPLES / "policy.yaml"


def write_list(path: Path, *objects: object) -> Path:
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    return path


def test_the_example_is_shown_as_tables(command: Command) -> None:
    result = command("plan", "--snapshot", CLUSTER, "--policy", POLICY)
    assert result.code == 0
    assert result.err == ""
    assert "worker-1" in result.out
    assert "CPU before" in result.out
    assert "Moves: " in result.out


def test_the_example_cluster_is_uneven() -> None:
    snapshot = read_cluster([("x", CLUSTER.read_bytes())])
    fullness = sorted(snapshot.requested[:, 0] / snapshot.nodes.allocatable[:, 0])
    assert len(snapshot.nodes) == 8
    assert 50 <= len(snapshot.pods) <= 70
    assert all(fraction < 0.05 for fraction in fullness[:3])
    assert all(fraction > 0.9 for fraction in fullness[-2:])
    assert snapshot.budgets["shop/checkout"].status.disruptions_allowed == 0


def test_json_is_the_plan_itself(command: Command) -> None:
    result = command("plan", "-s", CLUSTER, "-p", POLICY, "-o", "json")
    snapshot = read_cluster([("x", CLUSTER.read_bytes())])
    # A file that does not say when it was written is as old as its newest pod.
    now = PlanningContext(now=float(snapshot.pods.created.max()))
    expected = make_plan(snapshot, read_policy("x", POLICY.read_bytes()), now)
    shown = msgspec.json.decode(result.out, type=Plan)
    # On a slow machine the time may be up, with the same moves.
    assert msgspec.structs.replace(shown, search_complete=True) == expected
    content = json.loads(result.out)
    assert set(content) >= {"moves", "blocked", "before", "after", "summary", "searchComplete"}
    assert {"pod", "from", "to", "strategy", "mode", "reason", "gain"} <= set(content["moves"][0])


def test_yaml_has_the_same_content_as_json(command: Command) -> None:
    as_json = command("plan", "-s", CLUSTER, "-p", POLICY, "-o", "json")
    as_yaml = command("plan", "-s", CLUSTER, "-p", POLICY, "-o", "yaml")
    assert without_timing(yaml.safe_load(as_yaml.out)) == without_timing(json.loads(as_json.out))


def without_timing(plan: dict[str, Any]) -> dict[str, Any]:
    """A plan without what depends on the speed of the machine."""
    return {key: value for key, value in plan.items() if key != "searchComplete"}


@pytest.mark.parametrize(
    ("written", "is_moved"), [("2025-01-01T00:04:00Z", False), ("2025-01-01T00:06:00Z", True)]
)
def test_pods_are_as_old_as_when_the_file_was_written(
    command: Command, tmp_path: Path, written: str, is_moved: bool
) -> None:
    """Whenever the plan is made, the same file gives the same plan."""
    file, policy = leaving_pods(tmp_path, {SNAPSHOT_TIME: written})
    result = command("plan", "-s", file, "-p", policy, "-o", "json")
    assert result.err == ""
    assert bool(json.loads(result.out)["moves"]) == is_moved


def test_without_that_time_pods_are_as_old_as_when_the_newest_was_created(
    command: Command, tmp_path: Path
) -> None:
    file, policy = leaving_pods(tmp_path, {})
    result = command("plan", "-s", file, "-p", policy, "-o", "json")
    assert result.err.startswith("Note: the files do not say when they were written")
    assert [blocked["blocker"] for blocked in json.loads(result.out)["blocked"]] == ["TooYoung"] * 2


def leaving_pods(directory: Path, annotations: dict[str, str]) -> tuple[Path, Path]:
    """A cluster file with two pods created at once that are to leave their node, and a policy."""
    leaving = node("a", labels={"scheduler.alpha.kubernetes.io/maintenance": "true"})
    owner = replicaset("shop/web", replicas=2)
    created = "2025-01-01T00:00:00Z"
    pods = [pod(f"shop/web-{n}", on="a", cpu="1", owner=owner, created=created) for n in range(2)]
    items = [leaving, node("b"), owner, *pods]
    listed = {"apiVersion": "v1", "kind": "List", "metadata": {"annotations": annotations}}
    file, policy = directory / "cluster.json", directory / "policy.yaml"
    file.write_text(json.dumps({**listed, "items": items}))
    policy.write_text("enabledStrategies: [NodeMaintenance]\nminPodAge: 5m\n")
    return file, policy


def test_the_same_seed_gives_the_same_plan(command: Command) -> None:
    first = command("plan", "-s", CLUSTER, "-o", "json", "--seed", "7")
    assert first.code == 0
    again = command("plan", "-s", CLUSTER, "-o", "json", "--seed", "7")
    assert without_timing(json.loads(again.out)) == without_timing(json.loads(first.out))


def test_a_negative_seed_is_refused(command: Command, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("enabledStrategies: [CostOptimization]")
    result = command("plan", "-s", CLUSTER, "-p", policy, "--seed", "-1")
    assert result.code == 2
    assert "--seed: -1: expected 0 or more" in result.err


def test_a_plan_that_runs_out_of_time_is_still_printed(command: Command, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("planningTimeout: 1ms")
    result = command("plan", "-s", CLUSTER, "-p", policy, "-o", "json")
    assert result.code == 0
    assert len(json.loads(result.out)["moves"]) <= 10


def test_a_deadline_is_over_when_its_time_has_passed() -> None:
    assert share_used(1e-9)() >= 1
    assert not share_used(3600)() >= 1


def test_a_cluster_can_be_read_from_compressed_and_from_several_files(
    command: Command, tmp_path: Path
) -> None:
    packed = tmp_path / "cluster.gz"
    packed.write_bytes(gzip.compress(CLUSTER.read_bytes()))
    extra = write_list(tmp_path / "extra.json", node("spare"))
    result = command("plan", "-s", packed, "-s", extra, "-o", "json")
    assert result.code == 0
    assert "spare" in json.loads(result.out)["before"]["perNode"]


def test_nothing_to_move_is_a_success_with_a_reason(command: Command, tmp_path: Path) -> None:
    file = write_list(tmp_path / "x.json", node("a"), pod("shop/x", on="a", cpu="1"))
    result = command("plan", "-s", file)
    assert result.code == 0
    assert "Moves:" not in result.out
    assert result.out.strip().splitlines()[-1] != ""


def test_a_pod_on_a_node_that_was_just_deleted_stays_and_is_named(
    command: Command, tmp_path: Path
) -> None:
    """`kubectl get` lists kind after kind, so a node may be gone when its pods are listed."""
    owner = replicaset("shop/web", replicas=2)
    pods = [pod(f"shop/web-{on}", on=on, cpu="1", owner=owner) for on in ("a", "gone")]
    file = write_list(tmp_path / "x.json", node("a"), owner, *pods)
    result = command("plan", "-s", file, "-o", "json")
    assert result.code == 0
    assert set(json.loads(result.out)["before"]["perNode"]) == {"a"}
    assert result.err == (
        "Note: the nodes of these pods are not in the files, so the pods take up no room and stay: "
        "shop/web-gone\n"
    )
    explained = json.loads(command("explain", "shop/web-gone", "-s", file, "-o", "json").out)
    assert explained["blocker"] == "NodeMissing"


def test_an_empty_cluster_is_not_an_error(command: Command, tmp_path: Path) -> None:
    assert command("plan", "-s", write_list(tmp_path / "x.json")).code == 0


def test_standard_input_is_a_dash(start_program: StartProgram) -> None:
    process = start_program("plan", "-s", "-", "-o", "json")
    out, err = process.communicate(CLUSTER.read_bytes())
    assert process.returncode == 0, err
    assert json.loads(out)["moves"]


def test_a_live_cluster_can_be_planned(command: Command, quiet_cluster: TestCluster) -> None:
    result = command("plan", "--kubeconfig", quiet_cluster.kubeconfig, "-o", "json")
    assert result.code == 0, result.err
    assert set(json.loads(result.out)["before"]["perNode"]) == {"a", "b"}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "cluster.json: empty: expected JSON or YAML"),
        (b'{"kind": "Li', "cluster.json: Input data was truncated"),
        (b'{"apiVersion": "v1", "kind": "List"}', "cluster.json: items: missing"),
        (b"\x1f\x8b broken", "cluster.json: gzip data is broken"),
        (
            json.dumps(pod("shop/cart-0", cpu="5oom")).encode(),
            "cluster.json: Pod shop/cart-0: spec.containers[0].resources.requests.cpu: '5oom': "
            "expected a number with an optional suffix, such as '500m', '1.5' or '2Gi'",
        ),
        (
            json.dumps(pod("shop/cart-0", on="gone")).encode(),
            "cluster.json: Pod shop/cart-0: spec.nodeName: 'gone': expected a node",
        ),
    ],
)
def test_a_bad_cluster_file_is_named_without_traceback(
    command: Command, tmp_path: Path, content: bytes, expected: str
) -> None:
    file = tmp_path / "cluster.json"
    file.write_bytes(content)
    result = command("plan", "-s", file)
    assert result.code == 2
    assert result.out == ""
    assert result.err.startswith(f"rescheduler: {tmp_path}/{expected}")
    assert len(result.err.splitlines()) == 1


def test_a_bad_policy_is_named_without_traceback(command: Command, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("cpuTreshold: 80")
    result = command("plan", "-s", CLUSTER, "-p", policy)
    assert result.code == 2
    assert result.err == (
        f"rescheduler: {policy}: cpuTreshold: unknown, did you mean cpuThreshold?\n"
    )


def test_a_missing_file_is_named(command: Command, tmp_path: Path) -> None:
    result = command("plan", "-s", tmp_path / "nowhere.json")
    assert result.code == 2
    assert result.err == f"rescheduler: {tmp_path}/nowhere.json: No such file or directory\n"


def test_a_snapshot_cannot_be_combined_with_a_live_cluster(command: Command) -> None:
    result = command("plan", "-s", CLUSTER, "--context", "other")
    assert result.code == 2
    assert "--snapshot" in result.err


def test_an_unknown_output_format_is_rejected(command: Command) -> None:
    assert command("plan", "-s", CLUSTER, "-o", "xml").code == 2
