"""What is better told than drawn."""

from collections.abc import Iterable, Sequence
from xml.etree.ElementTree import Element

from rescheduler.simulation.report.elements import Child, element
from rescheduler.simulation.results.result import Result
from rescheduler.simulation.results.text import (
    comparison_rows,
    counted,
    how_long,
    lasting,
    moment_rows,
    outcome_rows,
)


def table(
    caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int] = ()
) -> Element:
    """A table; the columns in `numbers` are aligned to the right."""

    def cell(tag: str, column: int, text: str, **more: str) -> Element:
        kind = {"class_": "number"} if column in numbers else {}
        return element(tag, text, **kind, **more)

    head = element("tr", *(cell("th", n, text, scope="col") for n, text in enumerate(heads)))
    body = element("tbody")
    for row in rows:
        first, *rest = row
        cells = (cell("td", number, text) for number, text in enumerate(rest, start=1))
        body.append(element("tr", cell("th", 0, first, scope="row"), *cells))
    made = element("table", element("caption", caption), element("thead", head), body)
    made[0].set("class", "quiet")
    return element("div", made, class_="scroll")


def comparison(results: Sequence[Result]) -> Element:
    """All runs side by side."""
    heads = ["", *(result.policy for result in results)]
    caption = "The same cluster and the same future, under each policy"
    return table(caption, heads, comparison_rows(results), range(1, len(heads)))


def moves(result: Result) -> Child:
    """Moves by strategy and outcome."""
    words, counts = outcome_rows(result)
    if not counts:
        return element("p", "Nothing was moved.")
    rows = [[name, *(f"{count:,}" for count in row), f"{sum(row):,}"] for name, row in counts]
    heads = ["for", *words, "in all"]
    caption = (
        f"{counted(result.migrations.total, 'move')}; a completed one took "
        f"{lasting(result.migrations.mean_seconds)} on average"
    )
    return table(caption, heads, rows, range(1, len(heads)))


def moments(result: Result) -> Element:
    """Who is charged with moments below the desired count."""
    caption = f"One Ready pod too few is one moment. {how_long(result)}"
    return table(caption, ["charged to", "why", "moments"], moment_rows(result), [2])


def blocked(result: Result) -> Child:
    """Why pods stayed where they were."""
    if not result.blocked:
        return element("p", "No pod was kept on a node that it should leave.")
    rows = [
        [each.meaning, f"{each.pods:,}", f"{each.rounds:,}", f"{each.example}: {each.detail}"]
        for each in result.blocked
    ]
    caption = "Pods that should have left their node, by what kept them"
    return table(caption, ["why", "pods", "rounds", "for example"], rows, [1, 2])


def at_rest(result: Result) -> Child:
    """Why rounds moved nothing."""
    rounds = result.rounds
    if not rounds.at_rest:
        return None
    rows = [[each.why, f"{each.rounds:,}"] for each in rounds.at_rest]
    caption = (
        f"{counted(rounds.total, 'round')}, {rounds.with_moves:,} of them with moves; "
        "why the others had none"
    )
    return table(caption, ["why", "rounds"], rows, [1])
