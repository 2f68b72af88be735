"""`rescheduler simulate`: its inputs, its output, its exit codes."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Result as Ended
from tests.cli.conftest import StartProgram

Command = Callable[..., Ended]

EXAMPLES = Path(__file__).parents[2] / "examples"
CLUSTER = EXAMPLES / "uneven-cluster.yaml"
NIGHTS = EXAMPLES / "workloads" / "batch-nights.yaml"

QUICK = """
planningTimeout: 50ms
enabledStrategies: [NodeMaintenance, ResourceOptimization, LoadBalancing]
"""
KEYS = {
    "momentsBelowDesired",
    "ownMomentsBelowDesired",
    "migrations",
    "imbalance",
    "loadDeviation",
    "nodesInUse",
    "cost",
    "podsPending",
    "movesInFlight",
    "blocked",
    "leftovers",
    "pending",
    "rounds",
    "seed",
    "seconds",
}


@pytest.fixture
def quick(tmp_path: Path) -> Path:
    policy = tmp_path / "quick.yaml"
    policy.write_text(QUICK)
    return policy


def simulated(command: Command, *arguments: str | Path) -> dict[str, Any]:
    result = command("simulate", "-o", "json", *arguments)
    assert result.code == 0, result.err
    results: dict[str, Any] = json.loads(result.out)
    return results


def test_the_generated_cluster_becomes_even_and_no_handoff_leaves_a_pod_too_few(
    command: Command, quick: Path
) -> None:
    seen = simulated(command, "-p", quick, "--for", "8m")
    assert seen.keys() >= KEYS
    assert (seen["nodes"], seen["pods"]) == (40, 600)
    assert seen["imbalance"][0] == {"seconds": 0.0, "value": pytest.approx(0.77, abs=0.05)}
    assert seen["imbalance"][-1]["seconds"] == 480
    assert seen["imbalance"][-1]["value"] < 0.35
    assert seen["migrations"]["byPhase"]["Completed"] > 40
    assert set(seen["migrations"]["byMode"]) == {"Handoff"}
    assert seen["momentsBelowDesired"] == {
        "total": 0,
        "podSeconds": 0.0,
        "byWorkload": {},
        "byCause": {},
    }
    assert not any(seen["leftovers"].values())
    assert seen["warnings"] == []


def test_the_node_under_maintenance_is_emptied(command: Command, quick: Path) -> None:
    seen = simulated(command, "-p", quick, "--for", "3m")
    assert seen["migrations"]["byStrategy"]["NodeMaintenance"] > 0
    assert seen["nodesInUse"][0]["value"] == 40
    assert seen["nodesInUse"][-1]["value"] == 39


@pytest.mark.parametrize("span", ["1ns", "1.0004s"])
def test_a_span_that_is_no_whole_milliseconds_is_simulated_to_its_end(
    command: Command, quick: Path, span: str
) -> None:
    assert simulated(command, "-p", quick, "--for", span)["interrupted"] is False


def test_the_same_seed_gives_the_same_result_in_every_process_and_another_seed_another(
    start_program: StartProgram, quick: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def printed(seed: str, hash_seed: str) -> bytes:
        # The order of sets of strings differs between processes unless this is set.
        monkeypatch.setenv("PYTHONHASHSEED", hash_seed)
        arguments = ("-p", quick, "--for", "6m", "-w", NIGHTS, "--seed", seed, "-o", "json")
        process = start_program("simulate", *arguments)
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        return out

    first = printed("5", "1")
    assert printed("5", "2") == first
    assert printed("6", "1") != first


def test_a_snapshot_can_be_simulated(command: Command, quick: Path) -> None:
    seen = simulated(command, "-s", CLUSTER, "-p", quick, "--for", "5m")
    assert seen["nodes"] == 8
    assert seen["migrations"]["byPhase"]["Completed"] > 0
    assert seen["imbalance"][-1]["value"] < seen["imbalance"][0]["value"]


def test_all_policies_of_a_comparison_get_the_same_workload(
    command: Command, quick: Path, tmp_path: Path
) -> None:
    workload = tmp_path / "w.yaml"
    workload.write_text(
        "deployments: [{name: shop/web, jitter: 20, every: 1m, curve: {low: 30, high: 60}}]\n"
        "failures: [{at: 2m, count: 1, backAfter: 1m}]\n"
    )
    seen = simulated(command, "--compare", f"none,{quick}", "--for", "5m", "-w", workload)
    none, moved = seen["runs"]
    assert none["migrations"]["total"] == 0
    assert moved["migrations"]["total"] > 0
    assert none["happenings"] == moved["happenings"]
    assert none["happenings"]
    causes = [run["ownMomentsBelowDesired"]["byCause"]["Scaling"] for run in (none, moved)]
    assert causes[0] == causes[1] > 0
    assert [row["policy"] for row in seen["comparison"]] == ["none", str(quick)]
    assert seen["comparison"][1]["moves"] == moved["migrations"]["byPhase"]["Completed"]


def test_a_policy_is_compared_with_the_others(command: Command, quick: Path) -> None:
    seen = simulated(command, "-p", quick, "--compare", "none", "--for", "1m")
    assert [run["policy"] for run in seen["runs"]] == [str(quick), "none"]


def test_output_without_a_terminal_is_plain_and_short(command: Command, quick: Path) -> None:
    result = command("simulate", "-p", quick, "--for", "5m")
    assert result.code == 0
    assert "\x1b" not in result.out + result.err
    assert "Shortages: Ready pods fewer than desired" in result.out
    assert 2 <= len(result.err.splitlines()) <= 12


def test_a_comparison_is_a_table_with_a_column_per_policy(command: Command, quick: Path) -> None:
    result = command("simulate", "-p", quick, "--compare", "none", "--for", "1m")
    assert result.code == 0
    for word in ("quick.yaml", "none", "Imbalance, mean", "Cost, mean", "Pods pending"):
        assert word in result.out


def test_the_name_of_a_policy_file_need_not_be_utf_8(
    command: Command, quick: Path, tmp_path: Path
) -> None:
    odd = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.yaml")
    Path(odd).write_text(quick.read_text())
    page = tmp_path / "page.html"
    seen = simulated(command, "-p", odd, "--for", "1s", "--report", page)
    assert seen["policy"].endswith("udcff.yaml")
    assert page.exists()


def test_the_report_loads_no_other_files(command: Command, quick: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    assert command("simulate", "-p", quick, "--for", "2m", "--report", report).code == 0
    text = report.read_text()
    assert text.startswith("<!DOCTYPE html>")
    for loading in ("http:", "https:", "//", "<script", "<link", "<img", "@import", "url("):
        assert loading not in text, loading


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--for", "soon"], "'soon': expected a duration such as"),
        (["--for", "0d"], "'0d': expected a duration such as"),
        (["--for", "367d"], "'367d': expected at most 366d"),
        (["--report", "-"], "'-': expected a file; standard output has the results"),
        (["--report", "."], "rescheduler: .: it is a directory; expected a file"),
        (["-p", "-", "--compare", "none,-"], "standard input (-) can be read only once"),
        (["--compare", "none,,x"], "expected files or none, separated by commas"),
        (["-w", "missing.yaml"], "rescheduler: missing.yaml: No such file or directory"),
        (["-s", "missing.yaml"], "rescheduler: missing.yaml: No such file or directory"),
        (["-p", "missing.yaml"], "rescheduler: missing.yaml: No such file or directory"),
        (["--compare", "none,missing.yaml"], "rescheduler: missing.yaml: No such file"),
        (["--report", "missing/report.html"], "rescheduler: missing/report.html: No such file"),
    ],
)
def test_bad_input_is_reported_in_one_line(
    command: Command, arguments: list[str], expected: str
) -> None:
    result = command("simulate", *arguments)
    assert result.code == 2
    assert expected in " ".join(result.err.split())
    assert "Traceback" not in result.err


def test_a_mistake_in_a_workload_names_its_file(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "w.yaml"
    file.write_text("failures: [{at: 1m, node: nowhere}]")
    result = command("simulate", "-w", file)
    assert result.code == 2
    assert result.err == (
        f"rescheduler: {file}: failures[0].node: 'nowhere': expected a node of the cluster\n"
    )


def test_ctrl_c_ends_it_with_the_results_so_far(start_program: StartProgram, quick: Path) -> None:
    process = start_program("simulate", "-p", quick, "--for", "8000h", "-o", "json")
    assert process.stderr is not None
    # The first line shows that the simulation runs.
    process.stderr.readline()
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=120)
    seen = json.loads(out)
    assert process.returncode == 130
    assert seen["interrupted"] is True
    assert 0 <= seen["seconds"] < 8000 * 3600
