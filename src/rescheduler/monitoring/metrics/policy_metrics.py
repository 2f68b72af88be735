"""Metrics of the version and the policy, on every replica."""

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping

import msgspec
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from rescheduler.kube.transport import version_number
from rescheduler.monitoring.metrics.definitions import (
    BUILD_INFO,
    POLICY_ACCEPTED,
    POLICY_INFO,
    POLICY_RELOADED,
    POLICY_THRESHOLD,
)
from rescheduler.planning.strategies import enabled_strategies
from rescheduler.planning.strategies.strategy import Strategy
from rescheduler.settings import Policy, StrategyName

HASH_CHARACTERS = 12


THRESHOLDS = {
    StrategyName.LOAD_BALANCING: ("imbalanceThreshold",),
    StrategyName.RESOURCE_OPTIMIZATION: ("cpuThreshold", "memoryThreshold"),
}
"""The arguments of a policy that say from which share on a strategy acts."""


class PolicyMetrics(Collector):
    """Says which policy is in use, and since when."""

    def __init__(
        self,
        policy: Policy,
        strategies: Mapping[str, type[Strategy]] = {},
        now: Callable[[], float] = time.time,
    ) -> None:
        """`strategies` are those of plugins, which may require others."""
        self._strategies = strategies
        self._now = now
        self._version = version_number()
        self.use(policy)

    def use(self, policy: Policy) -> None:
        """This policy is in use from now on."""
        self._hash = policy_hash(policy)
        enabled = {strategy.name for strategy in enabled_strategies(policy, self._strategies)}
        self._thresholds = {
            (name.value, threshold): share
            for name, thresholds in THRESHOLDS.items()
            if name in enabled
            for threshold, share in shares_of(policy, thresholds).items()
        }
        self._reloaded_at = self._now()
        self._is_accepted = True

    def rejected(self) -> None:
        """A policy was rejected, and the old one stays in use."""
        self._is_accepted = False

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """See `Collector`."""
        yield BUILD_INFO.gauge({(self._version,): 1})
        yield POLICY_INFO.gauge({(self._hash,): 1})
        yield POLICY_RELOADED.gauge({(): self._reloaded_at})
        yield POLICY_ACCEPTED.gauge({(): float(self._is_accepted)})
        yield POLICY_THRESHOLD.gauge(self._thresholds)


def shares_of(policy: Policy, arguments: tuple[str, ...]) -> dict[str, float]:
    """The values of arguments that are percentages, from 0 to 1."""
    names = {field.encode_name: field.name for field in msgspec.structs.fields(Policy)}
    return {argument: getattr(policy, names[argument]) / 100 for argument in arguments}


def policy_hash(policy: Policy) -> str:
    """The same for policies with the same values, so that replicas can be compared.

    A selector or a list that means the same and is written differently has another hash.
    """
    content = msgspec.json.encode(policy, enc_hook=repr, order="deterministic")
    return hashlib.sha256(content).hexdigest()[:HASH_CHARACTERS]
