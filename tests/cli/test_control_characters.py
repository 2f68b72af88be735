"""What tenants write in a cluster does not control the terminal of whoever prints it."""

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from rescheduler.cli.control_characters import escaped, escaped_json, escaped_lines
from rescheduler.cli.views.explanation_view import show_acceptances, show_explanation
from rescheduler.cli.views.migration_view import LineView, progress_table
from rescheduler.cli.views.plan_view import show_plan
from rescheduler.migration.migration_object import (
    Migration,
    MigrationMeta,
    MigrationSpec,
    MigrationStatus,
    Phase,
    PodReference,
)
from rescheduler.model.moves import Mode
from rescheduler.planning.explanation import Acceptance, Explanation, NodeVerdict
from rescheduler.planning.plan import Assessment, BlockedPod, Move, Plan, UtilizationSpread
from testcluster.builders import node, pod
from tests.cli.conftest import Result

HOSTILE = "x\x1b[2J\x1b]0;t\x07\r\nforged\x9b31m\u202e\u2028"
HARMLESS = "x" * len(escaped(HOSTILE))


def printed(show: Callable[[Console], None], width: int) -> str:
    file = io.StringIO()
    show(Console(file=file, width=width, highlight=False, markup=False, emoji=False))
    return file.getvalue()


def plan(text: str) -> Plan:
    spread = UtilizationSpread(0.5, 0.1, 0.2, 0.8)
    nodes = {text: {"cpu": 0.5, "memory": 0.5}, "other": {"cpu": 0.1, "memory": 0.1}}
    state = Assessment({"cpu": spread, "memory": spread}, 2, 1.0, nodes)
    moves = (Move(text, text, "other", "LoadBalancing", Mode.EVICT, text, 0.5),)
    blocked = (BlockedPod(text, "Owner", text),)
    return Plan(moves, blocked, state, state, overloaded=(text,), summary=text)


def explanation(text: str, may_move: bool) -> Explanation:
    nodes = (
        NodeVerdict(text, False, False, "NodeAffinity", text, 0.5, 0.5),
        NodeVerdict(f"{text}2", True, True, "", "", 0.5, 0.5),
    )
    return Explanation(text, text, may_move, "Owner", text, Mode.EVICT, nodes)


def migrations(text: str) -> dict[str, Migration | None]:
    migration = Migration(
        MigrationMeta(name=text, namespace=text),
        MigrationSpec(PodReference(text), text),
        MigrationStatus(phase=Phase.FAILED, source_node=text, new_node=text, message=text),
    )
    return {"shop/m": migration, "shop/deleted": None}


VIEWS: dict[str, Callable[[str, Console], None]] = {
    "plan": lambda text, console: show_plan(plan(text), console),
    "explanation": lambda text, console: show_explanation(explanation(text, True), console),
    "blocker": lambda text, console: show_explanation(explanation(text, False), console),
    "acceptances": lambda text, console: show_acceptances([Acceptance(text, [], {})], console),
    "migration lines": lambda text, console: LineView(console).show(migrations(text)),
    "migration table": lambda text, console: console.print(progress_table(migrations(text), "")),
}


@pytest.mark.parametrize("width", [80, 500])
@pytest.mark.parametrize("name", VIEWS)
def test_views_print_what_others_wrote_without_its_control_characters(
    name: str, width: int
) -> None:
    def shown(text: str) -> str:
        return printed(lambda console: VIEWS[name](text, console), width)

    lines = shown(HOSTILE).split("\n")
    assert all(line.isprintable() for line in lines)
    assert r"x\x1b[2J" in shown(HOSTILE)
    # A line break in a name is no line of ours; where lines are wrapped, their number may differ.
    assert width < 500 or len(lines) == len(shown(HARMLESS).split("\n"))


def test_json_means_the_same_with_escapes() -> None:
    text = f"{HOSTILE}\x7f\U000e0001 Grüße-東京"
    written = escaped_json(json.dumps({"a": text}, indent=1, ensure_ascii=False))
    assert all(line.isprintable() for line in written.split("\n"))
    assert json.loads(written) == {"a": text}
    assert "Grüße-東京" in written


def test_further_lines_of_an_error_are_indented() -> None:
    assert escaped_lines("a: b\r\npod x stays") == "a: b\\r\n  pod x stays"


@pytest.mark.parametrize("output", ["table", "json"])
def test_explain_escapes_the_kind_of_an_owner(
    tmp_path: Path, command: Callable[..., Result], output: str
) -> None:
    owner = {"apiVersion": "v1", "kind": HOSTILE, "name": HOSTILE, "uid": "1", "controller": True}
    owned = pod("shop/cart", on="a")
    owned["metadata"]["ownerReferences"] = [owner]
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump_all([node("a"), node("b"), owned]))
    result = command("explain", "shop/cart", "--snapshot", file, "--output", output)
    assert result.code == 0
    assert "forged" in result.out
    assert all(line.isprintable() for line in result.out.split("\n"))
    assert not any(line.startswith("forged") for line in result.out.split("\n"))


@pytest.mark.parametrize(("nodes", "code"), [(["a"], 0), ([], 2)], ids=["note", "error"])
def test_errors_and_notes_escape_what_is_in_a_file(
    tmp_path: Path, command: Callable[..., Result], nodes: list[str], code: int
) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump_all([*map(node, nodes), pod(f"shop/{HOSTILE}", on="b")]))
    result = command("plan", "--snapshot", file)
    assert result.code == code
    assert "forged" in result.err
    assert all(line.isprintable() for line in result.err.split("\n"))
    assert not any(line.startswith("forged") for line in result.err.split("\n"))
