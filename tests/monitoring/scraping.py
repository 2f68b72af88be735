"""Reads metrics over HTTP, as Prometheus does."""

import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from rescheduler.monitoring.metrics.definitions import Definition, MetricType
from testcluster.prometheus import PrometheusPrograms

OF_THE_LIBRARY = {
    "process_cpu_seconds_total",
    "process_max_fds",
    "process_open_fds",
    "process_resident_memory_bytes",
    "process_start_time_seconds",
    "process_virtual_memory_bytes",
}


@dataclass(frozen=True)
class Scrape:
    """What a program has answered."""

    families: tuple[Metric, ...]

    def value(self, name: str, **labels: str) -> float | None:
        """The sample with these labels and perhaps others; None if there is none, the sum if there
        are several."""
        found = [
            sample.value
            for family in self.families
            for sample in family.samples
            if sample.name == f"rescheduler_{name}" and labels.items() <= sample.labels.items()
        ]
        return sum(found) if found else None


def scrape(port: int) -> Scrape:
    """The metrics of the program with this port."""
    status, text = page(port, "/metrics")
    assert status == 200
    return scrape_of(text)


def scrape_of(text: str) -> Scrape:
    return Scrape(tuple(text_string_to_metric_families(text)))


def page(port: int, path: str) -> tuple[int, str]:
    """The status and the text of a page; 0 if nobody answers."""
    try:
        with urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as response:
            return response.status, response.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()
    except (URLError, OSError):
        return 0, ""


def undefined(found: Scrape, definitions: Iterable[Definition]) -> list[str]:
    """What was answered and is not defined like that."""
    known = {definition.name: definition for definition in definitions}
    wrong = []
    for family in found.families:
        # The parser leaves this ending out.
        name = f"{family.name}_total" if family.type == "counter" else family.name
        if name in OF_THE_LIBRARY:
            continue
        definition = known.get(name)
        if definition is None or definition.type != family.type:
            wrong.append(f"{name} of type {family.type}")
            continue
        own = {"le"} if definition.type == MetricType.HISTOGRAM else set()
        wrong += [
            f"{sample.name}{sample.labels}"
            for sample in family.samples
            if {*sample.labels} - own != {*definition.labels}
        ]
        if family.documentation != definition.description:
            wrong.append(f"{name}: {family.documentation}")
    return wrong


def complaints(programs: PrometheusPrograms, metrics: bytes) -> str:
    """What promtool finds wrong with metrics."""
    done = subprocess.run(
        [programs.promtool, "check", "metrics"],
        input=metrics,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    return done.stdout.decode()
