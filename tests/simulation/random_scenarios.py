"""Random scenarios: a small cluster, operators who change things, and requested moves.

A scenario follows from its seed alone. `violations_in` runs it, with faults, until nothing is in
progress any more.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from typing import Any

import msgspec

from rescheduler.controller.program import Program
from rescheduler.errors import ApiError
from rescheduler.labels import DELETION_COST, STARTS_IN_SECONDS
from rescheduler.migration.migration_request import migration_body
from rescheduler.settings import Limit, MigrationOptions, Policy, Seconds
from rescheduler.simulation.cluster.cluster import SimulatedCluster
from rescheduler.simulation.cluster.json_objects import (
    Json,
    condition,
    controller_of,
    gates_of,
    is_active,
    labels_of,
    with_conditions,
)
from rescheduler.simulation.cluster.timings import RandomSeconds, Timings
from rescheduler.simulation.simulated_time import run_simulated
from testcluster.builders import (
    HOSTNAME_LABEL,
    budget,
    deployment,
    node,
    pod,
    replicaset,
    statefulset,
)
from tests.simulation.faulty_api_server import FaultRates, FaultyApiServer
from tests.simulation.invariants import Invariants

START = datetime(2026, 3, 1, 8, 0, tzinfo=UTC)
NAMESPACE = "shop"
RIVALS = "shop/rivals"
FOREIGN_GATE = "example.com/quota"
GATED_KINDS = ("Deployment", "ReplicaSet", "ReplicationController")
"""Workloads of which somebody gates the new pods."""
TIMINGS = Timings(ready=RandomSeconds(6.0, 0.6), stop=RandomSeconds(2.0, 0.9))
CHANGES_SECONDS = 240.0
# Longer than all retries, timeouts and back-offs together.
REST_SECONDS = 1500.0
FINISHING_SECONDS = 180.0
KINDS = ("Deployment", "Deployment", "Deployment", "ReplicaSet", "ReplicationController")


@dataclass
class RandomScenario:
    """The cluster, policy and faults of a seed."""

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
        # A target that is too small for most pods.
        self.nodes.append("small")
        yield node("small", cpu="350m", zone="a")
        yield from self._rivals()
        for number in range(chance.randint(2, 4)):
            yield from self._app(f"app-{number}", chance.choice(KINDS))
        if chance.random() < 0.5:
            yield from self._app("store", "StatefulSet")
        if chance.random() < 0.5:
            self.apps["alone"] = "Pod"
            made = pod(f"{NAMESPACE}/alone", cpu="100m", labels={"app": "alone"})
            del made["status"]
            yield made

    def _rivals(self) -> Iterator[Json]:
        """Pods that want the room on the small node, too: it has room for one of them."""
        here = {"nodeSelector": {HOSTNAME_LABEL: "small"}}
        yield deployment(RIVALS, 0, "200m", template=here)

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
        options = MigrationOptions(
            max_in_flight=chance.randint(1, 4),
            max_per_node=chance.randint(1, 3),
            max_per_workload=Limit(chance.choice(("25%", "1", "2"))),
            retry_delay_seconds=Seconds(2.0),
            timeout_seconds=Seconds(20.0),
            max_retries=2,
            deployment_coordination=chance.random() < 0.3,
        )
        # Moves are requested by operators; only some scenarios plan moves as well.
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
    """Operators who change the cluster at random."""

    def __init__(
        self, scenario: RandomScenario, cluster: SimulatedCluster, invariants: Invariants
    ) -> None:
        self.scenario = scenario
        self.chance = scenario.chance
        self.cluster = cluster
        self.invariants = invariants
        self.requested = 0

    async def run(self) -> None:
        """A random change every few seconds; at the end, everything is repaired."""
        ends = self.cluster.clock.seconds() + CHANGES_SECONDS
        changes: list[tuple[float, Callable[[], None]]] = [
            (10, self.request_move),
            (1.0, self.scale),
            (0.7, self.roll_out),
            (0.5, self.delete_pod),
            (0.7, self.pause),
            (0.5, self.resume),
            (0.7, self.delete_migration),
            (0.5, self.cordon),
            (0.3, self.fail_node),
            (0.3, self.slow_down_start),
            (0.5, self.scale_rivals),
            (0.4, self.gate_template),
            (0.8, self.open_gates),
        ]
        weights = [weight for weight, _ in changes]
        while self.cluster.clock.seconds() < ends:
            await asyncio.sleep(self.chance.uniform(0.5, 8.0))
            ((_, change),) = self.chance.choices(changes, weights)
            with suppress(ApiError):
                change()
        self.repair()

    def pods(self) -> list[Json]:
        return [pod for pod in self.cluster.list("Pod").values() if is_active(pod)]

    def migrations(self) -> list[str]:
        return list(self.cluster.list("Migration"))

    def some_app(self) -> tuple[str, str]:
        name = self.chance.choice([*self.scenario.apps])
        return self.scenario.apps[name], name

    # ------------------------------------------------------------ changes

    def request_move(self) -> None:
        pods = self.pods()
        if not pods or self.requested > 25:
            return
        chosen = self.chance.choice(pods)
        self.requested += 1
        targets = [*self.scenario.nodes, "nowhere"] if self.requested == 7 else self.scenario.nodes
        body = migration_body(
            f"{NAMESPACE}/{chosen['metadata']['name']}",
            chosen["metadata"]["uid"],
            self.chance.choice(targets),
            strategy=self.chance.choice(("", "LoadBalancing")),
            salt=str(self.requested),
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
        self.annotate_template({"version": str(self.chance.random())})

    def delete_pod(self) -> None:
        owned = [pod for pod in self.pods() if controller_of(pod) is not None]
        if owned:
            chosen = self.chance.choice(owned)
            self.invariants.exempt(labels_of(chosen).get("app", ""))
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
        name = self.chance.choice(self.scenario.nodes)
        is_cordoned = self.cluster.list("Node")[name]["spec"].get("unschedulable")
        self.cluster.patch("Node", name, {"spec": {"unschedulable": not is_cordoned}})

    def fail_node(self) -> None:
        name = self.chance.choice(self.scenario.nodes)
        for running in self.pods():
            if running["spec"].get("nodeName") == name:
                self.invariants.exempt(labels_of(running).get("app", ""))
        self.set_ready(name, "Unknown")

    def set_ready(self, name: str, state: str) -> None:
        found = self.cluster.list("Node")[name]
        now = self.cluster.registry.now()
        status = with_conditions(found["status"], [condition("Ready", state, now)])
        self.cluster.patch("Node", name, {"status": status}, status=True)

    def slow_down_start(self) -> None:
        """The next pods of an application take long to start."""
        self.annotate_template({STARTS_IN_SECONDS: self.chance.choice(("15", "40"))})

    def scale_rivals(self) -> None:
        self.cluster.patch("Deployment", RIVALS, {"spec": {"replicas": self.chance.randint(0, 2)}})

    def gate_template(self) -> None:
        """The next pods of an application wait for somebody who is not the rescheduler."""
        self.change_template({"spec": {"schedulingGates": [{"name": FOREIGN_GATE}]}}, *GATED_KINDS)

    def open_gates(self) -> None:
        """Remove the foreign gate from all pods that wait for it."""
        with self.invariants.opening_gates():
            for waiting in self.pods():
                if FOREIGN_GATE in gates_of(waiting):
                    left = [{"name": gate} for gate in gates_of(waiting) if gate != FOREIGN_GATE]
                    key = f"{NAMESPACE}/{waiting['metadata']['name']}"
                    self.cluster.patch("Pod", key, {"spec": {"schedulingGates": left}})

    def annotate_template(self, annotations: Json) -> None:
        self.change_template({"metadata": {"annotations": annotations}}, "Deployment")

    def change_template(self, template: Json, *kinds: str) -> None:
        """Change the template of some application, if it is of one of these kinds."""
        kind, name = self.some_app()
        if kind not in kinds:
            return
        changed = self.cluster.patch(kind, f"{NAMESPACE}/{name}", {"spec": {"template": template}})
        if changed["spec"].get("strategy", {}).get("type") == "Recreate":
            self.invariants.exempt(name)

    def repair(self) -> None:
        """All nodes are Ready and open, no migration is paused, and nothing is gated any more."""
        for name in self.scenario.nodes:
            self.set_ready(name, "True")
            self.cluster.patch("Node", name, {"spec": {"unschedulable": None}})
        self.cluster.patch("Deployment", RIVALS, {"spec": {"replicas": 0}})
        ungated = {"spec": {"template": {"spec": {"schedulingGates": None}}}}
        for name, kind in self.scenario.apps.items():
            if kind in GATED_KINDS:
                self.cluster.patch(kind, f"{NAMESPACE}/{name}", ungated)
        self.open_gates()
        self.resume()


async def run_with_crashes(
    scenario: RandomScenario, cluster: SimulatedCluster, invariants: Invariants
) -> None:
    """Run the controller and restart it after each crash, while operators make changes."""
    chance = Random(f"faults {scenario.seed}")
    operating = asyncio.create_task(Operators(scenario, cluster, invariants).run())
    policy, rates = scenario.policy(), scenario.rates()
    invariants.options = policy.migration
    while not operating.done():
        crashes_at = chance.randint(5, 400) if scenario.with_faults else None
        server = FaultyApiServer(cluster.server, chance, rates, crashes_at)
        invariants.servers.append(server)
        await run_until_crash(server, policy, cluster, chance, operating)
        await asyncio.sleep(chance.uniform(0.1, 20.0))
    operating.result()
    server = FaultyApiServer(cluster.server, chance, FaultRates())
    await run_to_rest(server, policy, cluster, chance, REST_SECONDS)
    # What was planned in the last moment is finished, and nothing new is planned.
    at_rest = msgspec.structs.replace(policy, max_reschedule_pods=0)
    await run_to_rest(server, at_rest, cluster, chance, FINISHING_SECONDS)


async def run_until_crash(
    server: FaultyApiServer,
    policy: Policy,
    cluster: SimulatedCluster,
    chance: Random,
    operating: Any,
) -> None:
    """One process, until it crashes or the operators are done."""
    program = Program(server, policy, clock=cluster.clock, chance=chance)
    running = asyncio.create_task(program.run())
    crashing = asyncio.create_task(server.crashed.wait())
    await asyncio.wait({running, crashing, operating}, return_when=asyncio.FIRST_COMPLETED)
    server.crashed.set()
    for task in (running, crashing):
        task.cancel()
    await asyncio.gather(running, crashing, return_exceptions=True)


async def run_to_rest(
    server: FaultyApiServer,
    policy: Policy,
    cluster: SimulatedCluster,
    chance: Random,
    seconds: float,
) -> None:
    """One process without faults, for long enough to finish all moves."""
    program = Program(server, policy, clock=cluster.clock, chance=chance)
    running = asyncio.create_task(program.run())
    await asyncio.sleep(seconds)
    assert not running.done(), running.result()
    program.stop()
    await running


def violations_in(scenario: RandomScenario) -> list[str]:
    """Run a scenario to its end; returns the violated invariants."""

    async def run(clock: Any) -> list[str]:
        cluster = SimulatedCluster(
            scenario.objects(), seed=scenario.seed, start=START, timings=TIMINGS
        )
        invariants = Invariants(cluster, scenario.apps)
        await cluster.start()
        await asyncio.sleep(60)
        invariants.begin()
        await run_with_crashes(scenario, cluster, invariants)
        await asyncio.sleep(60)
        invariants.end()
        await cluster.stop()
        return invariants.violations

    return run_simulated(run, START)
