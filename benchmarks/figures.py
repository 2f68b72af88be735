"""A measured figure, and how figures are shown."""

import resource
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec
import psutil


class Figure(msgspec.Struct, frozen=True):
    """One measurement, and its upper limit."""

    name: str
    value: float
    unit: str
    at_most: float | None = None

    @property
    def verdict(self) -> str:
        """Whether the figure is within its limit."""
        if self.at_most is None:
            return ""
        return "ok" if self.value <= self.at_most else "TOO MUCH"


def peak_megabytes() -> float:
    """The most memory this process has had resident so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # Linux counts in KiB, macOS in bytes.
    return peak / 1e6 if sys.platform == "darwin" else peak * 1024 / 1e6


def resident_megabytes() -> float:
    """The memory this process has resident now."""
    return psutil.Process().memory_info().rss / 1e6


def median_seconds(action: Callable[[], object], repeat: int) -> float:
    """How long an action takes, the median of several runs."""
    seconds = []
    for _ in range(repeat):
        start = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


class Times(NamedTuple):
    """How long something took: wall-clock time and CPU time."""

    wall_seconds: float
    cpu_seconds: float


def times_of(action: Callable[[], object]) -> Times:
    """How long an action takes."""
    start, start_cpu = time.perf_counter(), time.process_time()
    action()
    return Times(time.perf_counter() - start, time.process_time() - start_cpu)


def median_times(action: Callable[[], object], repeat: int) -> Times:
    """How long an action takes, the median of several runs."""
    wall, cpu = zip(*(times_of(action) for _ in range(repeat)), strict=True)
    return Times(statistics.median(wall), statistics.median(cpu))


def table(figures: Sequence[Figure]) -> str:
    """The figures as lines of text."""
    width = max(len(figure.name) for figure in figures)
    lines = []
    for figure in figures:
        limit = "" if figure.at_most is None else f"at most {figure.at_most:g}"
        lines.append(
            f"{figure.name:<{width}}  {figure.value:>10.2f} {figure.unit:<8} "
            f"{limit:<14} {figure.verdict}".rstrip()
        )
    return "\n".join(lines)


def report(figures: Sequence[Figure]) -> None:
    """Print the figures as JSON, for the process that runs the benchmarks."""
    sys.stdout.write(msgspec.json.encode(figures).decode() + "\n")
