"""Metrics of the version and the policy, on every replica."""

import hashlib
import time
from collections.abc import Callable, Iterator

import msgspec
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from rescheduler.kube.transport import version_number
from rescheduler.monitoring.metrics.definitions import (
    BUILD_INFO,
    POLICY_ACCEPTED,
    POLICY_INFO,
    POLICY_RELOADED,
)
from rescheduler.settings import Policy

HASH_CHARACTERS = 12


class PolicyMetrics(Collector):
    """Says which policy is in use, and since when."""

    def __init__(self, policy: Policy, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._version = version_number()
        self.use(policy)

    def use(self, policy: Policy) -> None:
        """This policy is in use from now on."""
        self._hash = policy_hash(policy)
        self._reloaded_at = self._now()
        self._is_accepted = True

    def rejected(self) -> None:
        """A policy was rejected, and the old one stays in use."""
        self._is_accepted = False

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Nothing is collected to register."""
        yield from ()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """See `Collector`."""
        yield BUILD_INFO.gauge({(self._version,): 1})
        yield POLICY_INFO.gauge({(self._hash,): 1})
        yield POLICY_RELOADED.gauge({(): self._reloaded_at})
        yield POLICY_ACCEPTED.gauge({(): float(self._is_accepted)})


def policy_hash(policy: Policy) -> str:
    """The same for policies that say the same, in whatever words; replicas can be compared."""
    content = msgspec.json.encode(policy, enc_hook=repr, order="deterministic")
    return hashlib.sha256(content).hexdigest()[:HASH_CHARACTERS]
