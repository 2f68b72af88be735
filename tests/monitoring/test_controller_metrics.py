"""What the controller reports is counted as what it is, apart for each program."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from rescheduler.controller.round_cache import Round, RoundAttempt, RoundSeconds, RoundTrigger
from rescheduler.migration.migration_object import (
    STARTED,
    Migration,
    MigrationCondition,
    MigrationMeta,
    MigrationSpec,
    MigrationStatus,
    Phase,
    PodReference,
    Step,
)
from rescheduler.model.moves import Mode, Outcome
from rescheduler.model.snapshot import Floats, Ints
from rescheduler.monitoring.metrics.controller_metrics import oldest
from rescheduler.monitoring.metrics.definitions import ALL, of_strategies
from rescheduler.monitoring.monitoring import Monitoring
from rescheduler.planning.plan import Assessment, BlockedPod, Move, Plan
from rescheduler.planning.strategies.strategy import Measure, Strategy
from rescheduler.settings import Policy, StrategyName
from tests.monitoring.scraping import Scrape, scrape_of, undefined

NOW = datetime(2026, 1, 1, tzinfo=UTC)
STATE = Assessment(utilization={}, nodes_in_use=0, objective=0.0, per_node={})
MOVE = Move("shop/web", "a", "b", "LoadBalancing", Mode.HANDOFF, "because", 1.0)


def scraped(monitoring: Monitoring) -> Scrape:
    return scrape_of(monitoring.written(monitoring.gauges()).decode())


def attempt(**arguments: object) -> RoundAttempt:
    plain = RoundAttempt(RoundTrigger.INTERVAL, NOW, NOW)
    return RoundAttempt(**{**vars(plain), **arguments})


def round_with(*moves: Move) -> Round:
    plan = Plan(moves, (), STATE, STATE, (), "")
    return Round(plan, moves, {}, seconds=RoundSeconds(1, 2, 3))


def test_rounds_are_counted_by_how_they_end() -> None:
    monitoring = Monitoring(Policy())
    metrics = monitoring.controller
    metrics.round_ended(attempt(round=round_with(MOVE)))
    metrics.round_ended(attempt(round=round_with(MOVE), is_unchanged=True))
    metrics.round_ended(attempt())
    metrics.round_ended(attempt(error="the server is gone"))
    # Nothing is wrong with a program that is stopped.
    metrics.round_ended(attempt(was_stopped=True))
    found = scraped(monitoring)
    for result in ("planned", "unchanged", "skipped", "failed"):
        assert found.value("rounds_total", result=result) == 1, result
    assert found.value("moves_requested_total", strategy="LoadBalancing", mode="Handoff") == 1
    for stage, seconds in (("read", 1), ("plan", 2), ("ask", 3)):
        assert found.value("round_duration_seconds_sum", stage=stage) == seconds
    assert undefined(found, ALL) == []


def test_what_is_not_moved_is_counted_by_strategy_and_reason() -> None:
    moves = tuple(
        msgspec.structs.replace(MOVE, pod=f"shop/{name}", strategy=strategy)
        for name, strategy in (
            ("a", "LoadBalancing"),
            ("b", "LoadBalancing"),
            ("c", "NodeMaintenance"),
            ("d", "NodeMaintenance"),
        )
    )
    blocked = (
        BlockedPod("shop/e", "NoBudget", "", "LoadBalancing"),
        BlockedPod("shop/f", "NoBudget", "", "NodeMaintenance"),
        BlockedPod("shop/g", "NoBudget", "", "NodeMaintenance"),
    )
    again = msgspec.structs.replace(moves[0], wave=1)
    plan = Plan((*moves, again), blocked, STATE, STATE, (), "")
    skipped = {"shop/a": "limit", "shop/b": "limit", "shop/c": "limit"}
    monitoring = Monitoring(Policy())
    metrics = monitoring.controller
    not_created = {"shop/d": "a policy says no"}
    metrics.round_ended(attempt(round=Round(plan, (), skipped, not_created=not_created)))
    found = scraped(monitoring)
    for strategy, reason, number in (
        ("LoadBalancing", "MoveLimit", 2),
        ("LoadBalancing", "NotCreated", 0),
        ("NodeMaintenance", "MoveLimit", 1),
        ("NodeMaintenance", "NotCreated", 1),
    ):
        labels = {"strategy": strategy, "reason": reason}
        assert found.value("moves_skipped_total", **labels) == number, labels
    counts = {
        sample.labels["strategy"]: sample.value
        for family in metrics.of_plan(plan)
        for sample in family.samples
        if sample.name == "rescheduler_blocked_pods"
    }
    assert counts == {"LoadBalancing": 1, "NodeMaintenance": 2}


def test_a_dry_run_requests_nothing() -> None:
    monitoring = Monitoring(Policy(), dry_run=True)
    monitoring.controller.round_ended(attempt(round=round_with(MOVE)))
    found = scraped(monitoring)
    assert found.value("moves_requested_total") is None
    assert found.value("moves_skipped_total") is None
    assert found.value("rounds_total", result="planned") == 1


def test_programs_in_one_process_do_not_count_together() -> None:
    first, second = Monitoring(Policy(), serves=True), Monitoring(Policy(), serves=True)
    first.controller.began_to_lead()
    assert scraped(first).value("leader_transitions_total") == 1
    assert second.controller is second.controller
    assert scraped(second).value("leader_transitions_total") == 0


def migration(**status: object) -> Migration:
    started = MigrationCondition(STARTED, "True", last_transition_time=NOW)
    return Migration(
        MigrationMeta(name="web", namespace="shop", uid="1", resource_version="1"),
        MigrationSpec(PodReference("web"), "b"),
        MigrationStatus(conditions=(started,), step_started_at=NOW, **status),  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("phase", "outcome", "counted"),
    [
        (Phase.COMPLETED, Outcome.LANDED, "Landed"),
        (Phase.FAILED, Outcome.FAILED, "Failed"),
        (Phase.CANCELLED, Outcome.NONE, "Cancelled"),
    ],
)
def test_a_migration_that_ends_is_counted_once(
    phase: Phase, outcome: Outcome, counted: str
) -> None:
    monitoring = Monitoring(Policy())
    before = migration(phase=Phase.IN_PROGRESS, step=Step.HANDING_OVER, mode=Mode.HANDOFF)
    end = msgspec.structs.replace(before.status, phase=phase, step=Step.NONE, outcome=outcome)
    later = NOW + timedelta(seconds=7)
    monitoring.controller.migration_updated(before, end, later)
    # A new message of one that has ended.
    ended = msgspec.structs.replace(before, status=end)
    said = msgspec.structs.replace(end, message="more")
    monitoring.controller.migration_updated(ended, said, later)
    found = scraped(monitoring)
    assert found.value("migrations_finished_total") == 1
    assert found.value("migrations_finished_total", mode="Handoff", outcome=counted) == 1
    assert found.value("migration_duration_seconds_sum", outcome=counted) == 7
    assert found.value("migration_step_duration_seconds_sum", step="HandingOver") == 7
    assert found.value("migration_step_duration_seconds_count") == 1


def test_a_step_that_is_begun_anew_is_measured_each_time_and_never_below_zero() -> None:
    monitoring = Monitoring(Policy())
    first = migration(phase=Phase.IN_PROGRESS, step=Step.LANDING, mode=Mode.EVICT)
    later = NOW + timedelta(seconds=7)
    again = msgspec.structs.replace(first.status, step_started_at=later)
    monitoring.controller.migration_updated(first, again, later)
    said = msgspec.structs.replace(again, message="it waits")
    second = msgspec.structs.replace(first, status=again)
    monitoring.controller.migration_updated(second, said, later + timedelta(seconds=1))
    end = msgspec.structs.replace(said, phase=Phase.FAILED, step=Step.NONE, outcome=Outcome.FAILED)
    # Another replica ends it, whose clock is behind.
    monitoring.controller.migration_updated(second, end, NOW - timedelta(seconds=1))
    found = scraped(monitoring)
    assert found.value("migration_step_duration_seconds_count", step="Landing") == 2
    assert found.value("migration_step_duration_seconds_sum", step="Landing") == 7
    assert found.value("migration_duration_seconds_sum", outcome="Failed") == 0
    assert oldest([second], NOW) == 0


@pytest.mark.parametrize("mode", Mode)
def test_the_first_failure_is_an_increase_also_if_no_mode_was_chosen(mode: Mode) -> None:
    monitoring = Monitoring(Policy())
    assert monitoring.controller is not None
    found = scraped(monitoring)
    assert found.value("migrations_finished_total", mode=mode.value, outcome="Failed") == 0


def test_moves_of_enabled_strategies_are_counted_from_zero() -> None:
    monitoring = Monitoring(Policy(enabled_strategies=(StrategyName.LOAD_BALANCING,)))
    assert monitoring.controller is not None
    for mode in ("Handoff", "Evict", "Recreate"):
        strategy = {"strategy": "LoadBalancing", "mode": mode}
        assert scraped(monitoring).value("moves_requested_total", **strategy) == 0
    other = {"strategy": "TopologySpread"}
    assert scraped(monitoring).value("moves_requested_total", **other) is None
    monitoring.policy = Policy(enabled_strategies=(StrategyName.TOPOLOGY_SPREAD,))
    assert scraped(monitoring).value("moves_requested_total", **other) == 0


def test_the_oldest_migration_is_one_in_progress() -> None:
    later = NOW + timedelta(seconds=9)
    waiting = migration(phase=Phase.PENDING)
    assert oldest([waiting], later) == 0
    assert oldest([waiting, migration(phase=Phase.IN_PROGRESS, step=Step.LANDING)], later) == 9


def test_thresholds_are_those_of_enabled_strategies_in_the_policy_in_use() -> None:
    balancing = {"strategy": "LoadBalancing", "threshold": "imbalanceThreshold"}
    relieving = {"strategy": "ResourceOptimization", "threshold": "memoryThreshold"}
    name = "policy_threshold_ratio"
    monitoring = Monitoring(
        Policy(enabled_strategies=(StrategyName.LOAD_BALANCING,), imbalance_threshold=35.0)
    )
    assert scraped(monitoring).value(name, **balancing) == 0.35
    assert scraped(monitoring).value(name, **relieving) is None
    monitoring.policy = Policy(
        enabled_strategies=(StrategyName.RESOURCE_OPTIMIZATION,), memory_threshold=90.0
    )
    assert scraped(monitoring).value(name, **balancing) is None
    assert scraped(monitoring).value(name, **relieving) == 0.9


class Greedy(Strategy):
    """Measures something new, and something under the name of another metric."""

    name = "Greedy"
    measures = (Measure("wanted_nodes", "Nodes."), Measure("nodes_in_use", "Something else."))

    def measured(self, used: Floats, movable: Ints, rule_cost: float) -> tuple[float, float]:
        return 1.0, 2.0


def test_a_plugin_adds_metrics_and_changes_none() -> None:
    added = of_strategies([Greedy])
    assert [definition.name for definition in added.values()] == ["rescheduler_wanted_nodes"]
    assert added["wanted_nodes"].labels == ("strategy", "plan")
