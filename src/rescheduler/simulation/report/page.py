"""The whole page."""

from collections.abc import Iterator, Sequence
from xml.etree.ElementTree import Element

from rescheduler.migration.migration_object import Phase
from rescheduler.simulation.report import heat, tables
from rescheduler.simulation.report.elements import Child, element, html
from rescheduler.simulation.report.plots import plot
from rescheduler.simulation.report.style import LINES, css
from rescheduler.simulation.results.result import Result
from rescheduler.simulation.results.text import (
    NONE,
    TITLES,
    about,
    clock_time,
    headline,
    lasting,
    leftover_words,
    shortly_named,
    told,
)

MOST_HAPPENINGS = 100
# Nothing may be loaded from anywhere, whatever a name in a cluster may look like.
POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def page(results: Sequence[Result]) -> str:
    """One run, or several runs of the same future side by side."""
    results = shortly_named(results)
    main = element("main", *header(results))
    if len(results) > 1:
        main.append(element("h2", "Side by side"))
        main.append(tables.comparison(results))
    main.append(element("h2", "Over time"))
    if len(results) > 1:
        main.append(legend(results))
    main.append(element("div", *(plot(name, results) for name in TITLES), class_="plots"))
    for result in results:
        main.extend(each for each in run(result, len(results) > 1) if isinstance(each, Element))
    main.extend(happenings(results[0]))
    main.append(footer())
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", **{"http_equiv": "Content-Security-Policy", "content": POLICY}),
        element("title", "A simulated cluster"),
        element("style", css()),
    )
    return html(element("html", head, element("body", main), lang="en"))


def header(results: Sequence[Result]) -> Iterator[Element]:
    """What it comes down to, and what was simulated."""
    told_of = next((each for each in results if each.policy != NONE), results[0])
    yield element("h1", headline(told_of))
    which = f", policy {told_of.policy}" if len(results) == 1 else ""
    yield element("p", f"{about(told_of)}{which}.", class_="quiet")
    for note in told_of.notes:
        yield element("p", note, class_="quiet")
    if len(results) == 1:
        yield cards(told_of)


def cards(result: Result) -> Element:
    """The key figures."""
    summary = result.summary
    moments = result.moments_below_desired
    done = result.migrations.by_phase.get(Phase.COMPLETED, 0)
    ends = {
        "Imbalance": ("imbalance", summary["imbalance"]),
        "Nodes in use": ("nodes_in_use", summary["nodesInUse"]),
        "Cost of nodes in use": ("cost", summary["cost"]),
    }
    made = [
        card(
            title,
            f"{told(name, figures.first)} → {told(name, figures.last)}",
            f"on average {told(name, figures.mean)}",
        )
        for title, (name, figures) in ends.items()
    ]
    made.append(card("Pods moved", f"{done:,}", f"of {result.migrations.total:,} asked for"))
    lasted = f"for {lasting(moments.pod_seconds)} in all" if moments.total else "by moves"
    tone = "bad" if moments.total else "good"
    made.append(card("Moments below desired", f"{moments.total:,}", lasted, tone))
    waited = f"{result.pending.pods:,} pods, at most {lasting(result.pending.longest_seconds)}"
    made.append(card("Waited for a node", lasting(result.pending.pod_seconds), waited))
    return element("dl", *made, class_="cards")


def card(title: str, value: str, more: str, tone: str = "") -> Element:
    """One figure."""
    figure = element("dd", element("span", value, class_=tone or "plain"), element("small", more))
    return element("div", element("dt", title), figure, class_="card")


def legend(results: Sequence[Result]) -> Element:
    """Which line is whose."""
    items = [
        element("li", element("i", class_=f"c{number % LINES}"), result.policy)
        for number, result in enumerate(results)
    ]
    return element("ul", *items, class_="legend")


def run(result: Result, is_compared: bool) -> Iterator[Child]:
    """What is told of one run alone."""
    of_whom = f": {result.policy}" if is_compared else ""
    yield element("h2", f"How full each node was{of_whom}")
    yield element("p", heat.about(result), class_="quiet")
    yield heat.scale_legend()
    yield heat.heat_strip(result)
    yield element("h2", f"Moments below the desired count{of_whom}")
    yield tables.moments(result)
    if result.policy != NONE:
        yield element("h2", f"Moves by strategy and outcome{of_whom}")
        yield tables.moves(result)
        yield element("p", leftover_words(result), class_="quiet")
        yield element("h2", f"What was blocked, and why{of_whom}")
        yield tables.blocked(result)
        yield tables.at_rest(result)
    for warning in result.warnings:
        yield element("p", warning, class_="quiet")


def happenings(result: Result) -> Iterator[Element]:
    """What the future had in store: the same for every run."""
    if not result.happenings:
        return
    yield element("h2", "What happened")
    rows = [
        [clock_time(result, each.seconds), each.what]
        for each in result.happenings[:MOST_HAPPENINGS]
    ]
    left_out = len(result.happenings) - len(rows)
    more = f", and {left_out:,} more that are not listed" if left_out else ""
    yield tables.table(f"Dashed lines in the plots{more}", ["at", "what"], rows)


def footer() -> Element:
    """Where this comes from."""
    return element(
        "footer",
        element(
            "p",
            "Made by ",
            element("code", "rescheduler simulate"),
            ". Point at a plot to read its values. docs/simulation.md says how to read the rest.",
            class_="quiet",
        ),
    )
