"""A scenario that is repeated is the same to the last write, in every process."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SCRIPT = """
import hashlib, logging
from tests.simulation import random_scenarios

logging.disable()
digest = hashlib.sha256()
begin = random_scenarios.Invariants.begin

def listen(self):
    begin(self)
    for kind in ("Pod", "Migration", "PodDisruptionBudget", "Node", "Event"):
        self.cluster.subscribe(kind, lambda old, new: digest.update(
            f"{self.cluster.clock.seconds()} {old} {new}".encode()))

random_scenarios.Invariants.begin = listen
for seed in (3, 11):
    random_scenarios.violations_in(random_scenarios.RandomScenario(seed))
print(digest.hexdigest())
"""


def digest(hash_seed: str) -> str:
    finished = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    return finished.stdout.strip()


def test_a_seed_replays_exactly_in_another_process() -> None:
    assert digest("1") == digest("2")
