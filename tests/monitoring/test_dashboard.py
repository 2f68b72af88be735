"""The dashboard is complete, and asks only for what there is."""

from itertools import combinations
from typing import Any

from rescheduler.install.monitoring.alerts import ALERTS
from rescheduler.install.monitoring.dashboard import CHOSEN, ROWS, rescheduler_dashboard
from rescheduler.install.monitoring.grafana import GRID_WIDTH
from rescheduler.monitoring.metrics.definitions import ALL, MetricType
from tests.monitoring.used_metrics import used_metrics

PANELS = [panel for row in ROWS for panel in row.panels]


def series_names() -> set[str]:
    """The names of all series that our metrics have."""
    names: set[str] = set()
    for definition in ALL:
        endings = (
            ("_bucket", "_sum", "_count") if definition.type == MetricType.HISTOGRAM else ("",)
        )
        names.update(f"{definition.name}{ending}" for ending in endings)
    return names


def expressions() -> list[str]:
    asked = [query.expression for panel in PANELS for query in panel.queries]
    return [*asked, *(alert.expression for alert in ALERTS)]


def test_every_metric_that_is_asked_for_is_one_that_the_code_has() -> None:
    asked = {name for expression in expressions() for name in used_metrics(expression)}
    assert asked <= series_names()


def test_every_metric_is_in_an_alert_or_on_the_dashboard() -> None:
    """When a policy was loaded is for people who look at one replica."""
    asked = " ".join(expressions())
    unused = {definition.name for definition in ALL if definition.name not in asked}
    assert unused == {"rescheduler_policy_last_reload_timestamp_seconds"}


def test_every_panel_has_a_description_of_one_sentence() -> None:
    for panel in PANELS:
        assert panel.description.endswith("."), panel.title
        assert panel.description.count(". ") == 0, panel.title


def test_charts_show_a_value_that_stands_alone() -> None:
    """A quantile is not a number while nothing happens, and a line needs two values in a row."""
    charts = [each for each in rescheduler_dashboard()["panels"] if each["type"] == "timeseries"]
    assert charts
    for chart in charts:
        assert chart["fieldConfig"]["defaults"]["custom"]["showPoints"] == "auto", chart["title"]


def test_panels_lie_beside_each_other_in_the_grid() -> None:
    panels = rescheduler_dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = [panel["gridPos"] for panel in panels]
    assert all(place["x"] + place["w"] <= GRID_WIDTH for place in places)
    for one, other in combinations(places, 2):
        assert not overlap(one, other), (one, other)


def overlap(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return all(
        one[start] < other[start] + other[size] and other[start] < one[start] + one[size]
        for start, size in (("x", "w"), ("y", "h"))
    )


def test_what_is_chosen_restricts_every_query() -> None:
    for panel in PANELS:
        for query in panel.queries:
            names = used_metrics(query.expression)
            chosen = query.expression.count(CHOSEN)
            assert chosen >= max(1, len(names)), panel.title
