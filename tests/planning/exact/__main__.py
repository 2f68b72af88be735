"""`python -m tests.planning.exact --mix Defragmentation`: plans beside the exact optimum."""

import argparse
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

from tests.planning.exact.comparison import compare, table
from tests.planning.exact.objectives import MIXES
from tests.planning.exact.optimum import LONGEST_SECONDS


def main() -> None:
    """Compare as many clusters as asked for, and print each and a table."""
    parser = argparse.ArgumentParser(prog="python -m tests.planning.exact", description=__doc__)
    parser.add_argument("--mix", choices=MIXES, action="append")
    parser.add_argument("--clusters", type=int, default=20, help="how many of each mix")
    parser.add_argument("--seed", type=int, default=0, help="of the first cluster")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=LONGEST_SECONDS, help="for the solver")
    options = parser.parse_args()
    seeds = range(options.seed, options.seed + options.clusters)
    results = []
    with ProcessPoolExecutor(options.processes, mp_context=get_context("spawn")) as pool:
        for mix in options.mix or MIXES:
            one = partial(compare, mix, longest_seconds=options.seconds)
            for result in pool.map(one, seeds):
                print(result, flush=True)
                results.append(result)
    print("\n".join(table(results)))


if __name__ == "__main__":
    main()
