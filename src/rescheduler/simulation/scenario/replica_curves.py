"""Replica counts over a day."""

from bisect import bisect_right
from collections.abc import Callable, Mapping
from math import cos, pi

from rescheduler.simulation.scenario.times import DAY, time_of_day
from rescheduler.simulation.scenario.workload_fields import Curve, ScaledDeployment

Level = Callable[[float], float]
"""The count at so many seconds after midnight."""


def level_of(deployment: ScaledDeployment) -> Level:
    """How many replicas a Deployment has, by the time of day."""
    if deployment.curve is not None:
        return swinging(deployment.curve)
    if deployment.points:
        return between({time_of_day(at): count for at, count in deployment.points.items()})
    return lambda second: float(deployment.replicas or 0)


def swinging(curve: Curve) -> Level:
    """A wave with one peak a day."""

    def level(second: float) -> float:
        height = (1 + cos(2 * pi * (second - curve.peak) / DAY)) / 2
        return curve.low + (curve.high - curve.low) * height

    return level


def between(points: Mapping[int, int]) -> Level:
    """Straight lines from point to point, round the clock."""
    times = sorted(points)

    def level(second: float) -> float:
        after = bisect_right(times, second % DAY)
        before, then = times[after - 1], times[after % len(times)]
        length = (then - before) % DAY or DAY
        share = ((second - before) % DAY) / length
        return points[before] + (points[then] - points[before]) * share

    return level
