"""Let a cluster live through its future, with the rescheduler or without it, and watch.

What moves pods is `migration.program.Program`, the very code that runs on Kubernetes. It is given
the server of the cluster in memory and its clock, and knows nothing of either being in memory.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
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
from rescheduler.simulation import simulated_time as simulated_time
from rescheduler.simulation.cluster.cluster import SimulatedCluster
from rescheduler.simulation.cluster.json_objects import Json, condition, text_of, with_conditions
from rescheduler.simulation.results import Result, ResultRecorder
from rescheduler.simulation.results.log_warnings import Warnings
from rescheduler.simulation.results.recorder import SERIES
from rescheduler.simulation.results.result import Happening
from rescheduler.simulation.results.summary import figures_of, leftovers_in
from rescheduler.simulation.results.text import camel
from rescheduler.simulation.results.workload_counts import COUNTING
from rescheduler.simulation.scenario.timed_changes import (
    CreateObject,
    DeleteObject,
    FailNode,
    Future,
    PatchObject,
    RestoreNode,
    TimedChange,
)
from rescheduler.simulation.scenario.times import TimeOfDay
from rescheduler.simulation.simulated_time import Clock

SAMPLE_SECONDS = 60.0
# A series has no more points than this; longer spans are sampled less often.
MOST_POINTS = 1440


@dataclass(frozen=True)
class Scenario:
    """A cluster and its future: the same for every policy that is tried on it."""

    objects: list[Json]
    future: Future
    midnight: datetime
    """The day on which it starts."""
    starts_at: TimeOfDay
    seconds: float
    seed: int
    notes: tuple[str, ...] = ()
    prices: Mapping[str, float] = field(default_factory=dict)
    """What nodes cost by their instance type, where they do not say it themselves."""

    @property
    def start(self) -> datetime:
        """When it starts."""
        return self.midnight + timedelta(seconds=self.starts_at)

    @property
    def sample_seconds(self) -> float:
        """From one point of a series to the next."""
        return max(SAMPLE_SECONDS, self.seconds / MOST_POINTS)


@dataclass(frozen=True)
class Progress:
    """How far a run is, for whoever watches."""

    now: datetime
    seconds: float
    total_seconds: float
    recorder: ResultRecorder
    last_change: str


@dataclass(frozen=True)
class Tried:
    """A policy, by the name under which it is shown; None is a cluster without the rescheduler."""

    name: str
    policy: Policy | None


Show = Callable[[Progress], None]


def simulate(
    scenario: Scenario,
    tried: Tried,
    *,
    strategies: Mapping[str, type[Strategy]] = {},
    show: Show = lambda progress: None,
    is_interrupted: Callable[[], bool] = lambda: False,
) -> Result:
    """Everything that was seen; if someone interrupts, until then."""

    async def live(clock: Clock) -> Result:
        return await _Run(scenario, tried, clock, show, is_interrupted).live(strategies)

    return simulated_time.run(live, scenario.start)


class _Run:
    """One run."""

    def __init__(
        self,
        scenario: Scenario,
        tried: Tried,
        clock: Clock,
        show: Show,
        is_interrupted: Callable[[], bool],
    ) -> None:
        self._scenario = scenario
        self._tried = tried
        self._clock = clock
        self._show = show
        self._is_interrupted = is_interrupted
        self._world = SimulatedCluster(scenario.objects, seed=scenario.seed, start=scenario.start)
        policy = tried.policy or Policy()
        self._recorder = ResultRecorder(
            clock.seconds,
            scenario.seconds,
            scenario.prices,
            policy.node_maintenance.maintenance_label,
        )
        self._happened: list[Happening] = []
        self._warnings = Warnings()
        self._last_change = ""

    async def live(self, strategies: Mapping[str, type[Strategy]]) -> Result:
        """From the first moment to the last."""
        self._take_in()
        self._recorder.subscribe_to(self._world.subscribe)
        # Moves are over within seconds: who looks once a minute would see none of them.
        self._world.subscribe("Migration", lambda old, new: self._show(self._progress()))
        with self._warnings:
            await self._run(strategies)
        return self._result()

    async def _run(self, strategies: Mapping[str, type[Strategy]]) -> None:
        await self._world.start()
        if self._tried.policy is None:
            await self._until_the_end()
        else:
            program = Program(
                self._world.server,
                self._tried.policy,
                strategies=strategies,
                clock=self._clock,
                chance=Random(f"{self._scenario.seed}/rescheduler"),
            )
            program.planning_loop.subscribe(self._round_made)
            await self._beside(program, self._until_the_end())
        await self._world.stop()

    def _take_in(self) -> None:
        """Tell the recorder of what is there from the start."""
        recorder, world = self._recorder, self._world
        for node in world.list("Node").values():
            recorder.loads.node_changed(None, node)
        for kind in COUNTING:
            for owner in world.list(kind).values():
                recorder.owner_changed(None, owner)
        for pod in world.list("Pod").values():
            recorder.pod_changed(None, pod)
        recorder.shortages.begin()

    async def _beside(self, program: Program, story: Awaitable[None]) -> None:
        """Let the rescheduler run while the story is told; what it fails with is raised."""
        running = asyncio.create_task(program.run())
        telling = asyncio.ensure_future(story)
        try:
            await asyncio.wait({running, telling}, return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                running.result()
            await telling
            program.stop()
            await running
        finally:
            running.cancel()
            telling.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.gather(running, telling, return_exceptions=True)

    def _round_made(self, made: Round) -> None:
        self._recorder.blockers.add(made.plan)

    # ------------------------------------------------------------ the story

    async def _until_the_end(self) -> None:
        for at, change in self._moments():
            await asyncio.sleep(at - self._clock.seconds())
            if change is not None:
                self._happen(change)
                continue
            self._recorder.sample()
            self._show(self._progress())
            if self._is_interrupted():
                return

    def _moments(self) -> Iterator[tuple[float, TimedChange | None]]:
        """When something happens, and in between when to look; a change before a look."""
        step, total = self._scenario.sample_seconds, self._scenario.seconds
        looks = [(number * step, None) for number in range(int(total / step) + 1)]
        if looks[-1][0] < total:
            looks.append((total, None))
        changes = [(each.at_seconds, each) for each in self._scenario.future]
        happening = (each for each in changes if each[0] <= total)
        return merge(happening, looks, key=lambda each: (each[0], each[1] is None))

    def _happen(self, change: TimedChange) -> None:
        try:
            self._make(change)
        except ReschedulerError as error:
            # Two entries of a file may be at odds: a node cannot fail when it is gone.
            self._note(f"{change.why}: {error}")
            return
        self._last_change = change.why
        if is_notable(change):
            self._note(change.why)

    def _make(self, change: TimedChange) -> None:
        world, what = self._world, change.what
        match what:
            case CreateObject():
                world.create(what.body)
            case PatchObject():
                world.patch(what.kind.name, what.key, what.body)
            case DeleteObject():
                world.delete(what.kind.name, what.key)
            case FailNode():
                self._set_ready(what.name, "Unknown", "NodeStatusUnknown")
            case RestoreNode():
                self._set_ready(what.name, "True", "KubeletReady")

    def _set_ready(self, node: str, status: str, reason: str) -> None:
        found = self._world.get("Node", node)
        before = found["status"] if found is not None else {}
        ready = condition("Ready", status, text_of(self._clock.now()), reason)
        conditions = with_conditions(before, [ready])["conditions"]
        self._world.patch("Node", node, {"status": {"conditions": conditions}}, status=True)

    def _note(self, what: str) -> None:
        self._happened.append(Happening(round(self._clock.seconds(), 3), what))

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
        scenario, recorder, world = self._scenario, self._recorder, self._world
        series = {name: recorder.series(name) for name in SERIES}
        last = series["imbalance"][-1].seconds if series["imbalance"] else 0.0
        by_moves, own = recorder.shortages.moments()
        policy = self._tried.policy or Policy()
        return Result(
            policy=self._tried.name,
            seed=scenario.seed,
            start=text_of(scenario.start),
            seconds=last,
            interrupted=last < scenario.seconds,
            nodes=count_of(scenario.objects, "Node"),
            pods=count_of(scenario.objects, "Pod"),
            notes=scenario.notes,
            warnings=self._warnings.told(),
            summary={camel(name): figures_of(points) for name, points in series.items()},
            **series,
            moments_below_desired=by_moves,
            own_moments_below_desired=own,
            migrations=recorder.moves.migrations(),
            rounds=recorder.blockers.rounds(),
            blocked=recorder.blockers.blocked(),
            pending=recorder.pending(),
            leftovers=leftovers_in(
                world.list("Pod"),
                world.list("PodDisruptionBudget"),
                world.list("Node"),
                world.list("Migration"),
                policy.node_maintenance.maintenance_label,
            ),
            happenings=tuple(self._happened),
            node_loads=recorder.node_loads(),
        )


def is_notable(change: TimedChange) -> bool:
    """Whether it is worth a mark on a plot: scaling and jobs happen all the time."""
    if isinstance(change.what, CreateObject):
        return bool(change.what.body["kind"] == "Node")
    return not (
        isinstance(change.what, PatchObject) and "replicas" in change.what.body.get("spec", {})
    )


def count_of(objects: list[Json], kind: str) -> int:
    """How many objects of a kind there are."""
    return sum(each["kind"] == kind for each in objects)
