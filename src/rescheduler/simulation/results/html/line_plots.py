"""Series over time as SVG: a line for each run, and the same axes for all of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from xml.etree.ElementTree import Element

from rescheduler.simulation.results.html.svg import element
from rescheduler.simulation.results.result import Point, Result, Series, TimelineEntry
from rescheduler.simulation.results.text import TITLES, clock_time, format_value, series_of

LINE_COLOURS = 6
"""As many as the style sheet has."""

WIDTH, HEIGHT = 640, 170
LEFT, RIGHT, TOP, BOTTOM = 52, 8, 10, 22
# The eye cannot separate more points, nor can the mouse.
MOST_POINTS, MOST_HITS = 320, 96
MOST_EVENTS = 40
HOURS_BETWEEN_MARKS = (0.25, 0.5, 1, 2, 3, 4, 6, 12, 24, 48, 72, 168)
MOST_MARKS = 9


@dataclass(frozen=True)
class Axes:
    """From seconds and values to coordinates."""

    seconds: float
    highest: float

    def across(self, seconds: float) -> float:
        """The x of a time."""
        return LEFT + (WIDTH - LEFT - RIGHT) * seconds / (self.seconds or 1)

    def up(self, value: float) -> float:
        """The y of a value."""
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / (self.highest or 1)


def drawing(name: str, results: Sequence[Result]) -> Element:
    """One series of all runs."""
    lines = [series_of(result, name) for result in results]
    values = [point.value for line in lines for point in line]
    axes = Axes(max(result.seconds for result in results), round_up(max(values, default=0)))
    svg = element(
        "svg",
        element("title", f"{TITLES[name]} over time, {in_words(name, results)}"),
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
    )
    svg.extend(grid(name, axes, results[0]))
    for number, line in enumerate(lines):
        svg.extend(line_elements(thinned(line), axes, number, filled=len(lines) == 1))
    svg.extend(hits(name, results, axes))
    # Last, so that they can be pointed at.
    svg.extend(event_marks(results[0].timeline, axes, results[0]))
    return svg


def in_words(name: str, results: Sequence[Result]) -> str:
    """What the lines do, for those who cannot see them."""
    parts = []
    for result in results:
        points = series_of(result, name)
        if points:
            first, last = (format_value(name, point.value) for point in (points[0], points[-1]))
            parts.append(f"{result.policy}: from {first} to {last}")
    return "; ".join(parts)


def first_and_last(name: str, result: Result) -> str:
    """What a line begins and ends with; empty if there is no line."""
    points = series_of(result, name)
    return (
        f"{format_value(name, points[0].value)} → {format_value(name, points[-1].value)}"
        if points
        else ""
    )


def colour(number: int) -> str:
    """The class of the lines of a run in the style sheet."""
    return f"c{number % LINE_COLOURS}"


def grid(name: str, axes: Axes, result: Result) -> list[Element]:
    """Lines to read values and times off."""
    elements = []
    for share in (0, 0.5, 1):
        value = axes.highest * share
        y = f"{axes.up(value):.1f}"
        elements.append(element("line", class_="grid", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y))
        place = {"x": LEFT - 6, "y": f"{axes.up(value) + 4:.1f}", "text_anchor": "end"}
        elements.append(element("text", short(name, value), **place))
    for seconds in time_marks(axes.seconds):
        place = {"x": f"{axes.across(seconds):.1f}", "y": HEIGHT - 6, "text_anchor": "middle"}
        elements.append(element("text", clock_time(result, seconds), **place))
    return elements


def short(name: str, value: float) -> str:
    """A value beside an axis."""
    text = format_value(name, value)
    return text.replace(".0 %", " %").removesuffix(".00")


def time_marks(seconds: float) -> list[float]:
    """Round times, few enough to be read."""
    hours = seconds / 3600
    fitting = (step for step in HOURS_BETWEEN_MARKS if hours / step <= MOST_MARKS)
    step = next(fitting, hours / 7)
    return [number * step * 3600 for number in range(floor(hours / step + 1e-9) + 1)]


def event_marks(entries: Sequence[TimelineEntry], axes: Axes, result: Result) -> list[Element]:
    """A dashed line for what happened to nodes and versions."""
    elements = []
    for entry in entries[:MOST_EVENTS]:
        x = f"{axes.across(entry.seconds):.1f}"
        title = element("title", f"{clock_time(result, entry.seconds)}: {entry.what}")
        line = element("line", title, class_="event", x1=x, x2=x, y1=TOP, y2=HEIGHT - BOTTOM)
        elements.append(line)
    return elements


def line_elements(points: Series, axes: Axes, number: int, filled: bool) -> list[Element]:
    """The line of a run, and the area under it if `filled`."""
    if not points:
        return []
    corners = [f"{axes.across(point.seconds):.1f} {axes.up(point.value):.1f}" for point in points]
    path = "M" + "L".join(corners)
    line = element("path", class_=f"line {colour(number)}", d=path)
    if not filled:
        return [line]
    left, right = axes.across(points[0].seconds), axes.across(points[-1].seconds)
    bottom = axes.up(0)
    closed = f"{path}L{right:.1f} {bottom:.1f}L{left:.1f} {bottom:.1f}Z"
    return [line, element("path", class_=f"area {colour(number)}", d=closed)]


def hits(name: str, results: Sequence[Result], axes: Axes) -> list[Element]:
    """Invisible columns: the browser shows the values of the one under the mouse."""
    lines = [series_of(result, name) for result in results]
    longest = max(lines, key=len)
    step = ceil(len(longest) / MOST_HITS) or 1
    width = (WIDTH - LEFT - RIGHT) / max(len(longest) / step, 1)
    elements = []
    for index in range(0, len(longest), step):
        seconds = longest[index].seconds
        values = [
            f"{result.policy}: {format_value(name, line[index].value)}"
            if len(results) > 1
            else format_value(name, line[index].value)
            for result, line in zip(results, lines, strict=True)
            if index < len(line)
        ]
        column = element(
            "rect",
            element("title", "\n".join([clock_time(results[0], seconds), *values])),
            class_="hit",
            y=TOP,
            height=HEIGHT - TOP - BOTTOM,
            x=f"{axes.across(seconds) - width / 2:.1f}",
            width=f"{width:.1f}",
        )
        elements.append(column)
    return elements


def thinned(points: Series) -> Series:
    """As many points as can be seen: the highest of every few."""
    step = ceil(len(points) / MOST_POINTS) or 1
    if step == 1:
        return points
    groups = [points[start : start + step] for start in range(0, len(points), step)]
    return tuple(Point(group[0].seconds, max(point.value for point in group)) for group in groups)


def round_up(value: float) -> float:
    """The next round number, for an axis to end with."""
    if value <= 0:
        return 1.0
    power = 10.0 ** floor(log10(value))
    return next(top * power for top in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if top * power >= value)
