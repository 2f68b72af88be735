"""The load of nodes over time as SVG: a row for each node, or for each band if there are many."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from xml.etree.ElementTree import Element

from rescheduler.simulation.results.html.line_plots import time_marks
from rescheduler.simulation.results.html.svg import element
from rescheduler.simulation.results.result import NodeLoadSeries, Result
from rescheduler.simulation.results.text import clock_time

WIDTH = 1000
LEFT, BOTTOM = 120, 22
MOST_ROWS = 80
BANDS = 20
HEATS = 16
"""The steps of the scale, as many as the style sheet has colours for."""

Steps = list[int | None]
"""A row of the strip: for each time a step of the scale, or nothing."""


def drawing(result: Result) -> Element:
    """The loads of all nodes over time."""
    loads = result.node_loads
    if len(loads.by_node) > MOST_ROWS:
        rows = list(banded(loads))
    else:
        rows = [(name, [step_of(load) for load in line]) for name, line in loads.by_node.items()]
    height = 14 if len(rows) <= 45 else 9
    return strip(rows, height, result)


def explanation(result: Result) -> str:
    """What the strip shows."""
    if len(result.node_loads.by_node) > MOST_ROWS:
        return "Each row is a band of load. The darker it is, the more nodes are in it."
    return "Each row is a node. In a gap the node did not exist or was not ready."


def strip(rows: Sequence[tuple[str, Steps]], height: int, result: Result) -> Element:
    """Rows of this height, with their names on the left and times below."""
    times, total = result.node_loads.seconds, result.seconds
    bottom = height * len(rows)
    svg = element(
        "svg",
        element("title", f"Load of {len(rows)} rows over time. {explanation(result)}"),
        viewBox=f"0 0 {WIDTH} {bottom + BOTTOM}",
        role="img",
    )
    scale = (WIDTH - LEFT) / (total or 1)
    for number, (name, steps) in enumerate(rows):
        y = number * height
        place = {"x": LEFT - 8, "y": y + height - 3, "text_anchor": "end"}
        svg.append(element("text", name if len(name) <= 18 else f"{name[:17]}…", **place))
        for first, last, step in runs(steps):
            start, end = times[first], times[last + 1] if last + 1 < len(times) else total
            when = f"{clock_time(result, start)} to {clock_time(result, end)}"
            svg.append(
                element(
                    "rect",
                    element("title", f"{name}, {when}: {in_words(step)}"),
                    class_=f"h{step}",
                    x=f"{LEFT + start * scale:.1f}",
                    width=f"{(end - start) * scale + 0.3:.1f}",
                    y=y,
                    height=height - 1,
                )
            )
    for seconds in time_marks(total):
        place = {"x": f"{LEFT + seconds * scale:.1f}", "y": bottom + 16, "text_anchor": "middle"}
        svg.append(element("text", clock_time(result, seconds), **place))
    return svg


def runs(steps: Steps) -> Iterator[tuple[int, int, int]]:
    """Times of the same colour: the first, the last, and the step."""
    for step, group in groupby(range(len(steps)), key=lambda index: steps[index]):
        indices = list(group)
        if step is not None:
            yield indices[0], indices[-1], step


def step_of(load: float | None) -> int | None:
    """The step of the scale that a load is on."""
    return None if load is None else min(round(load * (HEATS - 1)), HEATS - 1)


def in_words(step: int) -> str:
    """What a step of the scale means."""
    return f"about {step / (HEATS - 1):.0%}"


def banded(loads: NodeLoadSeries) -> Iterator[tuple[str, Steps]]:
    """For each band of load, how many nodes are in it, as a step of the scale."""
    columns = range(len(loads.seconds))
    counts = [[0] * len(columns) for _ in range(BANDS)]
    for line in loads.by_node.values():
        for column in columns:
            load = line[column]
            if load is not None:
                counts[min(int(load * BANDS), BANDS - 1)][column] += 1
    most = max(max(row) for row in counts) or 1
    for band in reversed(range(BANDS)):
        name = f"{band * 100 // BANDS} to {(band + 1) * 100 // BANDS} %"
        yield name, [step_of(0.8 * count / most) if count else None for count in counts[band]]


def scale() -> Element:
    """All colours from empty to full, for the legend."""
    boxes = [
        element("rect", class_=f"h{step}", x=step * 10, y=0, width=10, height=10)
        for step in range(HEATS)
    ]
    return element("svg", *boxes, viewBox=f"0 0 {HEATS * 10} 10", aria_hidden="true")
