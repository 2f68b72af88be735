"""The view of a plan: readable at any width, with colors and without."""

import io
import re

import pytest
from rich.console import Console

from rescheduler.cli.views.moves_view import MOST_MOVES
from rescheduler.cli.views.plan_view import show_plan
from rescheduler.cli.views.utilization_chart import MOST_BARS, bucket_counts, short_names
from rescheduler.model.moves import Mode
from rescheduler.planning.plan import Assessment, BlockedPod, Move, Plan, UtilizationSpread

DOMAIN = ".eu-central-1.compute.internal"


def assessment(cpu: list[float], memory: list[float]) -> Assessment:
    def spread(values: list[float]) -> UtilizationSpread:
        return UtilizationSpread(sum(values) / len(values), 0.123, min(values), max(values))

    per_node = {
        f"node-{number}": {"cpu": cpu_fraction, "memory": memory_fraction}
        for number, (cpu_fraction, memory_fraction) in enumerate(zip(cpu, memory, strict=True))
    }
    utilization = {"cpu": spread(cpu), "memory": spread(memory)}
    return Assessment(utilization, len(cpu), 1.0, per_node)


def move(
    pod: str, *, source: str = "node-0", target: str = "node-1", gain: float = 0.5, wave: int = 0
) -> Move:
    reason = "node-0 is at 95 %"
    return Move(pod, source, target, "LoadBalancing", Mode.HANDOFF, reason, gain, wave)


BEFORE = assessment([0.95, 0.05], [0.75, 0.25])
AFTER = assessment([0.5, 0.5], [0.5, 0.5])


def plan_of(
    *moves: Move,
    blocked: tuple[BlockedPod, ...] = (),
    before: Assessment = BEFORE,
    after: Assessment = AFTER,
    summary: str = "Done.",
) -> Plan:
    return Plan(moves, blocked, before, after, overloaded=(), summary=summary)


BLOCKED = (
    BlockedPod("kube-system/agent-1", "DaemonSet", "it belongs to its node"),
    BlockedPod("kube-system/agent-2", "DaemonSet", "it belongs to its node"),
    BlockedPod("shop/db-0", "Disabled", ""),
)
PLAN = plan_of(move("shop/cart-0"), move("shop/cart-1"), blocked=BLOCKED, summary="2 moves.")


def drawn(plan: Plan, width: int = 80, encoding: str = "utf-8", color: bool = False) -> str:
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding, write_through=True)
    show_plan(plan, Console(file=file, width=width, highlight=False, force_terminal=color))
    return raw.getvalue().decode(encoding)


def large(nodes: int) -> Plan:
    before = assessment([number / nodes for number in range(nodes)], [0.5] * nodes)
    after = assessment([0.5] * nodes, [0.5] * nodes)
    return plan_of(before=before, after=after)


def test_every_node_has_a_bar_before_and_after() -> None:
    lines = drawn(PLAN).splitlines()
    (fullest,) = [line for line in lines if line.startswith("node-0")]
    assert re.findall(r"\d+%", fullest) == ["95%", "50%", "75%", "50%"]
    assert lines.index(fullest) == 1


def test_moves_are_shown_with_their_reasons() -> None:
    text = drawn(PLAN)
    assert "Moves: 2" in text
    assert "1  shop/cart-0  node-0 → node-1  Handoff   gain 0.5" in text
    assert "node-0 is at 95 %" in text


def test_a_wide_terminal_has_one_line_per_move() -> None:
    (line,) = [line for line in drawn(PLAN, width=140).splitlines() if "shop/cart-0" in line]
    assert re.sub(" +", " ", line.strip()) == (
        "1 1 shop/cart-0 node-0 → node-1 Handoff 0.5 node-0 is at 95 %"
    )


WAVES = plan_of(
    *(move(f"shop/cart-{wave}{suffix}", wave=wave) for wave in range(2) for suffix in "ab")
)


def test_moves_of_a_wave_are_grouped() -> None:
    lines = [line.strip() for line in drawn(WAVES).splitlines()]
    assert any(line.startswith("The moves run in 2 waves") for line in lines)
    grouped = [line.split("  ")[:2] for line in lines if re.match(r"Wave|\d  ", line)]
    assert grouped == [
        ["Wave 1"],
        ["1", "shop/cart-0a"],
        ["2", "shop/cart-0b"],
        ["Wave 2"],
        ["3", "shop/cart-1a"],
        ["4", "shop/cart-1b"],
    ]


def test_a_wide_terminal_has_waves_in_a_column() -> None:
    lines = [line.split() for line in drawn(WAVES, width=140).splitlines() if "shop/" in line]
    assert [(number, wave) for number, wave, *_ in lines] == [
        ("1", "1"),
        ("2", "1"),
        ("3", "2"),
        ("4", "2"),
    ]


@pytest.mark.parametrize(
    ("waves", "sentence"),
    [
        ([0, 0], "All moves may run at the same time."),
        ([0, 1], "The moves run one after another."),
    ],
)
def test_waves_are_not_shown_if_a_sentence_is_enough(waves: list[int], sentence: str) -> None:
    text = drawn(plan_of(*(move(f"shop/cart-{wave}", wave=wave) for wave in waves)))
    assert sentence in text
    assert "Wave" not in text


@pytest.mark.parametrize("width", [60, 80, 140])
def test_a_long_plan_is_cut_and_says_how_to_see_the_rest(width: int) -> None:
    plan = plan_of(*(move(f"shop/cart-{number}") for number in range(MOST_MOVES + 2380)))
    text = drawn(plan, width)
    assert "Moves: 2,430" in text
    assert "LoadBalancing (Handoff): 2,430" in " ".join(text.split())
    assert f"shop/cart-{MOST_MOVES - 1} " in text
    assert f"shop/cart-{MOST_MOVES} " not in text
    assert "… and 2,380 more; use -o json to see all" in text


@pytest.mark.parametrize(
    ("gain", "shown"),
    [(2_000_000.0, "2,000,000"), (12.345, "12.3"), (0.001234, "0.00123"), (-0.25, "-0.25")],
)
def test_gains_are_rounded(gain: float, shown: str) -> None:
    assert f"gain {shown}\n" in drawn(plan_of(move("shop/cart-0", gain=gain)))


def test_blockers_are_counted_with_an_example() -> None:
    text = drawn(PLAN)
    assert "Not moved: 3" in text
    assert re.search(r"2  DaemonSet +such as kube-system/agent-1: it belongs to its node", text)
    assert re.search(r"1  Disabled +shop/db-0", text)


def test_key_figures_are_shown_before_and_after() -> None:
    text = drawn(PLAN)
    assert re.search(r"CPU, fullest node +95\.0 % +→ +50\.0 %", text)
    assert re.search(r"CPU, standard deviation +12\.3 % +=", text)
    assert re.search(r"Nodes in use +2 +=", text)
    assert re.search(r"Objective +1 +=", text)


def test_the_summary_comes_last() -> None:
    assert drawn(PLAN).splitlines()[-1] == "2 moves."
    assert drawn(plan_of(summary="Balanced.")).splitlines()[-1] == "Balanced."


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120, 200])
@pytest.mark.parametrize("plan", [PLAN, WAVES, large(MOST_BARS), large(MOST_BARS + 1), large(5000)])
def test_no_line_is_wider_than_the_terminal(plan: Plan, width: int) -> None:
    assert max(map(len, drawn(plan, width).splitlines())) <= width


def test_names_are_not_cut_at_eighty_columns() -> None:
    assert "…" not in drawn(PLAN)
    assert "…" not in drawn(large(MOST_BARS))


def test_many_nodes_are_shown_as_a_histogram() -> None:
    text = drawn(large(400))
    assert "node-7" not in text
    (line,) = [line for line in text.splitlines() if line.lstrip().startswith("30-40 %")]
    assert re.findall(r" (\d+)(?: |$)", line.split("%")[1]) == ["40"]
    (line,) = [line for line in text.splitlines() if line.lstrip().startswith("50-60 %")]
    assert re.findall(r" (\d+)(?: |$)", line.split("%")[1]) == ["40", "400", "400", "400"]


def test_exactly_100_percent_is_not_above_100_percent() -> None:
    assert bucket_counts([1.0, 0.95, 1.01, 7.0])[-2:] == [2, 2]


def test_colors_show_the_utilization_of_a_node() -> None:
    text = drawn(PLAN, color=True)
    (line,) = [line for line in text.splitlines() if line.startswith("node-0")]
    assert "\x1b[31m█" in line
    assert "\x1b[33m█" in line
    assert "\x1b[32m█" in line


def test_without_a_terminal_there_are_no_colors() -> None:
    assert "\x1b" not in drawn(PLAN)


def test_a_terminal_without_unicode_gets_ascii() -> None:
    text = drawn(PLAN, encoding="ascii")
    assert "node-0 -> node-1" in text
    assert "####" in text


def test_a_domain_shared_by_all_nodes_is_left_out() -> None:
    assert short_names([f"ip-1{DOMAIN}", f"ip-2{DOMAIN}"]) == {
        f"ip-1{DOMAIN}": "ip-1",
        f"ip-2{DOMAIN}": "ip-2",
    }
    assert short_names(["a.x", "a.y"]) == {"a.x": "a.x", "a.y": "a.y"}
