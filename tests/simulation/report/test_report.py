"""The page can be read by anyone, anywhere, and nothing in it comes from elsewhere."""

import re
from html.parser import HTMLParser

import msgspec
import pytest

from rescheduler.simulation.report import page
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
        other_shortages=ShortageCounts(
            2, 8.0, {"Deployment shop/web": 2}, {"Scaling": 2}
        ),
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
        happenings=(TimelineEntry(60.0, "node-1 fails"),),
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
    read = Reader(page([result()]))
    text = " ".join(read.words)
    for told in (
        "2 pods moved",
        "no workload ever had a Ready pod too few",
        "LoadBalancing",
        "failed, undone",
        "its budget says no",
        "Nothing to move: all is well.",
        "node-1 fails",
        "more replicas were asked for",
        "Nothing is left behind",
    ):
        assert told in text, told


@pytest.mark.parametrize("results", [[result()], [result("none"), result("a"), result("b")]])
def test_nothing_in_it_is_loaded_from_elsewhere(results: list[Result]) -> None:
    text = page(results)
    read = Reader(text)
    assert not {tag for tag, _, _ in read.attributes} & {"script", "link", "img", "iframe", "a"}
    assert not [value for _, name, value in read.attributes if name in ("src", "href", "srcset")]
    assert not re.search(r"https?:|url\(|@import", text)


def test_names_in_a_cluster_cannot_become_part_of_the_page() -> None:
    evil = "<script>alert(1)</script>\"'&"
    spiked = msgspec.structs.replace(
        result(policy=evil),
        happenings=(TimelineEntry(60.0, evil),),
        blocked=(BlockerSummary("X", evil, 1, 1, evil, evil),),
        node_loads=NodeLoadSeries((0.0,), {evil: (0.5,)}),
    )
    assert "<script" not in page([spiked])
    assert "alert(1)" in " ".join(Reader(page([spiked])).words)


def test_every_plot_is_told_in_words_too() -> None:
    read = Reader(page([result()]))
    pictures = sum(name == "role" and value == "img" for _, name, value in read.attributes)
    assert pictures == 9
    assert "Imbalance over time, policy.yaml: from 80.0 % to 20.0 %" in read.words


def test_it_follows_the_readers_wish_for_light_or_dark() -> None:
    assert "prefers-color-scheme: dark" in page([result()])


def test_several_runs_are_side_by_side_with_a_line_each() -> None:
    read = Reader(page([result("none"), result("careful.yaml")]))
    assert "The same cluster and the same future, under each policy" in read.words
    lines = [value for _, name, value in read.attributes if value.startswith("line c")]
    assert set(lines) == {"line c0", "line c1"}


def test_files_are_told_apart_by_as_little_as_it_takes() -> None:
    short = Reader(page([result("a/careful.yaml"), result("b/bold.yaml")])).words
    assert {"careful.yaml", "bold.yaml"} <= set(short)
    long = Reader(page([result("a/policy.yaml"), result("b/policy.yaml")])).words
    assert {"a/policy.yaml", "b/policy.yaml"} <= set(long)


def test_times_of_several_days_have_their_day() -> None:
    long = msgspec.structs.replace(result(), seconds=30 * 86_400.0)
    read = Reader(page([long])).words
    assert "d8 06:00" in read
    assert any(each.startswith("30 d from d1 06:00") for each in read)


def test_many_nodes_are_shown_by_how_many_are_how_full() -> None:
    text = " ".join(Reader(page([result(nodes=500)])).words)
    assert "Each row is a band of load" in text
    assert "90 to 95 %" in text


def test_a_run_that_was_cut_short_can_be_shown() -> None:
    cut = msgspec.structs.replace(result(), seconds=0.0, imbalance=series(0.8), interrupted=True)
    assert "until it was interrupted" in page([cut])
