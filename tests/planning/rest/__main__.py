"""`python -m tests.planning.rest 17`: the rounds of a random cluster, and what is wrong with them.

With `--smaller`, nodes and workloads are left out as long as the same claim fails.
"""

import argparse
import json

from rescheduler.planning.plan import Move
from tests.planning.rest.claims import CLAIMS, Played
from tests.planning.rest.random_clusters import RandomCluster
from tests.planning.rest.rounds import key_of


def main() -> None:
    """Play the cluster of a seed, and print all that is to be known of it."""
    parser = argparse.ArgumentParser(prog="python -m tests.planning.rest", description=__doc__)
    parser.add_argument("seed", type=int)
    parser.add_argument("--smaller", choices=CLAIMS, help="the claim that must still fail")
    options = parser.parse_args()
    cluster = RandomCluster(options.seed)
    if options.smaller:
        cluster = _smaller(cluster, options.smaller)
    _print_cluster(cluster)
    _print_rounds(Played(cluster))


def _smaller(cluster: RandomCluster, claim: str) -> RandomCluster:
    for less in cluster.smaller():
        if any(CLAIMS[claim](Played(less))):
            return _smaller(less, claim)
    return cluster


def _print_cluster(cluster: RandomCluster) -> None:
    print(json.dumps(cluster.arguments, indent=1))
    for node in cluster.nodes:
        labels = node["metadata"]["labels"]
        print(node["metadata"]["name"], node["status"]["allocatable"], labels, node["spec"])
        for pod in cluster.pods:
            spec = pod["spec"]
            if spec["nodeName"] == node["metadata"]["name"]:
                requests = spec["containers"][0].get("resources", {}).get("requests")
                rules = {key: spec[key] for key in spec if key not in ("containers", "nodeName")}
                print(f"  {key_of(pod)} {requests} {pod['metadata']['labels']} {rules}")


def _print_rounds(played: Played) -> None:
    for number, each in enumerate(played.rounds):
        plan = each.plan
        print(f"round {number}: {plan.before.objective:.6g} -> {plan.after.objective:.6g}")
        for move in plan.moves:
            print(f"  {_text(move)}")
        print(f"  {plan.summary}")
    for name, claim in CLAIMS.items():
        for wrong in claim(played):
            print(f"{name}: {wrong}")


def _text(move: Move) -> str:
    where = f"{move.pod} {move.source} -> {move.target}"
    return f"{move.strategy} {where} gains {move.gain:.6g}: {move.reason}"


if __name__ == "__main__":
    main()
