"""Dashboards as Grafana reads them: panels in rows, with variables for what to look at.

This is the classic model, which every Grafana from version 9 on imports. Only fields whose default
is not what we want are written.
"""

from dataclasses import dataclass
from itertools import count
from string import ascii_uppercase
from typing import Any

SCHEMA_VERSION = 39
GRID_WIDTH, ROW_HEIGHT = 24, 1
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
EVERYTHING = ".*"

Json = dict[str, Any]


@dataclass(frozen=True)
class Query:
    """What a panel asks Prometheus, and how it names the answers."""

    expression: str
    legend: str = ""


@dataclass(frozen=True)
class Panel:
    """One chart, or one number."""

    title: str
    description: str
    """One sentence."""
    queries: tuple[Query, ...]
    unit: str = "short"
    kind: str = "timeseries"
    stacked: bool = False
    alarming_from: float | None = None
    """A number is red from this value on."""

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in the grid."""
        return (4, 4) if self.kind == "stat" else (8, 8)


@dataclass(frozen=True)
class Row:
    """Panels below a title."""

    title: str
    panels: tuple[Panel, ...]


def chart(title: str, description: str, *queries: Query, unit: str = "short") -> Panel:
    """Lines over time."""
    return Panel(title, description, queries, unit)


def stacked_chart(title: str, description: str, *queries: Query, unit: str = "short") -> Panel:
    """Areas over time that add up."""
    return Panel(title, description, queries, unit, stacked=True)


def number(
    title: str,
    description: str,
    query: Query,
    unit: str = "short",
    alarming_from: float | None = None,
) -> Panel:
    """The newest value."""
    return Panel(title, description, (query,), unit, "stat", alarming_from=alarming_from)


# ------------------------------------------------------------ as JSON


def dashboard(uid: str, title: str, description: str, rows: tuple[Row, ...]) -> Json:
    """The whole dashboard."""
    return {
        "uid": uid,
        "title": title,
        "description": description,
        "tags": ["kubernetes", "rescheduler"],
        "schemaVersion": SCHEMA_VERSION,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "time": {"from": "now-6h", "to": "now"},
        "refresh": "1m",
        "timezone": "browser",
        "annotations": {"list": []},
        "links": [],
        "templating": {"list": variables()},
        "panels": placed(rows),
    }


def variables() -> list[Json]:
    """What a reader chooses: where the metrics are, and of which installation."""
    in_cluster = 'cluster=~"$cluster"'
    return [
        {
            "type": "datasource",
            "name": "datasource",
            "label": "Data source",
            "query": "prometheus",
            "refresh": 1,
            "hide": 0,
        },
        # Only a Prometheus of several clusters has this label.
        label_variable("cluster", "Cluster", "rescheduler_build_info"),
        label_variable("namespace", "Namespace", f"rescheduler_build_info{{{in_cluster}}}"),
        label_variable(
            "job", "Job", f'rescheduler_build_info{{{in_cluster}, namespace=~"$namespace"}}'
        ),
    ]


def label_variable(label: str, title: str, selector: str) -> Json:
    """A choice among the values of a label. All of them also means series without the label."""
    query = f"label_values({selector}, {label})"
    return {
        "type": "query",
        "name": label,
        "label": title,
        "datasource": DATASOURCE,
        "query": {"query": query, "refId": "StandardVariableQuery"},
        "refresh": 2,
        "sort": 1,
        "hide": 0,
        "multi": True,
        "includeAll": True,
        "allValue": EVERYTHING,
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
    }


def placed(rows: tuple[Row, ...]) -> list[Json]:
    """The panels of all rows, from left to right and from top to bottom."""
    found: list[Json] = []
    numbers = count(1)
    y = 0
    for row in rows:
        found.append(row_as_json(row, next(numbers), y))
        y += ROW_HEIGHT
        x = line_height = 0
        for panel in row.panels:
            width, height = panel.size
            if x + width > GRID_WIDTH or (x and height != line_height):
                x, y = 0, y + line_height
            place = {"x": x, "y": y, "w": width, "h": height}
            found.append(panel_as_json(panel, next(numbers), place))
            x, line_height = x + width, height
        y += line_height
    return found


def row_as_json(row: Row, number: int, y: int) -> Json:
    """The title of a row, across the whole width."""
    place = {"x": 0, "y": y, "w": GRID_WIDTH, "h": ROW_HEIGHT}
    fields = {"type": "row", "collapsed": False, "gridPos": place, "panels": []}
    return {"id": number, "title": row.title, **fields}


def panel_as_json(panel: Panel, number: int, place: dict[str, int]) -> Json:
    """One panel at its place."""
    is_number = panel.kind == "stat"
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "gridPos": place,
        "datasource": DATASOURCE,
        "targets": [
            query_as_json(query, letter, is_number)
            for query, letter in zip(panel.queries, ascii_uppercase, strict=False)
        ],
        "fieldConfig": {
            "defaults": number_style(panel) if is_number else chart_style(panel),
            "overrides": [],
        },
        "options": NUMBER_OPTIONS if is_number else CHART_OPTIONS,
    }


def query_as_json(query: Query, letter: str, is_number: bool) -> Json:
    """A query; a number needs only the newest value."""
    return {
        "refId": letter,
        "datasource": DATASOURCE,
        "editorMode": "code",
        "expr": query.expression,
        "legendFormat": query.legend or "__auto",
        "instant": is_number,
        "range": not is_number,
    }


NUMBER_OPTIONS: Json = {
    "colorMode": "value",
    "graphMode": "none",
    "justifyMode": "auto",
    "orientation": "auto",
    "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
    "textMode": "auto",
}

CHART_OPTIONS: Json = {
    "legend": {
        "calcs": ["lastNotNull"],
        "displayMode": "list",
        "placement": "bottom",
        "showLegend": True,
    },
    "tooltip": {"mode": "multi", "sort": "desc"},
}


def number_style(panel: Panel) -> Json:
    """Green, or red from a value on."""
    steps: list[Json] = [{"color": "green", "value": None}]
    if panel.alarming_from is not None:
        steps.append({"color": "red", "value": panel.alarming_from})
    return {"unit": panel.unit, "thresholds": {"mode": "absolute", "steps": steps}}


def chart_style(panel: Panel) -> Json:
    """Lines from zero on, or areas that add up; values without neighbours are points."""
    style: Json = {"drawStyle": "line", "fillOpacity": 10, "lineWidth": 1, "showPoints": "auto"}
    if panel.stacked:
        style |= {"fillOpacity": 40, "stacking": {"group": "A", "mode": "normal"}}
    return {"unit": panel.unit, "min": 0, "custom": style}
