"""Random stories: a small cluster, people who change things, and moves that are asked for.

A story is made from its seed alone. `told` runs it, with faults, until it has come to rest.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from typing import Any

from rescheduler.controller.program import Program
from rescheduler.errors import ApiError
from rescheduler.labels import DELETION_COST, STARTS_IN_SECONDS
from rescheduler.migration.migration_requests import migration_body
from rescheduler.settings import MigrationArguments, Policy
from rescheduler.settings.value_types import Limit, Seconds
from rescheduler.simulation.cluster.cluster import SimulatedCluster
from rescheduler.simulation.cluster.json_objects import (
    Json,
    condition,
    controller_of,
    is_active,
    labels_of,
    with_conditions,
)
from rescheduler.simulation.cluster.timings import RandomSeconds, Timings
from rescheduler.simulation.simulated_time import run_simulated
from testcluster.builders import budget, deployment, node, pod, replicaset, statefulset
from tests.simulation.faulty_api_server import FaultRates, FaultyApiServer
from tests.simulation.invariants import Invariants

START = datetime(2026, 3, 1, 8, 0, tzinfo=UTC)
NAMESPACE = "shop"
TIMINGS = Timings(ready=RandomSeconds(6.0, 0.6), stop=RandomSeconds(2.0, 0.9))
STORY_SECONDS = 240.0
# Longer than all retries, timeouts and back-offs together.
REST_SECONDS = 1500.0
KINDS = ("Deployment", "Deployment", "Deployment", "ReplicaSet", "ReplicationController")


@dataclass
class RandomScenario:
    """What a seed stands for."""

    seed: int
    with_faults: bool = True
    chance: Random = field(init=False)
    apps: dict[str, str] = field(default_factory=dict)
    """By name: the kind of workload."""

    def __post_init__(self) -> None:
        self.chance = Random(f"story {self.seed}")

    # ------------------------------------------------------------ the cluster

    def objects(self) -> Iterator[Json]:
        chance = self.chance
        self.nodes = [f"node-{number}" for number in range(chance.randint(3, 5))]
        for name in self.nodes:
            yield node(name, cpu=chance.choice(("8", "16")), zone=chance.choice("ab"))
        # A target that is too small for most.
        self.nodes.append("small")
        yield node("small", cpu="350m", zone="a")
        for number in range(chance.randint(2, 4)):
            yield from self._app(f"app-{number}", chance.choice(KINDS))
        if chance.random() < 0.5:
            yield from self._app("store", "StatefulSet")
        if chance.random() < 0.5:
            self.apps["alone"] = "Pod"
            made = pod(f"{NAMESPACE}/alone", cpu="100m", labels={"app": "alone"})
            del made["status"]
            yield made

    def _app(self, name: str, kind: str) -> Iterator[Json]:
        chance, key = self.chance, f"{NAMESPACE}/{name}"
        replicas = chance.randint(1, 4)
        cpu = chance.choice(("100m", "300m", "700m"))
        labels = {"app": name, "part": f"{name}-of-shop"}
        self.apps[name] = kind
        if kind == "Deployment":
            rolling = {"maxSurge": chance.choice((1, "50%")), "maxUnavailable": 0}
            made = deployment(
                key, replicas, cpu, strategy={"type": "RollingUpdate", "rollingUpdate": rolling}
            )
            if chance.random() < 0.15:
                made["spec"]["strategy"] = {"type": "Recreate"}
        elif kind == "StatefulSet":
            made = statefulset(key, replicas, cpu)
        else:
            made = replicaset(key, replicas, cpu, labels=labels)
            if kind == "ReplicationController":
                made |= {"apiVersion": "v1", "kind": kind}
                made["spec"]["selector"] = labels
        if chance.random() < 0.3:
            template = made["spec"]["template"]
            template["metadata"] = {
                **template["metadata"],
                "annotations": {DELETION_COST: str(chance.randint(-5, 5))},
            }
        yield made
        yield from self._budgets(key, replicas)

    def _budgets(self, key: str, replicas: int) -> Iterator[Json]:
        draw = self.chance.random()
        if draw < 0.3:
            yield budget(key, min_available=replicas)
        elif draw < 0.6:
            yield budget(key, max_unavailable=1)
        if 0.2 < draw < 0.4:
            yield budget(f"{key}-too", max_unavailable=1, selector={"app": key.split("/")[1]})

    def policy(self) -> Policy:
        chance = self.chance
        options = MigrationArguments(
            max_in_flight=chance.randint(1, 4),
            max_per_node=chance.randint(1, 3),
            max_per_workload=Limit(chance.choice(("25%", "1", "2"))),
            retry_delay_seconds=Seconds(2.0),
            timeout_seconds=Seconds(20.0),
            max_retries=2,
            deployment_coordination=chance.random() < 0.3,
        )
        # These stories are about how moves are carried out; few are planned.
        plans = chance.random() < 0.2
        return Policy(
            migration=options,
            allow_bare_pods=True,
            enabled_strategies=("LoadBalancing",) if plans else ("NodeMaintenance",),
            rescheduling_interval_seconds=Seconds(60),
            planning_timeout_seconds=Seconds(0.01),
        )

    def rates(self) -> FaultRates:
        chance = self.chance
        if not self.with_faults:
            return FaultRates(longest_call_seconds=0.05)
        most = chance.choice((0.02, 0.05, 0.15))
        return FaultRates(
            unavailable=chance.uniform(0, most),
            conflict=chance.uniform(0, most),
            lost_before=chance.uniform(0, most),
            lost_after=chance.uniform(0, most),
            late=chance.uniform(0, most),
            watch_broken=chance.uniform(0, most),
            watch_gone=chance.uniform(0, most / 4),
            longest_call_seconds=chance.choice((0.0, 0.05, 0.5)),
            longest_lag_seconds=chance.choice((0.0, 0.2, 2.0)),
            latest_write_seconds=chance.choice((1.0, 10.0)),
        )


class Operators:
    """Tells a story in a cluster."""

    def __init__(
        self, story: RandomScenario, cluster: SimulatedCluster, promises: Invariants
    ) -> None:
        self.story = story
        self.chance = story.chance
        self.cluster = cluster
        self.promises = promises
        self.asked = 0

    async def people(self) -> None:
        """Somebody does something every few seconds."""
        ends = self.cluster.clock.seconds() + STORY_SECONDS
        deeds: list[tuple[float, Callable[[], None]]] = [
            (10, self.ask_for_move),
            (1.0, self.scale),
            (0.7, self.roll_out),
            (0.5, self.delete_pod),
            (0.7, self.pause),
            (0.5, self.resume),
            (0.7, self.delete_migration),
            (0.5, self.cordon),
            (0.3, self.fail_node),
            (0.3, self.make_slow),
        ]
        weights = [weight for weight, _ in deeds]
        while self.cluster.clock.seconds() < ends:
            await asyncio.sleep(self.chance.uniform(0.5, 8.0))
            ((_, deed),) = self.chance.choices(deeds, weights)
            with suppress(ApiError):
                deed()
        self.mend()

    def pods(self) -> list[Json]:
        return [each for each in self.cluster.list("Pod").values() if is_active(each)]

    def migrations(self) -> list[str]:
        return list(self.cluster.list("Migration"))

    def some_app(self) -> tuple[str, str]:
        name = self.chance.choice([*self.story.apps])
        return self.story.apps[name], name

    # ------------------------------------------------------------ what people do

    def ask_for_move(self) -> None:
        pods = self.pods()
        if not pods or self.asked > 25:
            return
        chosen = self.chance.choice(pods)
        self.asked += 1
        targets = [*self.story.nodes, "nowhere"] if self.asked == 7 else self.story.nodes
        body = migration_body(
            f"{NAMESPACE}/{chosen['metadata']['name']}",
            chosen["metadata"]["uid"],
            self.chance.choice(targets),
            strategy=self.chance.choice(("", "LoadBalancing")),
            again=str(self.asked),
        )
        mode = self.chance.choice(("Auto", "Auto", "Auto", "Handoff", "Evict"))
        body["spec"]["mode"] = mode
        if self.chance.random() < 0.1:
            body["spec"]["paused"] = True
        self.cluster.create(body)

    def scale(self) -> None:
        kind, name = self.some_app()
        if kind != "Pod":
            size = self.chance.randint(1, 5)
            self.cluster.patch(kind, f"{NAMESPACE}/{name}", {"spec": {"replicas": size}})

    def roll_out(self) -> None:
        self.change_template({"version": str(self.chance.random())})

    def delete_pod(self) -> None:
        owned = [each for each in self.pods() if controller_of(each) is not None]
        if owned:
            chosen = self.chance.choice(owned)
            self.promises.excuse(labels_of(chosen).get("app", ""))
            self.cluster.delete("Pod", f"{NAMESPACE}/{chosen['metadata']['name']}")

    def pause(self) -> None:
        if found := self.migrations():
            self.cluster.patch("Migration", self.chance.choice(found), {"spec": {"paused": True}})

    def resume(self) -> None:
        for key in self.migrations():
            self.cluster.patch("Migration", key, {"spec": {"paused": False}})

    def delete_migration(self) -> None:
        if found := self.migrations():
            self.cluster.delete("Migration", self.chance.choice(found))

    def cordon(self) -> None:
        name = self.chance.choice(self.story.nodes)
        is_cordoned = self.cluster.list("Node")[name]["spec"].get("unschedulable")
        self.cluster.patch("Node", name, {"spec": {"unschedulable": not is_cordoned}})

    def fail_node(self) -> None:
        name = self.chance.choice(self.story.nodes)
        for each in self.pods():
            if each["spec"].get("nodeName") == name:
                self.promises.excuse(labels_of(each).get("app", ""))
        self.set_ready(name, "Unknown")

    def set_ready(self, name: str, state: str) -> None:
        found = self.cluster.list("Node")[name]
        now = self.cluster.registry.now()
        status = with_conditions(found["status"], [condition("Ready", state, now)])
        self.cluster.patch("Node", name, {"status": status}, status=True)

    def make_slow(self) -> None:
        """The next pods of an application take long to start."""
        self.change_template({STARTS_IN_SECONDS: self.chance.choice(("15", "40"))})

    def change_template(self, notes: Json) -> None:
        kind, name = self.some_app()
        if kind != "Deployment":
            return
        template = {"metadata": {"annotations": notes}}
        changed = self.cluster.patch(kind, f"{NAMESPACE}/{name}", {"spec": {"template": template}})
        if changed["spec"]["strategy"]["type"] == "Recreate":
            self.promises.excuse(name)

    def mend(self) -> None:
        """In the end everything is well, and nothing is on hold."""
        for name in self.story.nodes:
            self.set_ready(name, "True")
            self.cluster.patch("Node", name, {"spec": {"unschedulable": None}})
        self.resume()


async def run_with_crashes(
    story: RandomScenario, cluster: SimulatedCluster, promises: Invariants
) -> None:
    """Let the controller run, die and be started again while the story is told."""
    chance = Random(f"faults {story.seed}")
    telling = asyncio.create_task(Operators(story, cluster, promises).people())
    policy, rates = story.policy(), story.rates()
    promises.options = policy.migration_options()
    while not telling.done():
        dies_at = chance.randint(5, 400) if story.with_faults else None
        server = FaultyApiServer(cluster.server, chance, rates, dies_at)
        promises.servers.append(server)
        await run_until_crash(server, policy, cluster, chance, telling)
        await asyncio.sleep(chance.uniform(0.1, 20.0))
    telling.result()
    await run_to_rest(
        FaultyApiServer(cluster.server, chance, FaultRates()), policy, cluster, chance
    )


async def run_until_crash(
    server: FaultyApiServer, policy: Policy, cluster: SimulatedCluster, chance: Random, telling: Any
) -> None:
    """A process, until it dies or the story is over."""
    program = Program(server, policy, clock=cluster.clock, chance=chance)
    running = asyncio.create_task(program.run())
    dying = asyncio.create_task(server.died.wait())
    await asyncio.wait({running, dying, telling}, return_when=asyncio.FIRST_COMPLETED)
    server.died.set()
    for task in (running, dying):
        task.cancel()
    await asyncio.gather(running, dying, return_exceptions=True)


async def run_to_rest(
    server: FaultyApiServer, policy: Policy, cluster: SimulatedCluster, chance: Random
) -> None:
    """A process that nothing happens to any more, for long enough to finish everything."""
    program = Program(server, policy, clock=cluster.clock, chance=chance)
    running = asyncio.create_task(program.run())
    await asyncio.sleep(REST_SECONDS)
    assert not running.done(), running.result()
    program.stop()
    await running


def violations_in(story: RandomScenario) -> list[str]:
    """Tell a story from beginning to end; the promises that were broken on the way."""

    async def steps(clock: Any) -> list[str]:
        cluster = SimulatedCluster(story.objects(), seed=story.seed, start=START, timings=TIMINGS)
        promises = Invariants(cluster, story.apps)
        await cluster.start()
        await asyncio.sleep(60)
        promises.begin()
        await run_with_crashes(story, cluster, promises)
        await asyncio.sleep(60)
        promises.end()
        await cluster.stop()
        return promises.broken

    return run_simulated(steps, START)
