"""The page can be read by anyone, anywhere, and nothing in it comes from elsewhere."""

import re
import subprocess
import sys
import zipfile
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest

from rescheduler.simulation.results.html import html_report
from rescheduler.simulation.results.result import (
    BlockerSummary,
    IdleReason,
    Leftovers,
    MigrationCounts,
    NodeLoadSeries,
    PendingTimes,
    Point,
    Result,
    RoundCounts,
    SeriesSummary,
    ShortageCounts,
    TimelineEntry,
)

REPOSITORY = Path(__file__).parents[3]
NOBODY = ShortageCounts(0, 0.0, {}, {})


def series(*values: float) -> tuple[Point, ...]:
    return tuple(Point(60.0 * number, value) for number, value in enumerate(values))


def result(policy: str = "policy.yaml", nodes: int = 3) -> Result:
    falling = series(0.8, 0.4, 0.2)
    some = series(1, 2, 3)
    line: tuple[float | None, ...] = (0.1, None, 0.9)
    loads = {f"node-{number}": line for number in range(nodes)}
    figures = {
        name: SeriesSummary(0.8, 0.5, 0.2, 0.8)
        for name in ("imbalance", "loadDeviation", "nodesInUse", "cost", "podsPending")
    }
    return Result(
        policy=policy,
        seed=0,
        start="2025-01-02T06:00:00Z",
        seconds=120.0,
        interrupted=False,
        nodes=nodes,
        pods=9,
        notes=(),
        warnings=(),
        summary=figures,
        imbalance=falling,
        load_deviation=falling,
        nodes_in_use=some,
        cost=some,
        pods_pending=some,
        moves_in_flight=some,
        pods_below_desired=series(0, 0, 0),
        own_pods_below_desired=some,
        shortages_by_moves=NOBODY,
        other_shortages=ShortageCounts(2, 8.0, {"Deployment shop/web": 2}, {"Scaling": 2}),
        migrations=MigrationCounts(
            3,
            {"Completed": 2, "Failed": 1},
            {"Handoff": 3},
            {"LoadBalancing": 3},
            {"LoadBalancing": {"Landed": 2, "Failed": 1}},
            8.0,
        ),
        rounds=RoundCounts(5, 1, (IdleReason("Nothing to move: all is well.", 4),)),
        blocked=(BlockerSummary("Budget", "its budget says no", 2, 3, "data/db-0", "budget db"),),
        pending=PendingTimes(4, 3.5, 1.5),
        leftovers=Leftovers((), (), (), ()),
        timeline=(TimelineEntry(60.0, "node-1 fails"),),
        node_loads=NodeLoadSeries((0.0, 60.0, 120.0), loads),
    )


class Reader(HTMLParser):
    """Collects what a page has, and sees to it that every element is closed."""

    VOID = ("meta",)

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def test_it_is_well_formed_and_tells_everything() -> None:
    read = Reader(html_report([result()]))
    text = " ".join(read.words)
    for expected in (
        "2 pods moved",
        "no workload ever had a Ready pod too few",
        "LoadBalancing",
        "failed, undone",
        "its budget says no",
        "Nothing to move: all is well.",
        "node-1 fails",
        "the desired count was raised",
        "Nothing is left behind",
    ):
        assert expected in text, expected


@pytest.mark.parametrize("results", [[result()], [result("none"), result("a"), result("b")]])
def test_nothing_in_it_is_loaded_from_elsewhere(results: list[Result]) -> None:
    text = html_report(results)
    read = Reader(text)
    assert not {tag for tag, _, _ in read.attributes} & {"script", "link", "img", "iframe", "a"}
    assert not [value for _, name, value in read.attributes if name in ("src", "href", "srcset")]
    assert not re.search(r"https?:|url\(|@import", text)


def test_names_in_a_cluster_cannot_become_part_of_the_page() -> None:
    evil = "<script>alert(1)</script>\"'&"
    spiked = msgspec.structs.replace(
        result(policy=evil),
        timeline=(TimelineEntry(60.0, evil),),
        blocked=(BlockerSummary("X", evil, 1, 1, evil, evil),),
        node_loads=NodeLoadSeries((0.0,), {evil: (0.5,)}),
    )
    assert "<script" not in html_report([spiked])
    assert "alert(1)" in " ".join(Reader(html_report([spiked])).words)


def test_every_plot_is_told_in_words_too() -> None:
    read = Reader(html_report([result()]))
    pictures = sum(name == "role" and value == "img" for _, name, value in read.attributes)
    assert pictures == 9
    assert "Imbalance over time, policy.yaml: from 80.0 % to 20.0 %" in read.words


def test_it_follows_the_readers_wish_for_light_or_dark() -> None:
    assert "prefers-color-scheme: dark" in html_report([result()])


def test_several_runs_are_side_by_side_with_a_line_each() -> None:
    read = Reader(html_report([result("none"), result("careful.yaml")]))
    assert "The same cluster and the same future, under each policy" in read.words
    lines = [value for _, name, value in read.attributes if value.startswith("line c")]
    assert set(lines) == {"line c0", "line c1"}


def test_files_are_told_apart_by_as_little_as_it_takes() -> None:
    short = Reader(html_report([result("a/careful.yaml"), result("b/bold.yaml")])).words
    assert {"careful.yaml", "bold.yaml"} <= set(short)
    long = Reader(html_report([result("a/policy.yaml"), result("b/policy.yaml")])).words
    assert {"a/policy.yaml", "b/policy.yaml"} <= set(long)


def test_times_of_several_days_have_their_day() -> None:
    long = msgspec.structs.replace(result(), seconds=30 * 86_400.0)
    read = Reader(html_report([long])).words
    assert "d8 06:00" in read
    assert any(text.startswith("30 d from d1 06:00") for text in read)


def test_many_nodes_are_shown_by_how_many_are_how_full() -> None:
    text = " ".join(Reader(html_report([result(nodes=500)])).words)
    assert "Each row is a band of load" in text
    assert "90 to 95 %" in text


def test_a_run_that_was_cut_short_can_be_shown() -> None:
    cut = msgspec.structs.replace(result(), seconds=0.0, imbalance=series(0.8), interrupted=True)
    assert "until it was interrupted" in html_report([cut])


def test_every_line_and_every_load_has_a_colour_in_light_and_in_dark() -> None:
    policies = [f"{number}.yaml" for number in range(8)]
    loads: tuple[float | None, ...] = tuple(number / 100 for number in range(101))
    seconds = tuple(60.0 * number for number in range(101))
    filled = msgspec.structs.replace(result(), node_loads=NodeLoadSeries(seconds, {"a": loads}))
    text = html_report([msgspec.structs.replace(filled, policy=policy) for policy in policies])
    read = Reader(text)
    classes = {
        name for _, kind, value in read.attributes if kind == "class" for name in value.split()
    }
    colours = {name for name in classes if re.fullmatch(r"[ch]\d+", name)}
    assert colours == {f"c{number}" for number in range(6)} | {f"h{step}" for step in range(16)}
    for name in colours:
        found = re.search(rf"\.{name} {{[^}}]*var\((--(?:line|heat)-\d+)\)", text)
        assert found is not None, f"the style sheet has no rule for {name}"
        assert text.count(f"{found[1]}: #") == 2, f"{found[1]} is not set for light and for dark"


def test_the_template_and_the_style_sheet_are_in_the_wheel(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        packed = set(archive.namelist())
    folder = "rescheduler/simulation/results/html"
    assert {f"{folder}/report.html.j2", f"{folder}/report.css"} <= packed
