"""Limits on migrations in flight: in all, per node, per namespace, per workload."""

from dataclasses import replace

from rescheduler.controller.in_flight_limiter import InFlightSlot, reached_limit, startable
from rescheduler.settings import Limit, MigrationOptions


def slot(source: str, target: str, workload: str = "w", replicas: int = 4) -> InFlightSlot:
    return InFlightSlot("shop", source, target, workload, replicas)


def test_each_limit_holds() -> None:
    options = MigrationOptions(
        max_in_flight=4, max_per_node=2, max_per_namespace=3, max_per_workload=Limit("1")
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
