"""Puts together what is served about a program: its registries, its metrics, its probes.

Counters and histograms have locks of their own, and are read in the thread of the server. Gauges
are read from the program, on the loop that it runs on.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec
from prometheus_client import (
    CollectorRegistry,
    Metric,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

from rescheduler.controller.program import Program
from rescheduler.monitoring.health import dead_task, endless_plan
from rescheduler.monitoring.metrics.api_metrics import ApiMetrics
from rescheduler.monitoring.metrics.cache_metrics import CacheMetrics
from rescheduler.monitoring.metrics.controller_metrics import ControllerMetrics
from rescheduler.monitoring.metrics.policy_metrics import PolicyMetrics
from rescheduler.monitoring.monitoring_server import Document, MonitoringServer, Pages
from rescheduler.planning.strategies.strategy import Strategy
from rescheduler.settings import Policy

if TYPE_CHECKING:
    from rescheduler.extender.extender_server import ExtenderServer
    from rescheduler.extender.serve_program import ServeProgram
    from rescheduler.monitoring.metrics.serving_metrics import ServingMetrics

JSON = "application/json"


class Monitoring:
    """Everything about one program. Its parts are observers: pass them on, then `watch` it."""

    def __init__(
        self,
        policy: Policy,
        *,
        strategies: Mapping[str, type[Strategy]] = {},
        dry_run: bool = False,
        serves: bool = False,
    ) -> None:
        """`serves`: whether there is an extender."""
        # Else there is a second series beside each counter, with the time of its creation.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._policy = policy
        self.registry = CollectorRegistry()
        """Counters and histograms, which may be read in any thread."""
        self._gauges: list[Collector] = []
        """What may only be read on the loop of the program."""
        ProcessCollector(registry=self.registry)
        self._of_policy = PolicyMetrics(policy, strategies)
        self._gauges.append(self._of_policy)
        self.requests = ApiMetrics(self.registry)
        self.serving = serving_metrics(self.registry) if serves else None
        if self.serving is not None:
            self._gauges.append(self.serving)
        self._strategies = strategies
        self._dry_run = dry_run
        self._controller: ControllerMetrics | None = None
        self._server: MonitoringServer | None = None

    @property
    def controller(self) -> ControllerMetrics:
        """For a program that plans; asking creates it."""
        if self._controller is None:
            self._controller = ControllerMetrics(
                self.registry, self._strategies, dry_run=self._dry_run
            )
            self._controller.use(self._policy)
            self._gauges.append(self._controller)
        return self._controller

    @property
    def policy(self) -> Policy:
        """The policy in use; the program sets it when it was reloaded."""
        return self._policy

    @policy.setter
    def policy(self, policy: Policy) -> None:
        self._policy = policy
        self._of_policy.use(policy)
        if self._controller is not None:
            self._controller.use(policy)

    def policy_rejected(self) -> None:
        """A policy was rejected when it was reloaded."""
        self._of_policy.rejected()

    def watch_controller(
        self,
        program: Program,
        extender: "ExtenderServer | None",
        address: tuple[str, int],
        status: Callable[[], msgspec.Struct] | None = None,
    ) -> None:
        """Serve what there is to know about a controller."""
        self.controller.read_from(program)
        self._gauges.append(CacheMetrics(program.watches))
        why_not_ready = program.watches.why_not_loaded
        if extender is not None:
            self._read_from(extender)
            why_not_ready = extender.why_not_ready
        elif self._dry_run:
            # It can do without Migrations.
            why_not_ready = program.store.why_not_current
        pages = Pages(
            why_not_ready,
            lambda: dead_task(program) or endless_plan(program),
            Document(self.gauges, self.written, CONTENT_TYPE_PLAIN_0_0_4),
            None if status is None else Document(status, msgspec.json.encode, JSON),
        )
        self._server = MonitoringServer(address, self._policy, pages)
        program.add(self)

    def watch_extender(
        self,
        program: "ServeProgram",
        address: tuple[str, int],
        status: Callable[[], msgspec.Struct] | None = None,
    ) -> None:
        """Serve what there is to know about an extender that runs alone."""
        self._gauges.append(CacheMetrics(program.watches))
        self._read_from(program.extender)
        pages = Pages(
            program.extender.why_not_ready,
            lambda: dead_task(program),
            Document(self.gauges, self.written, CONTENT_TYPE_PLAIN_0_0_4),
            None if status is None else Document(status, msgspec.json.encode, JSON),
        )
        self._server = MonitoringServer(address, self._policy, pages)
        program.add(self)

    def _read_from(self, extender: "ExtenderServer") -> None:
        assert self.serving is not None, "there is an extender"
        self.serving.read_from(extender)

    async def run(self) -> None:
        """Serve until cancelled."""
        assert self._server is not None, "a program is watched"
        await self._server.run()

    def gauges(self) -> list[Metric]:
        """How things are at this moment. Called on the loop of the program."""
        return [family for collector in self._gauges for family in collector.collect()]

    def written(self, gauges: list[Metric]) -> bytes:
        """All metrics as text, these gauges among them. Called in any thread."""
        return generate_latest(AllMetrics(self.registry, gauges))


class AllMetrics(CollectorRegistry):
    """A registry, and metrics that were read before."""

    def __init__(self, registry: CollectorRegistry, others: Iterable[Metric]) -> None:
        super().__init__()
        self._registry = registry
        self._others = others

    def collect(self) -> Iterable[Metric]:
        """See `CollectorRegistry`."""
        yield from self._registry.collect()
        yield from self._others


def serving_metrics(registry: CollectorRegistry) -> "ServingMetrics":
    """Metrics of the extender. Who serves nothing does not import it."""
    from rescheduler.monitoring.metrics.serving_metrics import ServingMetrics

    return ServingMetrics(registry)
