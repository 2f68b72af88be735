"""Random scenarios with faults, in which the controller keeps its invariants.

`EXHAUSTIVE=1` plays forty times as many with faults, and twice as many without. A scenario that
fails is repeated with
`SEED=<number> .venv/bin/python -m pytest <this file>`.
"""

import os

import pytest

from tests.simulation.random_scenarios import RandomScenario, violations_in

pytestmark = pytest.mark.slow

SEED = os.environ.get("SEED")
SCENARIOS, WITHOUT_FAULTS = (1_000, 20) if os.environ.get("EXHAUSTIVE") == "1" else (25, 10)
CHUNK = 25
SEEDS = [int(SEED)] if SEED else list(range(SCENARIOS))


def failures(seeds: list[int], with_faults: bool) -> list[str]:
    found = []
    for seed in seeds:
        violations = violations_in(RandomScenario(seed, with_faults))
        if violations:
            command = f"SEED={seed} .venv/bin/python -m pytest {__file__}"
            found.append("\n  ".join([f"scenario {seed} ({command}):", *violations[:8]]))
    return found


@pytest.mark.parametrize("start", range(0, len(SEEDS), CHUNK))
def test_with_faults_all_invariants_are_kept(start: int) -> None:
    found = failures(SEEDS[start : start + CHUNK], with_faults=True)
    assert not found, "\n" + "\n".join(found)


def test_without_faults_all_invariants_are_kept() -> None:
    seeds = [int(SEED)] if SEED else list(range(10_000, 10_000 + WITHOUT_FAULTS))
    found = failures(seeds, with_faults=False)
    assert not found, "\n" + "\n".join(found)
