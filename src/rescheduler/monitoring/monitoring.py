"""Puts together what is served about a program: its registry, its metrics, its probes."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from prometheus_client import (
    CollectorRegistry,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from rescheduler.controller.program import Program
from rescheduler.monitoring.health import dead_task, endless_plan
from rescheduler.monitoring.metrics.api_metrics import ApiMetrics
from rescheduler.monitoring.metrics.cache_metrics import CacheMetrics
from rescheduler.monitoring.metrics.controller_metrics import ControllerMetrics
from rescheduler.monitoring.metrics.policy_metrics import PolicyMetrics
from rescheduler.monitoring.monitoring_server import MonitoringServer, Pages
from rescheduler.planning.strategies.strategy import Strategy
from rescheduler.settings import Policy

if TYPE_CHECKING:
    from rescheduler.extender.extender_server import ExtenderServer
    from rescheduler.extender.serve_program import ServeProgram
    from rescheduler.monitoring.metrics.serving_metrics import ServingMetrics


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
        ProcessCollector(registry=self.registry)
        self._of_policy = PolicyMetrics(policy, strategies)
        self.registry.register(self._of_policy)
        self.requests = ApiMetrics(self.registry)
        self.serving = serving_metrics(self.registry) if serves else None
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
        status: Callable[[], bytes] | None = None,
    ) -> None:
        """Serve what there is to know about a controller."""
        self.controller.read_from(program)
        self.registry.register(CacheMetrics(program.watches))
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
            self.render,
            status,
        )
        self._server = MonitoringServer(address, self._policy, pages)
        program.add(self)

    def watch_extender(
        self,
        program: "ServeProgram",
        address: tuple[str, int],
        status: Callable[[], bytes] | None = None,
    ) -> None:
        """Serve what there is to know about an extender that runs alone."""
        self.registry.register(CacheMetrics(program.watches))
        self._read_from(program.extender)
        pages = Pages(
            program.extender.why_not_ready,
            lambda: dead_task(program),
            self.render,
            status,
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

    def render(self) -> tuple[bytes, str]:
        """All metrics as text, and the type of that text."""
        return generate_latest(self.registry), CONTENT_TYPE_PLAIN_0_0_4


def serving_metrics(registry: CollectorRegistry) -> "ServingMetrics":
    """Metrics of the extender. Who serves nothing does not import it."""
    from rescheduler.monitoring.metrics.serving_metrics import ServingMetrics

    return ServingMetrics(registry)
