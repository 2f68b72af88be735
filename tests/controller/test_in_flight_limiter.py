"""Limits on migrations in flight: in all, per node, per namespace, per workload."""

from dataclasses import replace
from datetime import timedelta

import msgspec

from rescheduler.controller.in_flight_limiter import (
    InFlightLimiter,
    InFlightSlot,
    reached_limit,
    startable,
)
from rescheduler.migration.migration_object import Phase
from rescheduler.migration.state_machine.observation import Observation
from rescheduler.settings import Limit, MigrationOptions
from tests.migration.test_machine import NOW, migration, observed


def slot(source: str, target: str, workload: str = "w", replicas: int = 4) -> InFlightSlot:
    return InFlightSlot("shop", source, target, workload, replicas)


def test_each_limit_holds() -> None:
    options = MigrationOptions(
        max_in_flight=4,
        max_per_node=2,
        max_per_namespace=Limit("3"),
        max_per_workload=Limit("1"),
    )
    in_flight = [slot("a", "b", "x"), slot("a", "c", "y")]
    assert "node a" in reached_limit(slot("a", "d"), in_flight, options)
    assert "node a" in reached_limit(slot("d", "a"), in_flight, options)
    assert "workload" in reached_limit(slot("d", "e", "x"), in_flight, options)
    assert reached_limit(slot("d", "e"), in_flight, options) == ""
    more = [*in_flight, slot("f", "g", "z")]
    assert "namespace shop" in reached_limit(slot("d", "e"), more, options)
    assert "in flight" in reached_limit(slot("d", "e"), [*more, slot("h", "i", "v")], options)


def test_one_pod_of_a_workload_is_evicted_at_a_time() -> None:
    options = MigrationOptions(max_per_workload=Limit("100%"))
    evicted, handed_over = (
        replace(slot("a", "b", replicas=8), evicts=evicts) for evicts in (True, False)
    )
    assert "being evicted" in reached_limit(evicted, [evicted], options)
    assert reached_limit(evicted, [handed_over], options) == ""
    assert reached_limit(handed_over, [evicted], options) == ""
    assert reached_limit(replace(evicted, workload="other"), [evicted], options) == ""


def test_waiting_migrations_do_not_count_against_each_other() -> None:
    options = MigrationOptions(max_in_flight=3, max_per_node=1)
    waiting = {f"m{number}": slot("a", f"t{number}", f"w{number}") for number in range(50)}
    waiting["last"] = slot("b", "c", "v")
    assert startable(waiting, [], options) == ["m0", "last"]


def observed_as(name: str, phase: Phase = Phase.PENDING) -> Observation:
    """A migration of one pod of a workload that all of these belong to."""
    made = migration(phase=phase)
    metadata = msgspec.structs.replace(made.metadata, name=name)
    return observed(msgspec.structs.replace(made, metadata=metadata))


def test_a_migration_takes_a_slot_when_it_starts_and_not_when_it_is_looked_at() -> None:
    limiter = InFlightLimiter(MigrationOptions(max_per_workload=Limit("1")))
    assert limiter.check(observed_as("m1")) == ""
    assert limiter.check(observed_as("m2")) == ""
    assert limiter.reserve(observed_as("m1")) == ""
    assert limiter.check(observed_as("m1")) == ""
    assert limiter.check(observed_as("m2")) != ""
    assert limiter.reserve(observed_as("m2")) != ""
    assert len(limiter) == 1


def test_a_free_slot_that_is_not_taken_is_offered_to_the_next() -> None:
    limiter = InFlightLimiter(MigrationOptions(max_in_flight=1))
    running = observed_as("m0", Phase.IN_PROGRESS).migration
    limiter.update(running.key, running)
    first, second = (observed_as(name).migration for name in ("m1", "m2"))
    assert all(limiter.check(observed_as(name)) for name in ("m1", "m2"))
    assert limiter.must_still_wait(first.key)

    assert limiter.update(running.key, None) == [first.key]
    assert not limiter.must_still_wait(first.key)
    # The first finds that it has to wait for something else.
    assert limiter.update(first.key, first) == [second.key]
    assert not limiter.must_still_wait(second.key)
    assert limiter.update(second.key, second) == []


def apart(namespace: str, number: int) -> InFlightSlot:
    """One that shares neither a node nor a workload with the others."""
    return InFlightSlot(namespace, f"{namespace}-a{number}", f"{namespace}-b{number}", "")


def many(namespace: str, count: int) -> dict[str, InFlightSlot]:
    return {f"{namespace}/m{number}": apart(namespace, number) for number in range(count)}


def test_no_namespace_gets_all_slots_however_many_it_has_waiting() -> None:
    for in_flight in (20, 8, 2):
        options = MigrationOptions(max_in_flight=in_flight)
        waiting = many("tenant", 100)
        hostile = [waiting[key] for key in startable(waiting, [], options)]
        assert 0 < len(hostile) < in_flight
        assert reached_limit(apart("shop", 1), hostile, options) == ""
    assert len(startable(many("tenant", 100), [], MigrationOptions(max_in_flight=1))) == 1


def test_free_slots_go_to_namespaces_in_turn() -> None:
    waiting = many("tenant", 100) | many("shop", 8) | many("blog", 1)
    started = startable(waiting, many("tenant", 6).values(), MigrationOptions(max_in_flight=16))
    assert [key for key in started if key.startswith("blog")] == ["blog/m0"]
    assert [key for key in started if key.startswith("shop")] == [f"shop/m{n}" for n in range(7)]
    assert [key for key in started if key.startswith("tenant")] == ["tenant/m0", "tenant/m1"]


def test_a_migration_whose_step_takes_too_long_gives_way_to_others() -> None:
    limiter = InFlightLimiter(MigrationOptions(max_in_flight=1))
    running = migration(phase=Phase.IN_PROGRESS, step_started_at=NOW)
    limiter.update(running.key, running)
    assert limiter.check(observed_as("m1"))
    assert limiter.release_overdue(NOW + timedelta(seconds=119)) == []
    late = NOW + timedelta(seconds=121)
    assert limiter.release_overdue(late) == [observed_as("m1").migration.key]
    assert not limiter.must_still_wait(observed_as("m1").migration.key)
    assert len(limiter) == 1


def test_a_migration_whose_step_takes_too_long_still_counts_for_its_workload() -> None:
    options = MigrationOptions(max_per_workload=Limit("1"))
    overdue = replace(slot("a", "b"), is_overdue=True)
    assert "workload" in reached_limit(slot("a", "b"), [overdue], options)
    other = replace(slot("a", "b"), workload="other")
    assert reached_limit(other, [overdue] * 100, options) == ""


def test_a_pod_of_another_namespace_does_not_count_for_the_workload_that_it_names() -> None:
    options = MigrationOptions(max_per_workload=Limit("1"))
    foreign = replace(slot("c", "d"), namespace="tenant", evicts=True)
    assert reached_limit(replace(slot("a", "b"), evicts=True), [foreign], options) == ""
