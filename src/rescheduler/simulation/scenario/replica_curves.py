"""The replica count of a Deployment by the time of day."""

from bisect import bisect_right
from collections.abc import Callable, Mapping
from math import cos, pi

from rescheduler.simulation.scenario.times import DAY, time_of_day
from rescheduler.simulation.scenario.workload_fields import Curve, ScaledDeployment

ReplicaCurve = Callable[[float], float]
"""The count by seconds after midnight."""


def replica_curve(deployment: ScaledDeployment) -> ReplicaCurve:
    """The curve, the points or the constant count of an entry."""
    if deployment.curve is not None:
        return _cosine(deployment.curve)
    if deployment.points:
        return _interpolated({time_of_day(at): count for at, count in deployment.points.items()})
    return lambda second: float(deployment.replicas or 0)


def _cosine(curve: Curve) -> ReplicaCurve:
    """One peak a day."""

    def count(second: float) -> float:
        height = (1 + cos(2 * pi * (second - curve.peak) / DAY)) / 2
        return curve.low + (curve.high - curve.low) * height

    return count


def _interpolated(points: Mapping[int, int]) -> ReplicaCurve:
    """Straight lines from point to point; the last point leads to the first of the next day."""
    times = sorted(points)

    def count(second: float) -> float:
        after = bisect_right(times, second % DAY)
        before, then = times[after - 1], times[after % len(times)]
        length = (then - before) % DAY or DAY
        share = ((second - before) % DAY) / length
        return points[before] + (points[then] - points[before]) * share

    return count
