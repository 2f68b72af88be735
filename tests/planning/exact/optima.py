"""Optima that were found before, for proving one may take the solver minutes.

`python -m tests.planning.exact.optima` finds them again and writes them to a file. A puzzle that
has changed since is not in there any more, as its digest tells.
"""

import argparse
import json
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from copy import deepcopy
from dataclasses import asdict, dataclass
from functools import cache, partial
from itertools import count, islice
from multiprocessing import get_context
from pathlib import Path

from tests.planning.exact.objectives import STRATEGIES, value_of
from tests.planning.exact.optimum import Optimum, solve
from tests.planning.exact.puzzles import Counts, Puzzle, generate_puzzle

FILE = Path(__file__).with_name("optima.jsonl")
_PATIENCE_SECONDS = 300.0
_AT_A_TIME = 8


@dataclass(frozen=True)
class Found:
    """What the solver said of one puzzle."""

    strategy: str
    seed: int
    digest: str
    moves: list[tuple[int, int, int]]
    """Numbers of the workload, of the node it leaves and of the one it comes to."""
    bound: float
    seconds: float
    """How long that took."""

    def optimum(self, puzzle: Puzzle) -> Optimum:
        """The end state that the moves lead to."""
        counts = deepcopy(puzzle.start)
        for row, source, target in self.moves:
            counts[row][source] -= 1
            counts[row][target] += 1
        return Optimum(counts, value_of(puzzle, counts), self.bound)


@cache
def found_before() -> dict[tuple[str, int], Found]:
    """All that are in the file, by strategy and seed, in order."""
    lines = FILE.read_text().splitlines() if FILE.exists() else []
    found = [Found(**json.loads(line)) for line in lines]
    return {(each.strategy, each.seed): each for each in found}


def find(strategy: str, seed: int, longest_seconds: float) -> Found | None:
    """Solve the puzzle of a seed; None if it has nothing to gain."""
    puzzle = generate_puzzle(strategy, seed)
    started = time.perf_counter()
    optimum = solve(puzzle, longest_seconds)
    if not optimum.gains_anything(puzzle):
        return None
    return Found(
        strategy=strategy,
        seed=seed,
        digest=puzzle.digest,
        moves=list(_moves(puzzle, optimum.counts)),
        bound=optimum.bound,
        seconds=round(time.perf_counter() - started, 2),
    )


def _moves(puzzle: Puzzle, end: Counts) -> Iterator[tuple[int, int, int]]:
    for row, (here, there) in enumerate(zip(puzzle.start, end, strict=True)):
        differences = [
            (number, now - then) for number, (now, then) in enumerate(zip(here, there, strict=True))
        ]
        sources = [number for number, more in differences for _ in range(more)]
        targets = [number for number, more in differences for _ in range(-more)]
        yield from zip([row] * len(sources), sources, targets, strict=True)


def main() -> None:
    """Find optima for as many puzzles as asked for, and write them down."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clusters", type=int, default=40, help="how many of each strategy")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    with FILE.open("w") as file, _pool(options.processes) as pool:
        for strategy in STRATEGIES:
            for found in islice(_all(pool, strategy), options.clusters):
                print(json.dumps(asdict(found)), file=file, flush=True)
                print(f"{found.strategy} seed {found.seed}: {found.seconds}s", flush=True)


def _pool(processes: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(processes, mp_context=get_context("spawn"))


def _all(pool: ProcessPoolExecutor, strategy: str) -> Iterator[Found]:
    """One after another, for the seeds in order."""
    one = partial(find, strategy, longest_seconds=_PATIENCE_SECONDS)
    for start in count(0, _AT_A_TIME):
        for found in pool.map(one, range(start, start + _AT_A_TIME)):
            if found is not None:
                yield found


if __name__ == "__main__":
    main()
