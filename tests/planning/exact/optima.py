"""Optima that were found before, for proving one may take the solver minutes.

`python -m tests.planning.exact.optima` writes them to a file. It solves those clusters that are not
in there or, as their digest tells, have changed since.
"""

import argparse
import json
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from copy import deepcopy
from dataclasses import asdict, dataclass
from functools import cache, partial
from itertools import count
from multiprocessing import get_context
from pathlib import Path

from tests.planning.exact.move_orders import has_order
from tests.planning.exact.objectives import STRATEGIES, value_of
from tests.planning.exact.optimum import Optimum, solve
from tests.planning.exact.small_clusters import Counts, SmallCluster, generate_small_cluster

FILE = Path(__file__).with_name("optima.jsonl")
_PATIENCE_SECONDS = 300.0
_AT_A_TIME = 8


@dataclass(frozen=True)
class Found:
    """What the solver said of one cluster."""

    strategy: str
    seed: int
    digest: str
    moves: list[tuple[int, int, int]]
    """Numbers of the workload, of the node it leaves and of the one it comes to."""
    bound: float
    seconds: float
    """How long that took."""

    def optimum(self, cluster: SmallCluster) -> Optimum:
        """The end state that the moves lead to."""
        counts = deepcopy(cluster.start)
        for row, source, target in self.moves:
            counts[row][source] -= 1
            counts[row][target] += 1
        return Optimum(counts, value_of(cluster, counts), self.bound)


@cache
def found_before() -> dict[tuple[str, int], Found]:
    """All that are in the file, by strategy and seed, in order."""
    lines = FILE.read_text().splitlines() if FILE.exists() else []
    found = [Found(**json.loads(line)) for line in lines]
    return {(each.strategy, each.seed): each for each in found}


def find(strategy: str, seed: int, longest_seconds: float) -> Found | None:
    """What there is on file about the cluster of a seed, or what solving it gives.

    None if it has nothing to gain, or if it cannot be proven in time that nothing is better.
    """
    cluster = generate_small_cluster(strategy, seed)
    known = found_before().get((strategy, seed))
    if known is not None and known.digest == cluster.digest:
        return known
    started = time.perf_counter()
    optimum = solve(cluster, longest_seconds)
    if not optimum.gains_anything(cluster) or not optimum.is_proven(cluster):
        return None
    return Found(
        strategy=strategy,
        seed=seed,
        digest=cluster.digest,
        moves=list(_moves(cluster, optimum.counts)),
        bound=optimum.bound,
        seconds=round(time.perf_counter() - started, 2),
    )


def _moves(cluster: SmallCluster, end: Counts) -> Iterator[tuple[int, int, int]]:
    for row, (here, there) in enumerate(zip(cluster.start, end, strict=True)):
        differences = [
            (number, now - then) for number, (now, then) in enumerate(zip(here, there, strict=True))
        ]
        sources = [number for number, more in differences for _ in range(more)]
        targets = [number for number, more in differences for _ in range(-more)]
        yield from zip([row] * len(sources), sources, targets, strict=True)


def main() -> None:
    """Find optima for as many clusters as asked for, and write them down."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clusters", type=int, default=40, help="that make a fair measure, each")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    lines = []
    with _pool(options.processes) as pool:
        for strategy in STRATEGIES:
            for found in _enough(_all(pool, strategy), options.clusters):
                print(f"{found.strategy} seed {found.seed}: {found.seconds}s", flush=True)
                lines.append(json.dumps(asdict(found)) + "\n")
    FILE.write_text("".join(lines))


def _enough(results: Iterator[Found], fair: int) -> Iterator[Found]:
    """As many as it takes to have so many that can be reached one move after another."""
    for found in results:
        yield found
        cluster = generate_small_cluster(found.strategy, found.seed)
        fair -= has_order(cluster, found.optimum(cluster).counts)
        if not fair:
            return


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
