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
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from itertools import count
from multiprocessing import get_context
from pathlib import Path

from tests.planning.exact.move_orders import has_order
from tests.planning.exact.objectives import ALONE, MIXES, value_of
from tests.planning.exact.optimum import Optimum, solve
from tests.planning.exact.plan_optimum import least_value_of_plans
from tests.planning.exact.small_clusters import Counts, SmallCluster, generate_small_cluster

FILE = Path(__file__).with_name("optima.jsonl")
_AT_A_TIME = 8
# A test proves these bounds again.
_SECONDS_FOR_BOUND = 20.0


@dataclass(frozen=True)
class Found:
    """What the solver said of one cluster."""

    mix: str
    seed: int
    digest: str
    moves: list[tuple[int, int, int]]
    """Numbers of the workload, of the node it leaves and of the one it comes to."""
    bound: float
    seconds: float
    """How much CPU that took."""
    plan_bound: float | None = None
    """If no order of these moves was found: no plan leads to less than this."""

    def optimum(self, cluster: SmallCluster) -> Optimum:
        """The end state that the moves lead to."""
        counts = deepcopy(cluster.start)
        for row, source, target in self.moves:
            counts[row][source] -= 1
            counts[row][target] += 1
        return Optimum(counts, value_of(cluster, counts), self.bound)


@cache
def found_before() -> dict[tuple[str, int], Found]:
    """All that are in the file, by mix and seed, in order."""
    lines = FILE.read_text().splitlines() if FILE.exists() else []
    found = [Found(**json.loads(line)) for line in lines]
    return {(each.mix, each.seed): each for each in found}


def find(mix: str, seed: int, longest_seconds: float) -> Found | None:
    """What there is on file about the cluster of a seed, or what solving it gives.

    None if it has nothing to gain, or if it cannot be proven in time that nothing is better.
    """
    cluster = generate_small_cluster(mix, seed)
    known = found_before().get((mix, seed))
    if known is not None and known.digest == cluster.digest:
        return _with_bound(known, cluster)
    started = time.process_time()
    optimum = solve(cluster, longest_seconds)
    if not optimum.gains_anything(cluster) or not optimum.is_proven(cluster):
        return None
    found = Found(
        mix=mix,
        seed=seed,
        digest=cluster.digest,
        moves=list(_moves(cluster, optimum.counts)),
        bound=optimum.bound,
        seconds=round(time.process_time() - started, 2),
    )
    return _with_bound(found, cluster)


def _with_bound(found: Found, cluster: SmallCluster) -> Found:
    """The same, with what plans can reach if that is less than the best end, and proven soon.

    A bound at which the solver ran out of time is another one on another machine.
    """
    if found.plan_bound is not None or has_order(cluster, found.optimum(cluster).counts):
        return found
    started = time.monotonic()
    bound = least_value_of_plans(cluster, _SECONDS_FOR_BOUND)
    is_proven = time.monotonic() - started < _SECONDS_FOR_BOUND
    return replace(found, plan_bound=bound) if is_proven else found


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
    parser.add_argument("--alone", type=int, default=40, help="fair clusters of each strategy")
    parser.add_argument("--together", type=int, default=16, help="fair clusters of each mix")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=300.0, help="for each cluster")
    options = parser.parse_args()
    lines = []
    with _pool(options.processes) as pool:
        for mix in MIXES:
            fair = options.alone if mix in ALONE else options.together
            for found in _enough(_all(pool, mix, options.seconds), fair):
                print(f"{found.mix} seed {found.seed}: {found.seconds}s", flush=True)
                lines.append(json.dumps(asdict(found)) + "\n")
            # Whoever stops it here keeps what it has cost so much time to find.
            FILE.write_text("".join(lines))


def _enough(results: Iterator[Found], fair: int) -> Iterator[Found]:
    """As many as it takes to have so many that can be reached one move after another."""
    for found in results:
        yield found
        cluster = generate_small_cluster(found.mix, found.seed)
        fair -= has_order(cluster, found.optimum(cluster).counts)
        if not fair:
            return


def _pool(processes: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(processes, mp_context=get_context("spawn"))


def _all(pool: ProcessPoolExecutor, mix: str, seconds: float) -> Iterator[Found]:
    """One after another, for the seeds in order."""
    one = partial(find, mix, longest_seconds=seconds)
    for start in count(0, _AT_A_TIME):
        for found in pool.map(one, range(start, start + _AT_A_TIME)):
            if found is not None:
                yield found


if __name__ == "__main__":
    main()
