"""Stop after any move of any plan: nothing is broken that was whole, and every limit is kept.

Hypothesis makes the clusters and policies, and makes those smaller for which a promise is broken.
`EXHAUSTIVE=1` tries eighty times as many, and plans twice for half as many again.
"""

import os
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import chain

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from rescheduler.model.moves import Mode
from rescheduler.planning.plan import Plan
from tests.planning.promise.generated_cases import (
    STRATEGIES,
    GeneratedCase,
    cases_without_migrations,
)
from tests.planning.promise.replay import Replay, plan_of
from tests.processes import PROCESSES, new_pool

pytestmark = pytest.mark.slow

EXHAUSTIVE = os.environ.get("EXHAUSTIVE") == "1"
CASES = 20_000 if EXHAUSTIVE else 250
CASES_PLANNED_TWICE = 84 if EXHAUSTIVE else 56

numbers = st.integers(0, 10**6)
cases = st.builds(
    GeneratedCase,
    nodes=st.lists(numbers, min_size=2, max_size=10).map(tuple),
    workloads=st.lists(numbers, min_size=1, max_size=14).map(tuple),
    policy=numbers,
)


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessPoolExecutor]:
    with new_pool() as pool:
        yield pool


def test_every_plan_keeps_every_promise(pool: ProcessPoolExecutor) -> None:
    failures = [each for each in pool.map(_try_many, range(PROCESSES)) if each]
    assert not failures, "\n\n".join(failures)


def _try_many(part: int) -> str:
    """What is wrong with the plan for the smallest case found, or nothing if all is well."""
    try:
        _many(part)()
    except Exception:
        return traceback.format_exc(limit=-3)
    return ""


def _many(part: int) -> Callable[[], None]:
    @seed(part)
    @settings(
        max_examples=CASES // PROCESSES,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(cases)
    def keeps_its_promise(case: GeneratedCase) -> None:
        broken = list(Replay(case, plan_of(case)).broken_promises())
        assert not broken, "\n".join([repr(case), repr(case.arguments), *broken[:5]])

    return keeps_its_promise


# ---------------------------------------------------------------- the same again


@pytest.fixture(scope="module")
def plans(pool: ProcessPoolExecutor) -> list[Plan]:
    return list(pool.map(plan_of, cases_without_migrations(CASES_PLANNED_TWICE), chunksize=10))


def test_the_same_input_gives_the_same_plan_in_any_process_and_order(plans: list[Plan]) -> None:
    for case, plan in zip(cases_without_migrations(CASES_PLANNED_TWICE), plans, strict=True):
        assert plan_of(case, backwards=True) == plan, case


def test_the_plans_are_of_every_kind(plans: list[Plan]) -> None:
    """Were there no moves, every promise about them would be kept."""
    moves = list(chain.from_iterable(plan.moves for plan in plans))
    assert Counter(move.strategy for move in moves).keys() == set(STRATEGIES)
    assert Counter(move.mode for move in moves).keys() == set(Mode) - {Mode.AUTO}
    together = [len(plan.moves) - len({move.wave for move in plan.moves}) for plan in plans]
    assert sum(map(bool, together)) >= 10
    assert sum(map(bool, (plan.moves for plan in plans))) >= CASES_PLANNED_TWICE // 3
    broken = [
        case.rules.broken(case.placed) for case in cases_without_migrations(CASES_PLANNED_TWICE)
    ]
    assert min((sum(broken, Counter())).values()) >= 5
