"""Metrics of what a program knows of the cluster, on every replica."""

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from rescheduler.migration.migration_watches import MigrationWatches
from rescheduler.monitoring.metrics.definitions import CACHE_AGE, WATCH_LAG


class CacheMetrics(Collector):
    """Reads how old what is known is."""

    def __init__(self, watches: MigrationWatches) -> None:
        self._watches = watches

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """See `Collector`."""
        ages, oldest = self._watches.ages(), self._watches.age()
        yield WATCH_LAG.gauge({(resource,): age for resource, age in ages.items()})
        if oldest is not None:
            yield CACHE_AGE.gauge({(): oldest})
