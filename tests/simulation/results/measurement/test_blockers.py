"""Blockers are counted over all rounds, and explained in plain words."""

import re
from pathlib import Path

import rescheduler.planning
from rescheduler.planning.movability.blocker import PASSING
from rescheduler.planning.plan import Assessment, BlockedPod, Plan
from rescheduler.simulation.results.measurement.blockers import MEANINGS, BlockerCounts

NOTHING = Assessment({}, 0, 0.0, {})
# Nobody expects these to move, so plans do not report them.
NOT_REPORTED = {"DaemonSetPod", "StaticPod"}


def plan(summary: str, *blocked: BlockedPod) -> Plan:
    return Plan((), blocked, NOTHING, NOTHING, (), summary)


def test_every_blocker_of_the_planner_has_plain_words() -> None:
    assert rescheduler.planning.__file__ is not None
    sources = Path(rescheduler.planning.__file__).parent.rglob("*.py")
    text = "\n".join(source.read_text() for source in sources)
    named = re.findall(r'(?:Blocker|_Sort)\(\s*"([A-Z]\w+)"|_always\([^"]*"([A-Z]\w+)"', text)
    names = {name for pair in named for name in pair if name} | PASSING
    assert len(names) > 20
    assert names - NOT_REPORTED <= set(MEANINGS)


def test_pods_are_counted_once_and_rounds_each_time() -> None:
    blockers = BlockerCounts()
    for _ in range(3):
        blockers.add(
            plan("", BlockedPod("a/x", "Budget", "says no"), BlockedPod("a/y", "Budget", "no"))
        )
    (summary,) = blockers.blocked()
    assert (summary.pods, summary.rounds, summary.example, summary.detail) == (
        2,
        3,
        "a/x",
        "says no",
    )


def test_the_detail_of_a_plugins_blocker_is_its_meaning() -> None:
    blockers = BlockerCounts()
    blockers.add(plan("", BlockedPod("a/x", "Horoscope", "the moon is full")))
    assert blockers.blocked()[0].meaning == "the moon is full"


def test_reasons_that_differ_in_numbers_only_are_one() -> None:
    blockers = BlockerCounts()
    blockers.add(plan("load lies between 32% and 41.5%"))
    blockers.add(plan("load lies between 1% and 2%"))
    blockers.add(plan("no node"))
    reasons = [(reason.why, reason.rounds) for reason in blockers.rounds().idle_reasons]
    assert reasons == [("load lies between 1% and 2%", 2), ("no node", 1)]
