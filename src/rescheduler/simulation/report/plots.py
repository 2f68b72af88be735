"""Series over time as pictures: a line for each run, the same axes for all of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from xml.etree.ElementTree import Element

from rescheduler.simulation.report.elements import element
from rescheduler.simulation.report.style import LINES
from rescheduler.simulation.results.result import Happening, Point, Result, Series
from rescheduler.simulation.results.text import EXPLANATIONS, TITLES, clock_time, series_of, told

WIDTH, HEIGHT = 640, 170
LEFT, RIGHT, TOP, BOTTOM = 52, 8, 10, 22
# More points than these cannot be told apart, nor hit with a mouse.
MOST_POINTS, MOST_HITS = 320, 96
MOST_EVENTS = 40
HOURS_BETWEEN_MARKS = (0.25, 0.5, 1, 2, 3, 4, 6, 12, 24, 48, 72, 168)
MOST_MARKS = 9


@dataclass(frozen=True)
class Axes:
    """From seconds and values to places in the picture."""

    seconds: float
    highest: float

    def across(self, seconds: float) -> float:
        """The place of a time."""
        return LEFT + (WIDTH - LEFT - RIGHT) * seconds / (self.seconds or 1)

    def up(self, value: float) -> float:
        """The place of a value."""
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / (self.highest or 1)


def plot(name: str, results: Sequence[Result]) -> Element:
    """One series of all runs, with what it is and what can be read off it."""
    lines = [series_of(result, name) for result in results]
    values = [point.value for line in lines for point in line]
    axes = Axes(max(result.seconds for result in results), round_up(max(values, default=0)))
    title = TITLES[name]
    picture = element(
        "svg",
        element("title", f"{title} over time, {in_words(name, results)}"),
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
    )
    picture.extend(grid(name, axes, results[0]))
    for number, line in enumerate(lines):
        picture.extend(drawn(thinned(line), axes, number, filled=len(lines) == 1))
    picture.extend(hits(name, results, axes))
    # Last, so that they can be pointed at.
    picture.extend(event_marks(results[0].happenings, axes, results[0]))
    caption = element("figcaption", element("h3", title), last_values(name, results))
    return element("figure", caption, element("p", EXPLANATIONS[name]), picture, class_="plot")


def in_words(name: str, results: Sequence[Result]) -> str:
    """What the lines do, for those who cannot see them."""
    parts = []
    for result in results:
        points = series_of(result, name)
        if points:
            ends = f"from {told(name, points[0].value)} to {told(name, points[-1].value)}"
            parts.append(f"{result.policy}: {ends}")
    return "; ".join(parts)


def last_values(name: str, results: Sequence[Result]) -> Element | None:
    """What a single line begins and ends with."""
    if len(results) > 1 or not series_of(results[0], name):
        return None
    points = series_of(results[0], name)
    ends = f"{told(name, points[0].value)} → {told(name, points[-1].value)}"
    return element("span", ends, class_="quiet")


def grid(name: str, axes: Axes, result: Result) -> list[Element]:
    """Lines to read values and times off."""
    made = []
    for share in (0, 0.5, 1):
        value = axes.highest * share
        y = f"{axes.up(value):.1f}"
        made.append(element("line", class_="grid", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y))
        place = {"x": LEFT - 6, "y": f"{axes.up(value) + 4:.1f}", "text_anchor": "end"}
        made.append(element("text", short(name, value), **place))
    for seconds in time_marks(axes.seconds):
        place = {"x": f"{axes.across(seconds):.1f}", "y": HEIGHT - 6, "text_anchor": "middle"}
        made.append(element("text", clock_time(result, seconds), **place))
    return made


def short(name: str, value: float) -> str:
    """A value beside an axis."""
    text = told(name, value)
    return text.replace(".0 %", " %").removesuffix(".00")


def time_marks(seconds: float) -> list[float]:
    """Round times, few enough to be read."""
    hours = seconds / 3600
    step = next((each for each in HOURS_BETWEEN_MARKS if hours / each <= MOST_MARKS), hours / 7)
    return [number * step * 3600 for number in range(floor(hours / step + 1e-9) + 1)]


def event_marks(happenings: Sequence[Happening], axes: Axes, result: Result) -> list[Element]:
    """A dashed line for what happened to nodes and versions."""
    made = []
    for each in happenings[:MOST_EVENTS]:
        x = f"{axes.across(each.seconds):.1f}"
        told_when = element("title", f"{clock_time(result, each.seconds)}: {each.what}")
        line = element("line", told_when, class_="event", x1=x, x2=x, y1=TOP, y2=HEIGHT - BOTTOM)
        made.append(line)
    return made


def drawn(points: Series, axes: Axes, number: int, filled: bool) -> list[Element]:
    """A line, and the area under it if it is the only one."""
    if not points:
        return []
    places = [f"{axes.across(each.seconds):.1f} {axes.up(each.value):.1f}" for each in points]
    path = "M" + "L".join(places)
    colour = f"c{number % LINES}"
    made = [element("path", class_=f"line {colour}", d=path)]
    if filled:
        floor_at = axes.up(0)
        ends = (
            f"L{axes.across(points[-1].seconds):.1f} {floor_at:.1f}"
            f"L{axes.across(points[0].seconds):.1f} {floor_at:.1f}Z"
        )
        made.append(element("path", class_=f"area {colour}", d=path + ends))
    return made


def hits(name: str, results: Sequence[Result], axes: Axes) -> list[Element]:
    """Invisible columns that say what the values are where one points."""
    lines = [series_of(result, name) for result in results]
    longest = max(lines, key=len)
    step = ceil(len(longest) / MOST_HITS) or 1
    width = (WIDTH - LEFT - RIGHT) / max(len(longest) / step, 1)
    made = []
    for index in range(0, len(longest), step):
        seconds = longest[index].seconds
        values = [
            f"{result.policy}: {told(name, line[index].value)}"
            if len(results) > 1
            else told(name, line[index].value)
            for result, line in zip(results, lines, strict=True)
            if index < len(line)
        ]
        text = "\n".join([clock_time(results[0], seconds), *values])
        place = {"x": f"{axes.across(seconds) - width / 2:.1f}", "width": f"{width:.1f}"}
        column = element(
            "rect",
            element("title", text),
            class_="hit",
            y=TOP,
            height=HEIGHT - TOP - BOTTOM,
            **place,
        )
        made.append(column)
    return made


def thinned(points: Series) -> Series:
    """As many points as can be seen; of those that share a place, the highest stays."""
    step = ceil(len(points) / MOST_POINTS) or 1
    if step == 1:
        return points
    groups = [points[start : start + step] for start in range(0, len(points), step)]
    return tuple(Point(group[0].seconds, max(each.value for each in group)) for group in groups)


def round_up(value: float) -> float:
    """The next number with which an axis can end."""
    if value <= 0:
        return 1.0
    power = 10.0 ** floor(log10(value))
    return next(each * power for each in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if each * power >= value)
