"""For every pod and every node of many generated clusters, we answer as kube-scheduler does.

`EXHAUSTIVE=1` compares 40 times as many clusters, `SEED=123` only the one of that seed.
"""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.planning.feasibility.comparison import Comparison, compare
from tests.processes import new_pool

CLUSTERS = 3000 if os.environ.get("EXHAUSTIVE") == "1" else 75
SEED = os.environ.get("SEED")
CLUSTERS_AT_A_TIME = 10
MOST_SHOWN = 5


@pytest.fixture(scope="module")
def comparison(binary: Path) -> Comparison:
    if SEED is not None:
        return compare([int(SEED)])
    parts = [
        range(start, min(start + CLUSTERS_AT_A_TIME, CLUSTERS))
        for start in range(0, CLUSTERS, CLUSTERS_AT_A_TIME)
    ]
    together = Comparison()
    with new_pool() as pool:
        for part in pool.map(compare, parts):
            together.merge(part)
    return together


def test_once_a_pod_is_gone_its_replacement_fits_exactly_where_the_scheduler_says(
    comparison: Comparison,
) -> None:
    assert not comparison.gone, _summary(comparison.gone)


def test_while_a_pod_still_runs_its_replacement_fits_exactly_where_the_scheduler_says(
    comparison: Comparison,
) -> None:
    assert not comparison.with_old_pod, _summary(comparison.with_old_pod)


def test_every_refusal_has_a_reason(comparison: Comparison) -> None:
    assert not comparison.without_reason, _summary(comparison.without_reason)


@pytest.mark.skipif(SEED is not None, reason="one cluster cannot use everything")
def test_the_clusters_use_every_word_of_every_rule(
    comparison: Comparison, say_at_the_end: Callable[[str], None]
) -> None:
    coverage = comparison.coverage
    print(f"\n{coverage.report()}")
    say_at_the_end(
        f"{comparison.clusters} clusters, {comparison.pairs} answers compared with the oracle's; "
        f"it was asked with {len(coverage.used)} features and refused {coverage.shares()}"
    )
    gaps = coverage.gaps()
    assert not gaps, "\n".join(gaps)


def _summary(disagreements: list[str]) -> str:
    shown = "\n\n".join(disagreements[:MOST_SHOWN])
    return f"{len(disagreements)} in all, the first {MOST_SHOWN} of them:\n\n{shown}"
