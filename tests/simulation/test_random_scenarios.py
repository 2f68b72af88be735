"""Hundreds of random stories with faults, and what the controller promises in each of them.

A story that fails is told again by `SEED=<number> .venv/bin/python -m pytest <this file>`.
"""

import os

import pytest

from tests.simulation.random_scenarios import RandomScenario, violations_in

SEED = os.environ.get("SEED")
STORIES = int(os.environ.get("STORIES", "200"))
CHUNK = 25
SEEDS = [int(SEED)] if SEED else list(range(STORIES))


def failures(seeds: list[int], with_faults: bool) -> list[str]:
    found = []
    for seed in seeds:
        broken = violations_in(RandomScenario(seed, with_faults))
        if broken:
            command = f"SEED={seed} .venv/bin/python -m pytest {__file__}"
            found.append("\n  ".join([f"story {seed} ({command}):", *broken[:8]]))
    return found


@pytest.mark.parametrize("start", range(0, len(SEEDS), CHUNK))
def test_whatever_goes_wrong_all_promises_are_kept(start: int) -> None:
    found = failures(SEEDS[start : start + CHUNK], with_faults=True)
    assert not found, "\n" + "\n".join(found)


def test_without_faults_all_promises_are_kept() -> None:
    found = failures([int(SEED)] if SEED else list(range(1000, 1020)), with_faults=False)
    assert not found, "\n" + "\n".join(found)
