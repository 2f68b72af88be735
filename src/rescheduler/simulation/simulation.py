"""Runs a scenario on a simulated cluster, with the rescheduler or without it, and measures it.

What moves pods is `controller.program.Program`, the very code that runs on Kubernetes. It is given
the simulated API server and clock, and cannot tell them from real ones.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from heapq import merge
from random import Random

from rescheduler.controller.program import Program
from rescheduler.controller.round_cache import Round
from rescheduler.errors import ReschedulerError
from rescheduler.planning.strategies.strategy import Strategy
from rescheduler.settings import Policy
from rescheduler.simulation.cluster.cluster import SimulatedCluster
from rescheduler.simulation.cluster.json_objects import (
    Json,
    condition,
    format_time,
    with_conditions,
)
from rescheduler.simulation.results.measurement.leftovers import leftovers_in
from rescheduler.simulation.results.measurement.log_warnings import WarningCollector
from rescheduler.simulation.results.measurement.recorder import SERIES, ResultRecorder
from rescheduler.simulation.results.measurement.workload_counts import REPLICATED_KINDS
from rescheduler.simulation.results.result import Result, SeriesSummary, TimelineEntry
from rescheduler.simulation.results.text import json_name
from rescheduler.simulation.scenario.timed_changes import (
    CreateObject,
    DeleteObject,
    FailNode,
    PatchObject,
    RestoreNode,
    TimedChange,
    Timeline,
)
from rescheduler.simulation.scenario.times import TimeOfDay
from rescheduler.simulation.simulated_time import SimulatedClock, run_simulated

SAMPLE_SECONDS = 60.0
# A series has no more points than this; longer runs are sampled less often.
MAX_POINTS = 1440


@dataclass(frozen=True)
class Scenario:
    """A cluster, and what happens to it: the same for every policy that is compared."""

    objects: list[Json]
    timeline: Timeline
    midnight: datetime
    """The day on which it starts."""
    starts_at: TimeOfDay
    seconds: float
    seed: int
    notes: tuple[str, ...] = ()
    prices: Mapping[str, float] = field(default_factory=dict)
    """The price of nodes by instance type, for nodes without an annotation."""

    @property
    def start(self) -> datetime:
        """The simulated time at which the run starts."""
        return self.midnight + timedelta(seconds=self.starts_at)

    @property
    def sample_seconds(self) -> float:
        """The time between two points of a series."""
        return max(SAMPLE_SECONDS, self.seconds / MAX_POINTS)


@dataclass(frozen=True)
class Progress:
    """The state of a run, for a live view."""

    now: datetime
    seconds: float
    total_seconds: float
    recorder: ResultRecorder
    last_change: str


@dataclass(frozen=True)
class NamedPolicy:
    """A policy and the name under which it is shown; None is a cluster without the rescheduler."""

    name: str
    policy: Policy | None


ShowProgress = Callable[[Progress], None]


def simulate(
    scenario: Scenario,
    named_policy: NamedPolicy,
    *,
    strategies: Mapping[str, type[Strategy]] = {},
    show: ShowProgress = lambda progress: None,
    is_interrupted: Callable[[], bool] = lambda: False,
) -> Result:
    """The result of the run; if it is interrupted, of the time until then."""

    async def run(clock: SimulatedClock) -> Result:
        return await _SimulationRun(scenario, named_policy, clock, show, is_interrupted).run(
            strategies
        )

    return run_simulated(run, scenario.start)


class _SimulationRun:
    def __init__(
        self,
        scenario: Scenario,
        named_policy: NamedPolicy,
        clock: SimulatedClock,
        show: ShowProgress,
        is_interrupted: Callable[[], bool],
    ) -> None:
        self._scenario = scenario
        self._policy_name = named_policy.name
        self._policy = named_policy.policy
        self._clock = clock
        self._show = show
        self._is_interrupted = is_interrupted
        self._cluster = SimulatedCluster(scenario.objects, seed=scenario.seed, start=scenario.start)
        policy = named_policy.policy or Policy()
        self._maintenance_label = policy.maintenance_label
        self._recorder = ResultRecorder(
            clock.seconds, scenario.seconds, scenario.prices, self._maintenance_label
        )
        self._timeline: list[TimelineEntry] = []
        self._warnings = WarningCollector()
        self._last_change = ""
        self._stopped_early = False

    async def run(self, strategies: Mapping[str, type[Strategy]]) -> Result:
        self._record_initial_objects()
        self._recorder.subscribe_to(self._cluster.subscribe)
        # Moves take seconds: a view that is updated once a minute would miss them.
        self._cluster.subscribe("Migration", lambda old, new: self._show(self._progress()))
        with self._warnings:
            await self._cluster.start()
            if self._policy is None:
                await self._apply_timeline()
            else:
                await self._run_with_rescheduler(self._policy, strategies)
            await self._cluster.stop()
        return self._result()

    def _record_initial_objects(self) -> None:
        recorder, cluster = self._recorder, self._cluster
        for node in cluster.list("Node").values():
            recorder.usage.node_changed(None, node)
        for kind in REPLICATED_KINDS:
            for controller in cluster.list(kind).values():
                recorder.controller_changed(None, controller)
        for pod in cluster.list("Pod").values():
            recorder.pod_changed(None, pod)
        recorder.shortages.begin()

    async def _run_with_rescheduler(
        self, policy: Policy, strategies: Mapping[str, type[Strategy]]
    ) -> None:
        """Run the program until the timeline ends; an error of either is raised."""
        program = Program(
            self._cluster.server,
            policy,
            strategies=strategies,
            clock=self._clock,
            chance=Random(f"{self._scenario.seed}/rescheduler"),
        )
        program.subscribe(self._record_round)
        running = asyncio.create_task(program.run())
        timeline = asyncio.create_task(self._apply_timeline())
        try:
            await asyncio.wait({running, timeline}, return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                running.result()
            await timeline
            program.stop()
            await running
        finally:
            running.cancel()
            timeline.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.gather(running, timeline, return_exceptions=True)

    def _record_round(self, planned: Round) -> None:
        self._recorder.blockers.add(planned.plan)

    # ------------------------------------------------------------ the timeline

    async def _apply_timeline(self) -> None:
        """Apply every change at its time and take samples, until the end or an interruption."""
        for at, change in self._changes_and_samples():
            await asyncio.sleep(at - self._clock.seconds())
            if change is not None:
                self._apply(change)
                continue
            self._recorder.sample()
            self._show(self._progress())
            if at < self._scenario.seconds and self._is_interrupted():
                self._stopped_early = True
                return

    def _changes_and_samples(self) -> Iterator[tuple[float, TimedChange | None]]:
        """Changes by time, and None for a sample; changes come before a sample of that time."""
        step, total = self._scenario.sample_seconds, self._scenario.seconds
        samples = [(number * step, None) for number in range(int(total / step) + 1)]
        if samples[-1][0] < total:
            samples.append((total, None))
        changes = (
            (change.at_seconds, change)
            for change in self._scenario.timeline
            if change.at_seconds <= total
        )
        return merge(changes, samples, key=lambda timed: (timed[0], timed[1] is None))

    def _apply(self, change: TimedChange) -> None:
        try:
            self._perform(change)
        except ReschedulerError as error:
            # Two entries of a workload file may contradict: a deleted node cannot fail.
            self._add_to_timeline(f"{change.description}: {error}")
            return
        self._last_change = change.description
        if is_notable(change):
            self._add_to_timeline(change.description)

    def _perform(self, change: TimedChange) -> None:
        cluster, action = self._cluster, change.action
        match action:
            case CreateObject():
                cluster.create(action.body)
            case PatchObject():
                cluster.patch(action.kind.name, action.key, action.body)
            case DeleteObject():
                cluster.delete(action.kind.name, action.key)
            case FailNode():
                self._set_ready(action.name, "Unknown", "NodeStatusUnknown")
            case RestoreNode():
                self._set_ready(action.name, "True", "KubeletReady")

    def _set_ready(self, node: str, status: str, reason: str) -> None:
        found = self._cluster.get("Node", node)
        before = found["status"] if found is not None else {}
        ready = condition("Ready", status, format_time(self._clock.now()), reason)
        conditions = with_conditions(before, [ready])["conditions"]
        self._cluster.patch("Node", node, {"status": {"conditions": conditions}}, status=True)

    def _add_to_timeline(self, what: str) -> None:
        self._timeline.append(TimelineEntry(round(self._clock.seconds(), 3), what))

    def _progress(self) -> Progress:
        return Progress(
            now=self._clock.now(),
            seconds=self._clock.seconds(),
            total_seconds=self._scenario.seconds,
            recorder=self._recorder,
            last_change=self._last_change,
        )

    # ------------------------------------------------------------ the result

    def _result(self) -> Result:
        scenario, recorder = self._scenario, self._recorder
        series = {name: recorder.series(name) for name in SERIES}
        last = series["imbalance"][-1].seconds if series["imbalance"] else 0.0
        by_moves, others = recorder.shortages.counts()
        return Result(
            policy=self._policy_name,
            seed=scenario.seed,
            start=format_time(scenario.start),
            seconds=last,
            interrupted=self._stopped_early,
            nodes=count_of_kind(scenario.objects, "Node"),
            pods=count_of_kind(scenario.objects, "Pod"),
            notes=scenario.notes,
            warnings=self._warnings.messages(),
            summary={json_name(name): SeriesSummary.of(points) for name, points in series.items()},
            **series,
            shortages_by_moves=by_moves,
            other_shortages=others,
            migrations=recorder.moves.counts(),
            rounds=recorder.blockers.rounds(),
            blocked=recorder.blockers.blocked(),
            pending=recorder.pending(),
            leftovers=leftovers_in(self._cluster, self._maintenance_label),
            timeline=tuple(self._timeline),
            node_loads=recorder.node_loads(),
        )


def is_notable(change: TimedChange) -> bool:
    """Whether a change is shown in results: changes by scaling and jobs are too many."""
    if isinstance(change.action, CreateObject):
        return bool(change.action.body["kind"] == "Node")
    return not (
        isinstance(change.action, PatchObject) and "replicas" in change.action.body.get("spec", {})
    )


def count_of_kind(objects: list[Json], kind: str) -> int:
    """How many of these objects are of a kind."""
    return sum(value["kind"] == kind for value in objects)
