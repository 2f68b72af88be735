"""docs/metrics.md has every metric, with its type and its labels, and no other."""

import re
from pathlib import Path

from rescheduler.monitoring.metrics.definitions import ALL, Definition, MetricType
from tests.monitoring.scraping import OF_THE_LIBRARY

PAGE = Path(__file__).parent.parent.parent / "docs" / "metrics.md"
NAME = re.compile(r"rescheduler_[a-z][a-z0-9_]*")


def rows() -> list[list[str]]:
    """The cells of each metric: name, type, labels, meaning, question."""
    lines = PAGE.read_text().splitlines()
    found = [line for line in lines if line.startswith("| `rescheduler_")]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in found]


def test_the_page_has_every_metric_with_its_type_and_labels() -> None:
    documented = {
        name.strip("`"): (type, tuple(re.findall(r"`(\w+)`", labels)))
        for name, type, labels, _, _ in rows()
    }
    assert documented == {
        definition.name: (definition.type.value, definition.labels) for definition in ALL
    }


def test_the_page_names_the_metrics_of_the_library() -> None:
    assert set(re.findall(r"`(process_\w+)`", PAGE.read_text())) == OF_THE_LIBRARY


def test_every_metric_has_a_meaning_and_a_question() -> None:
    assert len(rows()) == len(ALL)
    for name, _, _, meaning, question in rows():
        assert meaning, name
        assert "?" in question, name


def test_names_are_as_the_guide_of_prometheus_wants_them() -> None:
    assert len({definition.name for definition in ALL}) == len(ALL)
    for definition in ALL:
        assert NAME.fullmatch(definition.name), definition.name
        assert definition.description.endswith("."), definition.name
        check_ending(definition)


def check_ending(definition: Definition) -> None:
    name = definition.name
    assert name.endswith("_total") == (definition.type == MetricType.COUNTER), name
    if definition.type == MetricType.HISTOGRAM:
        assert name.endswith("_seconds"), name
        assert list(definition.buckets) == sorted(definition.buckets), name
    for unit in ("_milliseconds", "_ms", "_percent", "_minutes", "_count", "_sum", "_bucket"):
        assert not name.endswith(unit), name
